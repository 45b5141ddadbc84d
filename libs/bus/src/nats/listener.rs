//! A listener of a NATS member, which outlives single connections.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::queue::Queue;
use crate::subject::Pattern;

/// A listener of a pattern.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) id: u64,
    pub(super) pattern: Pattern,
    pub(super) queue: Arc<Queue>,
    /// Cancelled when the listener ends.
    pub(super) ended: CancellationToken,
    /// Id of the connection that carries the subscription.
    connection: Mutex<Option<u64>>,
}

impl Listener {
    pub(super) fn new(id: u64, pattern: &Pattern, queue: Arc<Queue>) -> Self {
        let (pattern, ended) = (pattern.clone(), CancellationToken::new());
        Self { id, pattern, queue, ended, connection: Mutex::default() }
    }

    /// Records the connection that carries the subscription from now on; returns false if it does already.
    pub(super) fn move_to(&self, connection: u64) -> bool {
        self.connection.lock().replace(connection) != Some(connection)
    }
}
