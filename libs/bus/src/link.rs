//! The connection state of a bus, which tasks can wait on.

use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Connection state of a bus at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Whether the bus is connected.
    pub connected: bool,
    /// Time of the last change of `connected`.
    pub since: Instant,
    /// Number of connections so far; the first is 1. Hints sent between two connections were lost.
    pub generation: u64,
}

/// A connection state that tasks wait on; waiting tasks are woken in the order in which they began to wait.
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

    /// Records a new connection; returns its generation.
    pub(crate) fn connected(&self) -> u64 {
        let mut state = self.state.write();
        *state = State { connected: true, since: Instant::now(), generation: state.generation + 1 };
        let generation = state.generation;
        drop(state);
        self.changed.notify_waiters();
        generation
    }

    /// Records the loss of the connection.
    pub(crate) fn disconnected(&self) {
        let mut state = self.state.write();
        if state.connected {
            *state = State { connected: false, since: Instant::now(), ..*state };
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Waits until the state is a wanted one. Cancel safe.
    pub(crate) async fn wait_for(&self, wanted: impl Fn(&State) -> bool) -> State {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the state is read, so that no later change is missed.
            changed.as_mut().enable();
            let state = self.get();
            if wanted(&state) {
                return state;
            }
            changed.await;
        }
    }

    /// Waits until the connection of this generation is lost, even if a newer one exists.
    pub(crate) async fn lost(&self, generation: u64) {
        self.wait_for(|state| !state.connected || state.generation != generation).await;
    }
}
