//! Run-time state of a server: readiness, shutdown progress, and the number of requests and watches in flight.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use oarlock_bus::Bus;
use oarlock_meta::Revision;
use oarlock_runtime::Watched;
use tokio::sync::watch;

/// Flags behind the health checks, and counters of the requests and watches in flight.
#[derive(Debug)]
pub struct State {
    bootstrapped: watch::Sender<bool>,
    stopping: AtomicBool,
    /// Whether new requests are refused with 429.
    refusing: AtomicBool,
    /// Set when watches must end; the duration is the period over which their ends are spread.
    watches_end: Arc<Watched<Option<Duration>>>,
    /// Number of requests in flight, without watches and streams.
    requests: Arc<watch::Sender<usize>>,
    watches: Arc<AtomicUsize>,
    /// Watches send a bookmark once they have passed this revision.
    milestone: Arc<Watched<Revision>>,
    /// The message bus to the other processes of the crew; unset without a crew.
    bus: OnceLock<Bus>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            bootstrapped: watch::Sender::new(false),
            stopping: AtomicBool::default(),
            refusing: AtomicBool::default(),
            watches_end: Arc::default(),
            requests: Arc::new(watch::Sender::new(0)),
            watches: Arc::default(),
            milestone: Arc::new(Watched::new(Revision::ZERO)),
            bus: OnceLock::new(),
        }
    }
}

/// A counted request, until dropped.
#[derive(Debug)]
pub struct Request(Arc<watch::Sender<usize>>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.send_modify(|requests| *requests -= 1);
    }
}

/// A counted watch, until dropped.
#[derive(Debug)]
pub struct Watching(Arc<AtomicUsize>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl State {
    /// Sets the message bus. Later calls are ignored.
    pub fn set_bus(&self, bus: Bus) {
        self.bus.get_or_init(|| bus);
    }

    /// Returns the message bus, if one is set.
    #[must_use]
    pub fn bus(&self) -> Option<Bus> {
        self.bus.get().cloned()
    }

    /// Marks bootstrap as finished.
    pub fn set_bootstrapped(&self) {
        self.bootstrapped.send_replace(true);
    }

    /// Whether bootstrap has finished.
    #[must_use]
    pub fn is_bootstrapped(&self) -> bool {
        *self.bootstrapped.borrow()
    }

    /// Waits until bootstrap has finished.
    pub async fn bootstrapped(&self) {
        // An error means that the sender was dropped, but `self` holds it.
        let _ = self.bootstrapped.subscribe().wait_for(|done| *done).await;
    }

    /// Marks the server as shutting down, so that `/readyz` fails.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether the server is shutting down.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Makes the server refuse new requests with 429.
    pub fn set_refusing(&self) {
        self.refusing.store(true, Ordering::Release);
    }

    /// Whether new requests are refused with 429.
    #[must_use]
    pub fn is_refusing(&self) -> bool {
        self.refusing.load(Ordering::Acquire)
    }

    /// Counts a request that is neither a watch nor a stream.
    #[must_use]
    pub fn request(&self) -> Request {
        self.requests.send_modify(|requests| *requests += 1);
        Request(Arc::clone(&self.requests))
    }

    /// Waits until no counted request is in flight.
    pub async fn requests_done(&self) {
        let _ = self.requests.subscribe().wait_for(|requests| *requests == 0).await;
    }

    /// Makes watches send a bookmark soon after they have passed `revision`.
    pub fn set_milestone(&self, revision: Revision) {
        self.milestone.set(revision);
    }

    /// Returns the current milestone revision, for waiting on later ones.
    #[must_use]
    pub fn milestones(&self) -> &Arc<Watched<Revision>> {
        &self.milestone
    }

    /// Counts a watch. The returned future resolves when watches must end, to the period over which their ends are spread.
    pub fn watch(&self) -> (Watching, impl Future<Output = Duration> + Send + use<>) {
        self.watches.fetch_add(1, Ordering::Relaxed);
        let end = Arc::clone(&self.watches_end);
        let ends = async move { end.wait_for(Option::is_some).await.unwrap_or_default() };
        (Watching(Arc::clone(&self.watches)), ends)
    }

    /// Returns the number of open watches.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.watches.load(Ordering::Relaxed)
    }

    /// Makes all watches end, spread over the period `spread`.
    pub fn end_watches(&self, spread: Duration) {
        self.watches_end.set(Some(spread));
    }
}

impl Drop for State {
    /// Ends the watches of a server that is dropped.
    fn drop(&mut self) {
        self.watches_end.modify(|spread| spread.replace(spread.unwrap_or_default()).is_none());
    }
}
