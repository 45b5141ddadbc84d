//! The runtime's record of one incarnation.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::gate::Gate;
use crate::policy::Exit;

/// One incarnation: its number, its gate, and why it ends.
pub(crate) struct Run {
    /// The incarnation's number; 1 for the first.
    pub(crate) number: u32,
    /// Cancelled when the incarnation is asked to stop or has terminated.
    pub(crate) token: CancellationToken,
    /// Cancelled when the incarnation's state and futures have been dropped.
    pub(crate) dropped: CancellationToken,
    /// The gate of the incarnation's tasks; empty until the first task is spawned.
    pub(crate) gate: OnceLock<Gate>,
    /// Set when the incarnation is killed for lack of progress, so that the supervisor kills it only once.
    pub(crate) killed: AtomicBool,
    exit: Mutex<Option<Exit>>,
}

impl Run {
    pub(crate) fn new(number: u32) -> Self {
        Self {
            number,
            token: CancellationToken::new(),
            dropped: CancellationToken::new(),
            gate: OnceLock::new(),
            killed: AtomicBool::new(false),
            exit: Mutex::default(),
        }
    }

    /// Records why the incarnation ends; later calls are ignored.
    pub(crate) fn exit(&self, exit: Exit) {
        self.exit.lock().get_or_insert(exit);
    }

    pub(crate) fn take_exit(&self) -> Option<Exit> {
        self.exit.lock().take()
    }
}
