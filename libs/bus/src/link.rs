//! Whether there is a connection.

use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The connection of a bus, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Whether there is one.
    pub connected: bool,
    /// Since when that is so.
    pub since: Instant,
    /// How many connections there were; the first is 1. What was hinted between two of them was missed.
    pub generation: u64,
}

/// A state that tasks wait on; they are woken in the order in which they came.
#[derive(Debug)]
pub(crate) struct Link {
    state: RwLock<State>,
    changed: Notify,
}

impl Link {
    pub(crate) fn new() -> Self {
        let state = State { connected: false, since: Instant::now(), generation: 0 };
        Self { state: RwLock::new(state), changed: Notify::new() }
    }

    pub(crate) fn get(&self) -> State {
        *self.state.read()
    }

    /// There is another connection; returns its generation.
    pub(crate) fn connected(&self) -> u64 {
        let mut state = self.state.write();
        *state = State { connected: true, since: Instant::now(), generation: state.generation + 1 };
        let generation = state.generation;
        drop(state);
        self.changed.notify_waiters();
        generation
    }

    /// There is none any more.
    pub(crate) fn disconnected(&self) {
        let mut state = self.state.write();
        if state.connected {
            *state = State { connected: false, since: Instant::now(), ..*state };
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Waits for a state that is wanted. Cancel safe.
    pub(crate) async fn wait_for(&self, wanted: impl Fn(&State) -> bool) -> State {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // before the look, so that no change behind it is missed
            changed.as_mut().enable();
            let state = self.get();
            if wanted(&state) {
                return state;
            }
            changed.await;
        }
    }

    /// Waits until a connection has gone, even if there is another by now.
    pub(crate) async fn lost(&self, generation: u64) {
        self.wait_for(|state| !state.connected || state.generation != generation).await;
    }
}
