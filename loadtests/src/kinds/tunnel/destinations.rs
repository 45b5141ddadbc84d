//! The destinations behind a tunnel: one sends without end, one sends back what arrives.

use std::net::SocketAddr;

use bytes::Bytes;
use oarlock_runtime::gate::Gate;
use oarlock_streams::BoxIo;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

/// Size of the pieces that the source writes.
const PIECE: usize = 64 << 10;

/// The destinations. They end with their connections.
pub(crate) struct Destinations {
    /// Sends as fast as it can.
    pub(crate) source: SocketAddr,
    /// Sends back what arrives.
    pub(crate) echo: SocketAddr,
    gate: Gate,
}

impl Destinations {
    /// Starts the destinations on ports of this host.
    ///
    /// # Errors
    /// When no port is free.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let gate = Gate::new("destinations");
        let piece = Bytes::from(vec![7; PIECE]);
        let source = listen(&gate, move |mut socket| {
            let piece = piece.clone();
            async move {
                // Until the connection ends, which is no error.
                while socket.write_all(&piece).await.is_ok() {}
            }
        });
        let source = source.await?;
        let echo = listen(&gate, |mut socket| async move {
            let (mut read, mut write) = socket.split();
            drop(tokio::io::copy(&mut read, &mut write).await);
        });
        Ok(Self { source, echo: echo.await?, gate })
    }

    /// Connects to the echo without a tunnel.
    ///
    /// # Errors
    /// When the connection fails.
    pub(crate) async fn direct(&self) -> anyhow::Result<BoxIo> {
        let socket = TcpStream::connect(self.echo).await?;
        socket.set_nodelay(true)?;
        Ok(Box::new(socket))
    }
}

impl Drop for Destinations {
    fn drop(&mut self) {
        self.gate.token().cancel();
    }
}

/// Serves each connection in a task of its own.
async fn listen<F>(gate: &Gate, serve: impl Fn(TcpStream) -> F + Send + 'static) -> anyhow::Result<SocketAddr>
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (inner, stop) = (gate.clone(), gate.token());
    let accept = async move {
        while let Some(Ok((socket, _))) = stop.run_until_cancelled(listener.accept()).await {
            // TCP_NODELAY only saves latency; a failure is harmless.
            drop(socket.set_nodelay(true));
            let (served, stop) = (serve(socket), stop.clone());
            let served = async move {
                let _: Option<()> = stop.run_until_cancelled(served).await;
            };
            if inner.spawn("connection", served).is_err() {
                return;
            }
        }
    };
    gate.spawn("listener", accept).map_err(|_| anyhow::anyhow!("the destinations have ended"))?;
    Ok(address)
}
