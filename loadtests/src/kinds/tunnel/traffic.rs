//! The streams and round trips that go through a tunnel.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::stream::{StreamExt as _, TryStreamExt as _};
use oarlock_runtime::gate::Gate;
use oarlock_streams::BoxIo;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::programs::Running;
use crate::clock::now;
use crate::report::Times;

/// The sockets of this process: two for each stream, with room for thousands.
const SOCKETS: u64 = 16_384;
/// Size of the pieces that streams read.
const PIECE: usize = 64 << 10;
/// How many streams are dialled at one time.
const DIALS: usize = 32;
/// The longest time until all streams have ended.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// Raises the number of sockets that this process may open, and its children with it.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn allow_sockets() -> anyhow::Result<()> {
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|limit| limit >= SOCKETS) {
        return Ok(());
    }
    let current = Some(now.maximum.map_or(SOCKETS, |most| most.min(SOCKETS)));
    setrlimit(Resource::Nofile, Rlimit { current, ..now }).context("too few sockets are allowed (ulimit -n)")
}

/// Sends single bytes there and back.
///
/// # Errors
/// When the connection breaks.
pub(crate) async fn round_trips(stream: &mut BoxIo, count: usize) -> anyhow::Result<Times> {
    let mut times = Times::default();
    for _ in 0..count {
        let begun = now();
        stream.write_all(b"x").await?;
        stream.flush().await?;
        stream.read_exact(&mut [0]).await?;
        times.add(begun.elapsed());
    }
    Ok(times)
}

/// Bytes that streams have carried until a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    bytes: u64,
    at: Instant,
}

impl Moved {
    /// The bytes and seconds since an earlier moment.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(crate) fn since(self, begun: Self) -> (f64, f64) {
        ((self.bytes - begun.bytes) as f64, (self.at - begun.at).as_secs_f64())
    }
}

/// Streams at full speed.
pub(crate) struct Load {
    gate: Gate,
    ends: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    broken: Arc<AtomicU64>,
}

impl Load {
    /// Opens streams, and reads each of them in a task of its own.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub(crate) async fn start(running: &Running, source: SocketAddr, count: usize) -> anyhow::Result<Self> {
        let streams = futures::stream::iter(0..count).map(|_| running.dial(source)).buffer_unordered(DIALS);
        let streams: Vec<BoxIo> = streams.try_collect().await?;
        let load =
            Self { gate: Gate::new("streams"), ends: Arc::default(), bytes: Arc::default(), broken: Arc::default() };
        for mut stream in streams {
            let (ends, bytes, broken) = (Arc::clone(&load.ends), Arc::clone(&load.bytes), Arc::clone(&load.broken));
            let read = async move {
                let mut piece = vec![0; PIECE];
                while !ends.load(Ordering::Relaxed) {
                    match stream.read(&mut piece).await {
                        Ok(read) if read > 0 => {
                            bytes.fetch_add(u64::try_from(read).unwrap_or_default(), Ordering::Relaxed);
                        }
                        Ok(_) | Err(_) => {
                            broken.fetch_add(1, Ordering::Relaxed);
                            return;
                        }
                    }
                }
            };
            load.gate.spawn("stream", read).map_err(|_| anyhow::anyhow!("the streams have ended"))?;
        }
        Ok(load)
    }

    pub(crate) fn moved(&self) -> Moved {
        Moved { bytes: self.bytes.load(Ordering::Relaxed), at: now() }
    }

    /// Ends the streams.
    ///
    /// # Errors
    /// When one was broken before.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        let broken = self.broken.load(Ordering::Relaxed);
        ensure!(broken == 0, "{broken} streams were broken");
        self.ends.store(true, Ordering::Relaxed);
        let end = async {
            while self.gate.inside() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(END_TIMEOUT, end).await.context("the streams do not end")
    }
}
