//! The connections that wait at a listening socket which is about to close.
//!
//! The kernel answers a client that connects, and queues the connection. A socket that closes resets the connections in its queue: their clients have
//! sent requests whose outcome they do not know. So the queue is emptied first, and at the end no new connection gets in any more.

use std::net::SocketAddr;
use std::time::Duration;

use oarlock_runtime::{Instant, clock};
use oarlock_seeded_bug::seeded_bug;
use socket2::{SockFilter, SockRef};
use tokio::net::{TcpListener, TcpStream};

/// The backlog counts as empty when no connection arrives for this long.
const QUIET: Duration = Duration::from_millis(10);
/// Time limit for emptying the backlog while clients still connect.
const DRAIN_LIMIT: Duration = Duration::from_millis(500);

/// A program for the kernel's packet filter (Linux, `networking/filter.rst`) that drops each TCP segment which asks for a new connection: SYN is set and
/// ACK is not (RFC 9293, 3.1). The client asks again after a second, and is refused then since the socket is closed. Handshakes that have begun
/// come to their end.
const NO_NEW_CONNECTIONS: [SockFilter; 5] = [
    // Load the byte of the flags; keep SYN (0x02) and ACK (0x10); if only SYN is left drop the segment, else take the whole of it.
    SockFilter::new(0x30, 0, 0, 13),
    SockFilter::new(0x54, 0, 0, 0x12),
    SockFilter::new(0x15, 0, 1, 0x02),
    SockFilter::new(0x06, 0, 0, 0),
    SockFilter::new(0x06, 0, 0, u32::MAX),
];

/// The outcome of accepting a connection.
type Accepted = std::io::Result<(TcpStream, SocketAddr)>;

/// Empties the backlog of a socket that is about to close.
pub(super) struct Backlog<'a> {
    socket: &'a TcpListener,
    limit: Instant,
    closed_to_new: bool,
}

impl<'a> Backlog<'a> {
    pub(super) fn new(socket: &'a TcpListener) -> Self {
        Self { socket, limit: clock::after(DRAIN_LIMIT), closed_to_new: false }
    }

    /// Returns the next waiting connection; `None` when there is none, and none can come.
    pub(super) async fn next(&mut self) -> Option<Accepted> {
        loop {
            if !self.limit.passed()
                && let Ok(accepted) = clock::timeout(QUIET, self.socket.accept()).await
            {
                return Some(accepted);
            }
            if self.closed_to_new {
                return None;
            }
            if !seeded_bug!("closing_resets_connections")
                && let Err(error) = SockRef::from(self.socket).attach_filter(&NO_NEW_CONNECTIONS)
            {
                tracing::debug!(%error, "connections that arrive while the socket closes will be reset");
            }
            (self.closed_to_new, self.limit) = (true, clock::after(DRAIN_LIMIT));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::net::TcpStream as Blocking;
    use std::thread;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Connects again and again until the server is closed; the errors of all connections.
    fn client(server: SocketAddr) -> Vec<ErrorKind> {
        let mut errors = Vec::new();
        let ask = || {
            let mut stream = Blocking::connect(server)?;
            stream.write_all(b"?")?;
            stream.read_exact(&mut [0])
        };
        while errors.last() != Some(&ErrorKind::ConnectionRefused) {
            errors.extend(ask().err().map(|error| error.kind()));
        }
        errors
    }

    #[tokio::test]
    async fn no_client_is_reset_by_a_socket_that_closes() {
        for _ in 0..5 {
            let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let server = socket.local_addr().unwrap();
            let start = || thread::Builder::new().spawn(move || client(server)).unwrap();
            let clients: Vec<_> = std::iter::repeat_with(start).take(8).collect();
            let mut backlog = Backlog::new(&socket);
            let mut served = 0;
            while let Some(accepted) = backlog.next().await {
                let ((mut stream, _), mut byte) = (accepted.unwrap(), [0]);
                stream.read_exact(&mut byte).await.unwrap();
                stream.write_all(&byte).await.unwrap();
                served += 1;
            }
            // Whoever connects now would be reset, were new connections still taken.
            clock::sleep(QUIET).await;
            drop(socket);
            assert!(served > 0, "nobody connected");
            for client in clients {
                assert_eq!(client.join().unwrap(), [ErrorKind::ConnectionRefused]);
            }
        }
    }
}
