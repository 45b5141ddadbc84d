//! A workload of clients that create, update, delete, get, list in pages and watch over real HTTPS at one or several servers, and record every call and event for
//! `oarlock-check`.
//!
//! A write names the revision that it replaces, or none, and is never repeated: a call whose connection breaks, or that gets a 5xx of unknown effect, stays unknown. Each call
//! goes to a random server, except the one that has just not answered; a watch that ends or breaks continues at the next server.

mod client;
mod collection;
mod watcher;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use crate::history::Recorder;
use crate::http::Http;
use crate::wait::{Progress, pause};

use self::client::Client;
pub use self::collection::Collection;
use self::watcher::Watcher;

/// A server of the workload, with its name in the history.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Name of the server in the history.
    pub name: String,
    /// HTTP client of the server. Its address must stay valid across restarts of the server, as a link of [`crate::chaos::Chaos`] does.
    pub http: Http,
}

/// Amount and kind of work.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of clients, each with one call at a time.
    pub clients: usize,
    /// Number of watches per collection; every second one selects the label `tier=gold`.
    pub watches: usize,
    /// Number of object names per collection.
    pub names: u64,
    /// Collections that are written.
    pub collections: Vec<Collection>,
    /// Seed of the random calls.
    pub seed: u64,
    /// Silence of a server, at least 2 s, after which a call counts as unknown or a watch as broken.
    pub patience: Duration,
}

impl Default for Options {
    /// 6 clients and 2 watches on 12 ConfigMaps and 12 Pods of the namespace `default`.
    fn default() -> Self {
        let collections = vec![Collection::config_maps("default"), Collection::pods("default")];
        Self { clients: 6, watches: 2, names: 12, collections, seed: 1, patience: Duration::from_secs(10) }
    }
}

/// Counters of a workload; a fault that changes none of them had no effect.
#[derive(Debug, Default)]
pub struct Counts {
    /// Calls that succeeded.
    pub ok: AtomicU64,
    /// Calls that were refused.
    pub rejected: AtomicU64,
    /// Refused calls whose reason does not depend on the state; the first is printed. Only an overloaded server, or one that has lost data, gives such reasons.
    pub other: AtomicU64,
    /// Calls with an unknown outcome.
    pub unknown: AtomicU64,
    /// Events received by watches.
    pub events: AtomicU64,
    /// Watches that broke and were resumed.
    pub broken: AtomicU64,
    /// Watches that ended cleanly and were resumed.
    pub resumed: AtomicU64,
    /// Watches that got a 410 and started anew.
    pub gone: AtomicU64,
    /// Description of the last of [`Self::marks`].
    last: Mutex<String>,
}

impl Counts {
    /// Increments a counter; returns its previous value.
    fn count(counter: &AtomicU64) -> u64 {
        counter.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a call with an unknown outcome or a broken watch, with its cause.
    fn mark(&self, counter: &AtomicU64, why: String) {
        *self.last.lock() = why;
        Self::count(counter);
    }

    /// Returns the number of calls with an unknown outcome and of broken watches.
    #[must_use]
    pub fn marks(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed) + self.broken.load(Ordering::Relaxed)
    }

    /// Asserts that no call and no watch has failed since [`Self::marks`] had this value.
    ///
    /// # Panics
    /// When one has failed; the message describes the last failure.
    #[track_caller]
    pub fn no_more_than(&self, marks: u64) {
        let more = self.marks() - marks;
        assert!(more == 0, "{more} calls and watches have failed, the last: {}", self.last.lock());
    }
}

/// State shared by all clients of a workload.
#[derive(Debug)]
struct Shared {
    recorder: Arc<Recorder>,
    replicas: Vec<Replica>,
    options: Options,
    counts: Counts,
    /// Set when clients must not begin further calls.
    enough: AtomicBool,
    /// For each collection, the revision after which its watches may end; 0 while unknown.
    last: Vec<AtomicU64>,
}

/// Running clients and watches of a workload.
#[derive(Debug)]
pub struct Workload {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
    watchers: Vec<JoinHandle<()>>,
}

impl Workload {
    /// Starts all clients and watches.
    ///
    /// # Panics
    /// When threads cannot be started.
    #[must_use]
    pub fn start(recorder: Arc<Recorder>, replicas: Vec<Replica>, options: Options) -> Self {
        let patience = options.patience;
        let replicas = replicas.into_iter().map(|own| Replica { http: own.http.patience(patience), ..own }).collect();
        let last = options.collections.iter().map(|_| AtomicU64::new(0)).collect();
        let shared =
            Shared { recorder, replicas, options, counts: Counts::default(), enough: AtomicBool::new(false), last };
        let shared = Arc::new(shared);
        let clients = (0..shared.options.clients).map(|number| {
            let client = Client::new(Arc::clone(&shared), format!("c{number}"), number as u64);
            thread(client.name().to_owned(), move || client.run())
        });
        let clients = clients.collect();
        let (collections, watches) = (shared.options.collections.len(), shared.options.watches);
        let watchers = (0..collections).flat_map(|collection| (0..watches).map(move |number| (collection, number)));
        let watchers = watchers.map(|(collection, number)| {
            let watcher = Watcher::new(Arc::clone(&shared), collection, number);
            thread(format!("watch {collection} {number}"), move || watcher.run())
        });
        let watchers = watchers.collect();
        Self { shared, clients, watchers }
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Waits for this many more successful calls and this many more events.
    ///
    /// # Panics
    /// When the count of missing ones stands still, or a client has failed.
    pub fn goes_on(&self, calls: u64, events: u64) {
        let missing = |counter: &AtomicU64, wanted: u64| wanted.saturating_sub(counter.load(Ordering::Relaxed));
        let (ok, told) = (&self.counts().ok, &self.counts().events);
        let wanted = (ok.load(Ordering::Relaxed) + calls, told.load(Ordering::Relaxed) + events);
        let mut progress = Progress::default();
        loop {
            let (calls, events) = (missing(ok, wanted.0), missing(told, wanted.1));
            if (calls, events) == (0, 0) {
                return;
            }
            let failed = self.clients.iter().chain(&self.watchers).any(JoinHandle::is_finished);
            assert!(!failed, "a client has ended");
            let stalled = progress.stalled(format!("{calls} calls and {events} events too few"));
            assert!(!stalled, "nothing goes on: {progress}: {:?}", self.counts());
            pause();
        }
    }

    /// Ends the clients, writes one last object to each collection and waits until every watch has received it. A watch that does not is left to the checker.
    ///
    /// # Panics
    /// When a client failed, or writes no longer succeed.
    pub fn finish(self) -> Counts {
        self.shared.enough.store(true, Ordering::Release);
        let join = |threads: Vec<JoinHandle<()>>| {
            for thread in threads {
                if let Err(panic) = thread.join() {
                    std::panic::resume_unwind(panic);
                }
            }
        };
        join(self.clients);
        let mut last = Client::new(Arc::clone(&self.shared), "last".to_owned(), u64::MAX);
        for (number, revision) in self.shared.last.iter().enumerate() {
            revision.store(last.final_write(number), Ordering::Release);
            // A second write wakes the watches that received the first before they knew it to be the last.
            last.final_write(number);
        }
        drop(last);
        join(self.watchers);
        Arc::into_inner(self.shared).map(|shared| shared.counts).unwrap_or_default()
    }
}

fn thread(name: String, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::Builder::new().name(name).spawn(run).expect("a thread")
}
