//! A raw HTTP/1.1 client over TLS: full control of every byte, streams read as they arrive. Each request has a connection of its own, except those of a [`Session`].

mod answer;
pub mod frames;
mod session;

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use oarlock_config::{Credential, Endpoint, ServerTrust};
use oarlock_pki::{CertificateDer, KeyPair, PrivateKeyDer, parse_chain, tls};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

pub use answer::{Answer, Stream};
pub use session::Session;

use crate::wait::STEP_TIMEOUT;

/// Credential of a request.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a test makes a handful")]
pub enum Who {
    /// The kubeconfig's credential.
    Admin,
    /// No credential.
    Anonymous,
    /// A client certificate.
    Certificate(CertificateDer<'static>, KeyPair),
    /// A bearer token.
    Token(String),
}

/// A raw HTTP client, which verifies the server as the kubeconfig says.
#[derive(Clone, Debug)]
pub struct Http {
    authority: String,
    config: Arc<ClientConfig>,
    token: Option<String>,
    /// Longest silence before a request fails.
    patience: Duration,
}

impl Http {
    /// Creates a client of the server of `endpoint`.
    ///
    /// # Panics
    /// When the kubeconfig's certificates are invalid.
    #[must_use]
    pub fn new(endpoint: &Endpoint, who: Who) -> Self {
        let trust = match &endpoint.trust {
            ServerTrust::Authorities(authority) => {
                tls::ServerTrust::Authorities(parse_chain(authority).expect("the authority"))
            }
            ServerTrust::Anybody => tls::ServerTrust::Anybody,
            ServerTrust::System => panic!("the kubeconfig names no authority"),
        };
        let (identity, token): (Option<(Vec<_>, PrivateKeyDer<'static>)>, _) = match who {
            Who::Admin => {
                let Credential::Certificate(own) = &endpoint.credential else {
                    panic!("the kubeconfig holds no certificate")
                };
                let key = KeyPair::from_pem(&own.key).expect("the key").to_rustls();
                (Some((parse_chain(&own.certificate).expect("the certificate"), key)), None)
            }
            Who::Anonymous => (None, None),
            Who::Certificate(certificate, key) => (Some((vec![certificate], key.to_rustls())), None),
            Who::Token(token) => (None, Some(token)),
        };
        let config = tls::client_config(trust, identity).expect("a TLS configuration");
        Self { authority: endpoint.authority().to_owned(), config: Arc::new(config), token, patience: STEP_TIMEOUT }
    }

    /// Returns the client with another address of the server, or of a server with the same names.
    #[must_use]
    pub fn at(&self, address: SocketAddr) -> Self {
        Self { authority: address.to_string(), ..self.clone() }
    }

    /// Returns the client with another limit for silence.
    #[must_use]
    pub fn patience(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    /// Returns the server's host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.authority
    }

    /// Sends a GET for a path with query.
    ///
    /// # Panics
    /// When no answer arrives.
    #[must_use]
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    /// Sends a GET to a server that may be unreachable.
    ///
    /// # Errors
    /// When the connection fails or no answer arrives.
    pub fn try_get(&self, path: &str) -> io::Result<Answer> {
        self.try_send("GET", path, &[], b"")
    }

    /// Sends a request with a JSON body.
    ///
    /// # Panics
    /// When no answer arrives.
    #[must_use]
    pub fn json(&self, method: &str, path: &str, body: &serde_json::Value) -> Answer {
        self.send(method, path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
    }

    /// Sends a request exactly as given.
    ///
    /// # Panics
    /// When no answer arrives.
    #[must_use]
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.try_send(method, path, headers, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Sends a request to a server that may be unreachable.
    ///
    /// # Errors
    /// When the connection fails or no answer arrives.
    pub fn try_send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
        self.open(method, path, headers, body)?.finish()
    }

    /// Sends a request whose answer is read as a stream.
    ///
    /// # Errors
    /// When the connection fails, or the answer is not HTTP.
    pub fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Stream> {
        let headers = [&[("Connection", "close")], headers].concat();
        self.raw(self.head(method, path, &headers, body).as_bytes(), body)
    }

    /// Returns the head of a request.
    fn head(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.authority);
        if let Some(token) = &self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || method != "GET" {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head + "\r\n"
    }

    /// Sends raw bytes, which need not be a valid request.
    ///
    /// # Errors
    /// When the connection fails, or the answer is not HTTP.
    pub fn raw(&self, head: &[u8], body: &[u8]) -> io::Result<Stream> {
        let Connection(mut tls) = self.connect(b"http/1.1")?;
        tls.write_all(head)?;
        // A server that refuses a large body answers and closes without reading it: its answer counts.
        let written = tls.write_all(body).and_then(|()| tls.flush());
        Stream::read_head(BufReader::new(Connection(tls))).map_err(|error| written.err().unwrap_or(error))
    }

    /// Connects, with an application protocol (ALPN).
    fn connect(&self, protocol: &[u8]) -> io::Result<Connection> {
        let host = self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host);
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(io::Error::other)?;
        let address = self.authority.to_socket_addrs()?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let tcp = TcpStream::connect_timeout(&address, self.patience)?;
        tcp.set_read_timeout(Some(self.patience))?;
        tcp.set_write_timeout(Some(self.patience))?;
        tcp.set_nodelay(true)?;
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![protocol.to_vec()];
        let session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        Ok(Connection(StreamOwned::new(session, tcp)))
    }
}

/// A TLS connection. An end without `close_notify` counts as a normal end (an answer's length is checked elsewhere).
pub(crate) struct Connection(StreamOwned<ClientConnection, TcpStream>);

impl Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            other => other,
        }
    }
}
