//! Clients that create, update, delete, get, list in pages and watch over real HTTPS at one or several servers, and write down every call and
//! event for `oarlock-check`.
//!
//! A write names the revision it wants to replace, or none; it is never tried again: a call whose connection breaks, or that a 5xx leaves open, is
//! unknown for ever. Each call goes to a server drawn anew, but not to the one that has just not answered; a watch that ends or breaks goes on at the
//! next one.

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

/// A server under a name.
#[derive(Clone, Debug)]
pub struct Replica {
    /// As the history calls it.
    pub name: String,
    /// The way to it. It must outlive restarts of the server: a link of [`crate::chaos::Chaos`] does.
    pub http: Http,
}

/// How much is done.
#[derive(Clone, Debug)]
pub struct Options {
    /// Clients, each with one call at a time.
    pub clients: usize,
    /// Watches per collection; every second one wants the label `tier=gold` only.
    pub watches: usize,
    /// Names per collection.
    pub names: u64,
    /// What is written.
    pub collections: Vec<Collection>,
    /// Draws the calls.
    pub seed: u64,
    /// How long a server may be silent before a call is unknown, or a watch broken. At least 2 s.
    pub patience: Duration,
}

impl Default for Options {
    /// 6 clients and 2 watches on 12 ConfigMaps and 12 Pods of the namespace `default`.
    fn default() -> Self {
        let collections = vec![Collection::config_maps("default"), Collection::pods("default")];
        Self { clients: 6, watches: 2, names: 12, collections, seed: 1, patience: Duration::from_secs(10) }
    }
}

/// What was done so far; a fault that changes none of these has left no mark.
#[derive(Debug, Default)]
pub struct Counts {
    /// Calls that were answered: done.
    pub ok: AtomicU64,
    /// Calls that were answered: not done.
    pub rejected: AtomicU64,
    /// Of these, for a reason that has nothing to do with the state; the first one is printed. Only an overloaded server, or one that has lost
    /// something, says so.
    pub other: AtomicU64,
    /// Calls of unknown outcome.
    pub unknown: AtomicU64,
    /// Events of watches.
    pub events: AtomicU64,
    /// Watches that broke, and went on.
    pub broken: AtomicU64,
    /// Watches that ended in order, and went on.
    pub resumed: AtomicU64,
    /// Watches that were told 410, and began anew.
    pub gone: AtomicU64,
    /// What the last of [`Self::marks`] was.
    last: Mutex<String>,
}

impl Counts {
    /// One more; how many there were.
    fn count(counter: &AtomicU64) -> u64 {
        counter.fetch_add(1, Ordering::Relaxed)
    }

    /// One more call or watch of which nobody knows how it ended, and why that is.
    fn mark(&self, counter: &AtomicU64, why: String) {
        *self.last.lock() = why;
        Self::count(counter);
    }

    /// Calls without an answer and watches that broke.
    #[must_use]
    pub fn marks(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed) + self.broken.load(Ordering::Relaxed)
    }

    /// That no call and no watch has failed since there were so many [`Self::marks`].
    ///
    /// # Panics
    /// When one has; the text tells of the last.
    #[track_caller]
    pub fn no_more_than(&self, marks: u64) {
        let more = self.marks() - marks;
        assert!(more == 0, "{more} calls and watches have failed, the last: {}", self.last.lock());
    }
}

/// What all clients share.
#[derive(Debug)]
struct Shared {
    recorder: Arc<Recorder>,
    replicas: Vec<Replica>,
    options: Options,
    counts: Counts,
    /// Clients begin no more calls.
    enough: AtomicBool,
    /// Of each collection, the revision after which its watches may end; 0: not yet.
    last: Vec<AtomicU64>,
}

/// Running clients and watches.
#[derive(Debug)]
pub struct Workload {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
    watchers: Vec<JoinHandle<()>>,
}

impl Workload {
    /// Starts all of them.
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

    /// What was done so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Waits until so many more calls were answered with success and so many more events were told.
    ///
    /// # Panics
    /// When what is missing of it stands still, or a client has failed.
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

    /// Ends the clients, writes one last object to each collection and waits until every watch has told it. A watch that does not is for the
    /// checker to judge.
    ///
    /// # Panics
    /// When a client failed, or nothing can be written any more.
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
            // Who heard the first before it was known to be the last is woken by another.
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
