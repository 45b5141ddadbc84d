//! The event record of a test universe with its hash, and the seeded perturbation of its schedule.
//!
//! Outside a universe every function here reads one thread-local and does nothing.

use std::cell::RefCell;
use std::time::Duration;

use crate::clock::{self, Instant};
use crate::rng::Rng;

/// One event in a universe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Virtual time since the universe began.
    pub at: Duration,
    /// The kind of event: "launch", "handle", "exit", …
    pub what: &'static str,
    /// The actor or gate concerned.
    pub who: String,
    /// A number with the event: the incarnation's or the message's.
    pub n: u64,
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>14?} {:<10} {} {}", self.at, self.what, self.who, self.n)
    }
}

/// The record of a universe.
#[derive(Debug)]
pub(crate) struct Trace {
    start: Instant,
    shake: Rng,
    pub(crate) hash: u64,
    pub(crate) events: Vec<Event>,
    /// The name and message of each panic.
    pub(crate) panics: Vec<(String, String)>,
    /// The names of those that may, and must, panic.
    pub(crate) expected: Vec<String>,
}

thread_local! {
    static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
}

impl Trace {
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn new(shake: Rng) -> Self {
        // the constants of FNV-1a must never change, so that hashes of different builds can be compared
        Self {
            start: clock::now(),
            shake,
            hash: 0xcbf2_9ce4_8422_2325,
            events: Vec::new(),
            panics: Vec::new(),
            expected: Vec::new(),
        }
    }

    fn push(&mut self, what: &'static str, who: &str, n: u64) {
        let at = clock::now() - self.start;
        let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let bytes = nanos.to_le_bytes().into_iter().chain(what.bytes()).chain([0]).chain(who.bytes()).chain([0]);
        for byte in bytes.chain(n.to_le_bytes()) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.events.push(Event { at, what, who: who.to_owned(), n });
    }
}

/// Begins (`Some`) or ends (`None`) the record of the current thread; returns the previous one.
#[cfg(any(test, feature = "sim"))]
pub(crate) fn install(trace: Option<Trace>) -> Option<Trace> {
    TRACE.replace(trace)
}

/// Whether the current thread runs a universe.
pub fn active() -> bool {
    TRACE.with_borrow(Option::is_some)
}

/// Records an event, if the current thread runs a universe.
pub fn record(what: &'static str, who: &str, n: u64) {
    TRACE.with_borrow_mut(|trace| {
        if let Some(trace) = trace {
            trace.push(what, who, n);
        }
    });
}

/// Records a panic; the universe fails at its end unless the panic was expected.
pub(crate) fn panicked(who: &str, message: &str) {
    TRACE.with_borrow_mut(|trace| {
        if let Some(trace) = trace {
            trace.push("panic", who, 0);
            trace.panics.push((who.to_owned(), message.to_owned()));
        }
    });
}

/// Declares that `who` (an actor's `kind/key`, a task's `gate/name`) will panic in this universe; without such a panic the universe fails at its end.
pub fn expect_panic(who: impl Into<String>) {
    TRACE.with_borrow_mut(|trace| {
        if let Some(trace) = trace {
            trace.expected.push(who.into());
        }
    });
}

/// In a universe, yields a seeded number of times (mostly none), so that seeds differ in their schedules.
pub(crate) async fn perturb() {
    let yields = TRACE.with_borrow_mut(|trace| {
        let Some(trace) = trace else { return 0 };
        if trace.shake.chance(1, 4) { 1 + trace.shake.below(3) } else { 0 }
    });
    for _ in 0..yields {
        tokio::task::yield_now().await;
    }
}
