//! The kernel's probes of TCP connections without data, which find a lost host.

use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// The time without data after which the kernel probes a connection.
pub(crate) const AFTER: Duration = Duration::from_secs(15);
/// The pause between two probes.
pub(crate) const PAUSE: Duration = Duration::from_secs(5);
/// The number of probes without an answer after which a connection is lost.
pub(crate) const COUNT: u32 = 3;

/// Has the kernel probe a connection, or every connection that a listening socket accepts.
pub(crate) fn begin(socket: &impl AsFd) {
    let probes = TcpKeepalive::new().with_time(AFTER).with_interval(PAUSE).with_retries(COUNT);
    if let Err(error) = SockRef::from(socket).set_tcp_keepalive(&probes) {
        tracing::warn!(%error, "a lost host is noticed late, because its connection is not probed");
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn accepted_connections_are_probed_as_their_listener_asks() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        begin(&listener);
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        assert!(!SockRef::from(&client).keepalive().unwrap());
        let accepted = SockRef::from(&accepted);
        assert!(accepted.keepalive().unwrap());
        assert_eq!(accepted.tcp_keepalive_time().unwrap(), AFTER);
    }
}
