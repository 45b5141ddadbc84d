//! The NATS transport (core NATS only).
//!
//! A lost connection is never resumed: its client is dropped with all unsent messages, and a new one is made with back-off. So nothing is sent late, and a generation is
//! exactly one connection.

mod backoff;
mod connection;
mod keeper;
mod listener;
mod options;
mod owner;
mod pump;
mod random;
mod shared;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use tokio::time::Instant;

use crate::bus::Bus;
use crate::error::{AskError, HintError};
use crate::link::Link;
use crate::queue::Queue;
use crate::role::{Identity, Role};
use crate::subject::{Pattern, Subject};
use crate::transport::{Proof, Subscription, Transport};

pub use options::{BadOptions, Options, Spawn, TokioSpawn};
use owner::{Owner, SubscriptionGuard};

impl Bus {
    /// Creates a member of a bus on NATS. Returns at once; a background task connects, and reconnects for as long as the bus exists.
    ///
    /// # Errors
    /// For options with which no connection can ever be made.
    pub fn connect(options: Options, identity: Identity) -> Result<Self, BadOptions> {
        let stats = Arc::default();
        let (dialer, spawn) = options.check(&identity)?;
        let owner = Owner::start(dialer, spawn, identity.clone(), Arc::clone(&stats));
        Ok(Self::over(Arc::new(Nats { owner }), identity, stats))
    }
}

/// Transport of one member.
#[derive(Debug)]
struct Nats {
    owner: Arc<Owner>,
}

#[async_trait]
impl Transport for Nats {
    async fn request(&self, subject: &Subject, payload: Bytes, deadline: Instant) -> Result<Bytes, AskError> {
        let connection = self.owner.shared.connection().ok_or(AskError::Disconnected)?;
        connection.request(subject.as_str(), payload, deadline).await
    }

    fn publish(&self, subject: &Subject, payload: Bytes) -> Result<(), HintError> {
        let connection = self.owner.shared.connection().ok_or(HintError::Disconnected)?;
        let sent = connection.client.publish(subject.as_str().to_owned(), payload);
        match tokio::task::unconstrained(sent).now_or_never() {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => Err(HintError::Disconnected),
            None => Err(HintError::Full),
        }
    }

    async fn subscribe(&self, pattern: &Pattern, queue: Arc<Queue>) -> Box<dyn Subscription> {
        let listener = self.owner.shared.add_listener(pattern, queue);
        let subscribed = SubscriptionGuard { owner: self.owner.clone(), id: listener.id };
        if let Some(connection) = self.owner.shared.connection() {
            self.owner.shared.attach(&connection, &listener).await;
            // If the round trip fails, the connection is about to end, and the next one includes the subscription.
            let _ = connection.round_trip().await;
        }
        Box::new(subscribed)
    }

    async fn flush(&self) {
        if let Some(connection) = self.owner.shared.connection() {
            let _ = connection.round_trip().await;
        }
    }

    fn link(&self) -> &Link {
        &self.owner.shared.link
    }

    fn max_payload(&self) -> usize {
        self.owner.shared.max_payload.load(Ordering::Relaxed)
    }

    fn proof_of(&self, role: Role) -> Proof<'_> {
        self.owner.shared.dialer.role_keys.of(role).map_or(Proof::None, Proof::Key)
    }

    fn number(&self) -> (u64, u64) {
        (self.owner.shared.process, self.owner.shared.next())
    }
}
