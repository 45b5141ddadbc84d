//! What changes about a server while it runs: whether it is ready, whether and how far it is going.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use oarlock_bus::Bus;
use oarlock_meta::Revision;
use oarlock_runtime::Watched;
use tokio::sync::watch;

/// The flags behind the health checks, and what is under way.
#[derive(Debug)]
pub struct State {
    bootstrapped: watch::Sender<bool>,
    stopping: AtomicBool,
    /// Once set, requests are refused.
    refusing: AtomicBool,
    /// Once set, watches end, spread over so long.
    watches_end: Arc<Watched<Option<Duration>>>,
    /// Requests under way that end by themselves.
    requests: Arc<watch::Sender<usize>>,
    watches: Arc<AtomicUsize>,
    /// Watches tell their clients when they have come past this.
    milestone: Arc<Watched<Revision>>,
    /// The way to the crew's other processes, where there is one.
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

/// A request under way, until it is dropped.
#[derive(Debug)]
pub struct Request(Arc<watch::Sender<usize>>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.send_modify(|requests| *requests -= 1);
    }
}

/// A watch under way, until it is dropped.
#[derive(Debug)]
pub struct Watching(Arc<AtomicUsize>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl State {
    /// From now on other processes can be asked. The first bus stands.
    pub fn set_bus(&self, bus: Bus) {
        self.bus.get_or_init(|| bus);
    }

    /// The way to other processes, if there is one.
    #[must_use]
    pub fn bus(&self) -> Option<Bus> {
        self.bus.get().cloned()
    }

    /// What must be there when readyz says ok is there.
    pub fn set_bootstrapped(&self) {
        self.bootstrapped.send_replace(true);
    }

    /// Whether it is.
    #[must_use]
    pub fn is_bootstrapped(&self) -> bool {
        *self.bootstrapped.borrow()
    }

    /// Waits until it is.
    pub async fn bootstrapped(&self) {
        // Err means that the sender is gone, which `self` holds.
        let _ = self.bootstrapped.subscribe().wait_for(|done| *done).await;
    }

    /// The server is about to end, and is not ready any more.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether it is.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The server does nothing new any more.
    pub fn set_refusing(&self) {
        self.refusing.store(true, Ordering::Release);
    }

    /// Whether it does not.
    #[must_use]
    pub fn is_refusing(&self) -> bool {
        self.refusing.load(Ordering::Acquire)
    }

    /// Counts a request that ends by itself.
    #[must_use]
    pub fn request(&self) -> Request {
        self.requests.send_modify(|requests| *requests += 1);
        Request(Arc::clone(&self.requests))
    }

    /// Waits until none is under way.
    pub async fn requests_done(&self) {
        let _ = self.requests.subscribe().wait_for(|requests| *requests == 0).await;
    }

    /// Clients want to know soon that their watches have come past `revision`.
    pub fn set_milestone(&self, revision: Revision) {
        self.milestone.set(revision);
    }

    /// The last milestone, and those to come.
    #[must_use]
    pub fn milestones(&self) -> &Arc<Watched<Revision>> {
        &self.milestone
    }

    /// Counts a watch; the future tells when it is to end, and over how long all are spread.
    pub fn watch(&self) -> (Watching, impl Future<Output = Duration> + Send + use<>) {
        self.watches.fetch_add(1, Ordering::Relaxed);
        let end = Arc::clone(&self.watches_end);
        let ends = async move { end.wait_for(Option::is_some).await.unwrap_or_default() };
        (Watching(Arc::clone(&self.watches)), ends)
    }

    /// How many watches there are.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.watches.load(Ordering::Relaxed)
    }

    /// Watches end, spread over so long.
    pub fn end_watches(&self, spread: Duration) {
        self.watches_end.set(Some(spread));
    }
}

impl Drop for State {
    /// A server that is dropped ends its watches too.
    fn drop(&mut self) {
        self.watches_end.modify(|spread| spread.replace(spread.unwrap_or_default()).is_none());
    }
}
