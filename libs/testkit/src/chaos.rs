//! A network that tests break: a TCP proxy for each pair of parties, no root needed.
//!
//! A party is told the address of its link instead of the other's own; TLS goes through untouched. A link counts what it did to whom: a fault that
//! left no mark ([`Link::marks`]) has shown nothing.

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

/// Who sends the bytes of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the one who connected.
    There,
    /// From the one who was connected to.
    Back,
}

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Pass,
    /// Each byte comes so much later.
    Late(Duration),
    /// Bytes wait until the link is healed.
    Held,
    /// Bytes pass until the first large piece; it and all that follows is held.
    HeldFromLarge,
    /// Bytes are gone. TCP would send them again for ever, so a connection that has lost some breaks when the link is healed.
    Lost,
}

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

/// What a link has seen and done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Connections that came about.
    pub connections: u64,
    /// Connections refused while it was cut.
    pub refused: u64,
    /// Connections broken by a cut, or because bytes of theirs were lost.
    pub cut: u64,
    /// Connections that one of their ends broke, or for which nobody was there.
    pub broken: u64,
    /// Bytes delivered.
    pub delivered: u64,
    /// Bytes that were lost.
    pub lost: u64,
    /// Bytes that had to wait until the link was healed.
    pub held: u64,
    /// Bytes that were delayed.
    pub delayed: u64,
}

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

/// The way from one party to another. Clones are the same link.
#[derive(Clone, Debug)]
pub struct Link(Arc<Inner>);

impl Link {
    /// What the one party connects to in the other's place.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Who connects, and to whom.
    #[must_use]
    pub fn parties(&self) -> (&str, &str) {
        (&self.0.from, &self.0.to)
    }

    /// What it has done so far.
    #[must_use]
    pub fn marks(&self) -> Marks {
        let Counters { connections, refused, cut, broken, delivered, lost, held, delayed } = &self.0.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        Marks {
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

    /// New connections go to this address: the other party has moved.
    pub fn retarget(&self, target: SocketAddr) {
        self.0.state.send_modify(|state| state.target = target);
    }

    /// Every connection breaks, and new ones are refused.
    pub fn cut(&self) {
        self.0.state.send_modify(|state| state.cut = true);
    }

    /// Bytes of one direction are lost, without a word to anybody.
    pub fn lose(&self, way: Way) {
        self.0.set(way, Flow::Lost);
    }

    /// Bytes of both directions wait until the link is healed.
    pub fn hold(&self) {
        self.0.set(Way::There, Flow::Held);
        self.0.set(Way::Back, Flow::Held);
    }

    /// Small pieces of one direction pass; from the first large one on its bytes wait until the link is healed. Who says something large is caught saying it,
    /// whatever it asked before.
    pub fn hold_from_large(&self, way: Way) {
        self.0.set(way, Flow::HeldFromLarge);
    }

    /// Bytes of both directions come later, in order.
    pub fn delay(&self, by: Duration) {
        self.0.set(Way::There, Flow::Late(by));
        self.0.set(Way::Back, Flow::Late(by));
    }

    /// All is well again.
    pub fn heal(&self) {
        self.0.state.send_modify(|state| *state = State { cut: false, there: Flow::Pass, back: Flow::Pass, ..*state });
    }
}

/// All links of a test. They end with it.
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
    /// No links yet.
    ///
    /// # Panics
    /// When a thread cannot be had.
    #[must_use]
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self { runtime: Some(runtime.expect("a runtime")), links: Mutex::default() }
    }

    /// Makes a link from one party to another, who is at `target`.
    ///
    /// # Panics
    /// When no port can be had.
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

    /// An HTTP proxy of one party: what it connects to by name goes over its link to who is called so. For parties of whom all others must know the
    /// same address.
    ///
    /// # Panics
    /// When no port can be had.
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

    /// The links between two sets of parties, whoever connects: what a partition of them cuts.
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
