//! The owner of a NATS member's connection: starts the task that connects, and ends it when the last handle is dropped.

use std::sync::Arc;

use super::connection::Dialer;
use super::keeper;
use super::options::Spawn;
use super::shared::Shared;
use crate::role::Identity;
use crate::stats::Stats;
use crate::transport::Subscription;

/// The state that all handles on a bus share; the connection is closed when the last handle is dropped.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) shared: Arc<Shared>,
}

impl Owner {
    pub(super) fn start(dialer: Dialer, spawn: Arc<dyn Spawn>, identity: Identity, stats: Arc<Stats>) -> Arc<Self> {
        let shared = Arc::new(Shared::new(dialer, spawn.clone(), identity, stats));
        spawn.spawn(Box::pin(keeper::keep(shared.clone())));
        Arc::new(Self { shared })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.unused.cancel();
    }
}

/// Ends a subscription when dropped.
#[derive(Debug)]
pub(super) struct SubscriptionGuard {
    pub(super) owner: Arc<Owner>,
    pub(super) id: u64,
}

impl Subscription for SubscriptionGuard {}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        self.owner.shared.end_listener(self.id);
    }
}
