//! What is dialled through a tunnel.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oarlock_runtime::gate::Gate;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Destinations of one test; they end with the test's runtime.
pub(super) struct Destinations(Gate);

/// A listening destination.
pub(super) struct Destination {
    /// `host:port`.
    pub(super) address: String,
    /// The number of its connections that have ended with an error.
    pub(super) broken: Arc<AtomicUsize>,
}

impl Destinations {
    pub(super) fn new() -> Self {
        Self(Gate::new("destinations"))
    }

    /// Sends back what arrives.
    pub(super) async fn echo(&self) -> Destination {
        self.listen(|mut socket| async move {
            let (mut read, mut write) = socket.split();
            tokio::io::copy(&mut read, &mut write).await?;
            write.shutdown().await
        })
        .await
    }

    /// Reads to the end, then answers with the number of bytes.
    pub(super) async fn counting(&self) -> Destination {
        self.listen(|mut socket| async move {
            let mut all = Vec::new();
            socket.read_to_end(&mut all).await?;
            socket.write_all(all.len().to_string().as_bytes()).await
        })
        .await
    }

    /// Sends so many bytes.
    pub(super) async fn source(&self, bytes: usize) -> Destination {
        self.listen(move |mut socket| async move { socket.write_all(&vec![7; bytes]).await }).await
    }

    /// Reads nothing.
    pub(super) async fn deaf(&self) -> Destination {
        self.listen(|socket| async move {
            let _unread = socket;
            std::future::pending().await
        })
        .await
    }

    async fn listen<F>(&self, serve: impl Fn(TcpStream) -> F + Send + 'static) -> Destination
    where
        F: Future<Output = std::io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (gate, broken) = (self.0.clone(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&broken);
        let accept = async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (connection, count) = (serve(socket), Arc::clone(&count));
                let served = async move {
                    if connection.await.is_err() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                };
                gate.spawn("connection", served).unwrap();
            }
        };
        self.0.spawn("listener", accept).unwrap();
        Destination { address, broken }
    }
}
