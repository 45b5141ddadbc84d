//! A connection between a client and the server that a test can cut and restore. TLS passes through unchanged.

use std::net::SocketAddr;

use oarlock_testkit::wait::eventually;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A link. While the link is cut, every connection over it breaks and no new one is accepted. The link ends when dropped.
pub(crate) struct Link {
    /// The address to which clients connect instead of the server.
    pub(crate) address: SocketAddr,
    whole: watch::Sender<bool>,
    _carrier: JoinSet<()>,
}

impl Link {
    pub(crate) async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (whole, state) = watch::channel(true);
        let mut carrier = JoinSet::new();
        carrier.spawn(accept(listener, server.to_owned(), state));
        Self { address, whole, _carrier: carrier }
    }

    /// Breaks every connection, and returns when nothing can arrive over one any more. The runtime needs another worker for that.
    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
        // One receiver belongs to the listener, and one to each connection that is not broken yet.
        eventually("connections break", || match self.whole.receiver_count() {
            1 => Ok(()),
            more => Err(more),
        });
    }

    pub(crate) fn mend(&self) {
        self.whole.send_replace(true);
    }
}

async fn accept(listener: TcpListener, server: String, state: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        connections.spawn(carry(client, server.clone(), state.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(mut client: TcpStream, server: String, mut state: watch::Receiver<bool>) {
    if !*state.borrow() {
        return;
    }
    let Ok(mut upstream) = TcpStream::connect(server).await else { return };
    tokio::select! {
        _ended = tokio::io::copy_bidirectional(&mut client, &mut upstream) => {}
        _cut = state.wait_for(|whole| !whole) => {}
    }
}
