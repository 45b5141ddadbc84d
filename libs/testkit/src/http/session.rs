//! Requests over one connection, for tests that send thousands: a TLS handshake for each would take most of their time.

use std::io::{self, BufReader, Write as _};

use super::{Answer, Connection, Http, Stream};

/// A client whose requests follow each other on one connection. After an answer that closes the connection, the next request opens another one.
pub struct Session {
    http: Http,
    connection: Option<BufReader<Connection>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("http", &self.http).finish_non_exhaustive()
    }
}

impl Http {
    /// Returns a session of this client.
    #[must_use]
    pub fn session(&self) -> Session {
        Session { http: self.clone(), connection: None }
    }
}

impl Session {
    /// Sends a request with a whole body.
    ///
    /// # Panics
    /// When no answer arrives.
    #[must_use]
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.try_send(method, path, headers, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    fn try_send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => BufReader::new(self.http.connect(b"http/1.1")?),
        };
        let head = self.http.head(method, path, headers, body);
        let tls = &mut connection.get_mut().0;
        tls.write_all(&[head.as_bytes(), body].concat())?;
        tls.flush()?;
        let (answer, connection) = Stream::read_head(connection)?.finish_and_keep()?;
        self.connection = connection;
        Ok(answer)
    }
}
