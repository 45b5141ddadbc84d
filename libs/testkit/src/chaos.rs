//! A faulty network for tests: one TCP proxy per pair of parties, without root.
//!
//! A party connects to the address of its link instead of the other party; TLS passes through unchanged. Each link counts its effects: a fault without effect
//! ([`Link::marks`]) has tested nothing.

mod carry;
mod proxy;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Direction of bytes on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the connecting party to the target.
    There,
    /// From the target to the connecting party.
    Back,
}

/// Treatment of the bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Pass,
    /// Each byte is delayed by this time.
    Late(Duration),
    /// Bytes wait until the link is healed.
    Held,
    /// Bytes pass until the first large piece; from that piece on all bytes are held.
    HeldFromLarge,
    /// Bytes are dropped. TCP would retransmit them, so a connection that lost bytes is broken when the link is healed.
    Lost,
}

/// Current faults and target of a link.
#[derive(Clone, Copy, Debug)]
struct State {
    target: SocketAddr,
    cut: bool,
    there: Flow,
    back: Flow,
}

impl State {
    fn flow(&self, way: Way) -> Flow {
        match way {
            Way::There => self.there,
            Way::Back => self.back,
        }
    }
}

/// Counters of a link's effects since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Connections established.
    pub connections: u64,
    /// Connections refused while the link was cut.
    pub refused: u64,
    /// Connections broken by a cut, or because their bytes were dropped.
    pub cut: u64,
    /// Connections broken by one of their ends, or without a listening target.
    pub broken: u64,
    /// Bytes delivered.
    pub delivered: u64,
    /// Bytes dropped.
    pub lost: u64,
    /// Bytes held until the link was healed.
    pub held: u64,
    /// Bytes delayed.
    pub delayed: u64,
}

/// Counters behind [`LinkCounts`].
#[derive(Debug, Default)]
struct Counters {
    connections: AtomicU64,
    refused: AtomicU64,
    cut: AtomicU64,
    broken: AtomicU64,
    delivered: AtomicU64,
    lost: AtomicU64,
    held: AtomicU64,
    delayed: AtomicU64,
}

/// State shared by all clones of a [`Link`].
#[derive(Debug)]
struct Inner {
    from: String,
    to: String,
    address: SocketAddr,
    state: watch::Sender<State>,
    counters: Counters,
}

impl Inner {
    fn set(&self, way: Way, flow: Flow) {
        self.state.send_modify(|state| match way {
            Way::There => state.there = flow,
            Way::Back => state.back = flow,
        });
    }
}

/// A network link from one party to another. Clones share the link.
#[derive(Clone, Debug)]
pub struct Link(Arc<Inner>);

impl Link {
    /// Returns the address to use in place of the target's.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Returns the names of the connecting party and of the target.
    #[must_use]
    pub fn parties(&self) -> (&str, &str) {
        (&self.0.from, &self.0.to)
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn marks(&self) -> LinkCounts {
        let Counters { connections, refused, cut, broken, delivered, lost, held, delayed } = &self.0.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        LinkCounts {
            connections: read(connections),
            refused: read(refused),
            cut: read(cut),
            broken: read(broken),
            delivered: read(delivered),
            lost: read(lost),
            held: read(held),
            delayed: read(delayed),
        }
    }

    /// Directs new connections to this address, after the target has moved.
    pub fn retarget(&self, target: SocketAddr) {
        self.0.state.send_modify(|state| state.target = target);
    }

    /// Breaks every connection and refuses new ones.
    pub fn cut(&self) {
        self.0.state.send_modify(|state| state.cut = true);
    }

    /// Drops the bytes of one direction silently.
    pub fn lose(&self, way: Way) {
        self.0.set(way, Flow::Lost);
    }

    /// Holds the bytes of both directions until the link is healed.
    pub fn hold(&self) {
        self.0.set(Way::There, Flow::Held);
        self.0.set(Way::Back, Flow::Held);
    }

    /// Lets small pieces of one direction pass and holds all bytes from the first large piece on. This interrupts a party in the middle of a large message after any number of
    /// small ones.
    pub fn hold_from_large(&self, way: Way) {
        self.0.set(way, Flow::HeldFromLarge);
    }

    /// Delays the bytes of both directions, in order.
    pub fn delay(&self, by: Duration) {
        self.0.set(Way::There, Flow::Late(by));
        self.0.set(Way::Back, Flow::Late(by));
    }

    /// Ends all faults of the link.
    pub fn heal(&self) {
        self.0.state.send_modify(|state| *state = State { cut: false, there: Flow::Pass, back: Flow::Pass, ..*state });
    }
}

/// All links of a test; dropping the value closes them.
#[derive(Debug)]
pub struct Chaos {
    runtime: Option<Runtime>,
    links: Mutex<Vec<Link>>,
}

impl Default for Chaos {
    fn default() -> Self {
        Self::new()
    }
}

impl Chaos {
    /// Creates a network without links.
    ///
    /// # Panics
    /// When a thread cannot be started.
    #[must_use]
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self { runtime: Some(runtime.expect("a runtime")), links: Mutex::default() }
    }

    /// Creates a link from one party to another, which listens at `target`.
    ///
    /// # Panics
    /// When no port is available.
    #[must_use]
    pub fn link(&self, from: &str, to: &str, target: SocketAddr) -> Link {
        let (runtime, listener, address) = self.listen();
        let (state, _) = watch::channel(State { target, cut: false, there: Flow::Pass, back: Flow::Pass });
        let (from, to) = (from.to_owned(), to.to_owned());
        let link = Link(Arc::new(Inner { from, to, address, state, counters: Counters::default() }));
        let own = Arc::clone(&link.0);
        runtime.spawn(carry::accept(listener, move |client| carry::connection(client, Arc::clone(&own))));
        self.links.lock().push(link.clone());
        link
    }

    /// Starts an HTTP proxy for one party: connections to a name go over the party's link to the party of that name. For programs whose peers must all know the same address.
    ///
    /// # Panics
    /// When no port is available.
    #[must_use]
    pub fn proxy(&self, links: Vec<Link>) -> SocketAddr {
        let (runtime, listener, address) = self.listen();
        let links: Arc<[Link]> = links.into();
        runtime.spawn(carry::accept(listener, move |client| proxy::connection(client, Arc::clone(&links))));
        address
    }

    fn listen(&self) -> (&Runtime, TcpListener, SocketAddr) {
        let runtime = self.runtime.as_ref().expect("it lives");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("its port");
        (runtime, listener, address)
    }

    /// Returns the links between two sets of parties, in both directions: the links to cut for a partition.
    #[must_use]
    pub fn between(&self, some: &[&str], others: &[&str]) -> Vec<Link> {
        let apart = |link: &&Link| {
            let (from, to) = link.parties();
            some.contains(&from) && others.contains(&to) || some.contains(&to) && others.contains(&from)
        };
        self.links.lock().iter().filter(apart).cloned().collect()
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
