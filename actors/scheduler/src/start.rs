//! Starts a scheduler with the plugins of the table.

use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_client::Client;
use oarlock_runtime::{LoopHandle, System};

use crate::actor::{self, Config, SCHEDULER, Set};
use crate::error::Error;
use crate::table::PLUGINS;

/// Handle to a running scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler {
    handle: LoopHandle,
}

impl Scheduler {
    /// Starts a scheduler that reads and writes the API as `client`'s identity (`system:kube-scheduler`).
    ///
    /// # Errors
    /// [`Error`].
    pub fn spawn(system: &System, client: Client, config: Config) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::begin(system, client, config))
    }

    async fn begin(system: &System, client: Client, config: Config) -> Result<Self, Error> {
        let (name, set) = Set::new(system, client, config, PLUGINS).await?;
        let handle = system.spawn_loop(&SCHEDULER, name, move |ctx| actor::run(ctx, Arc::clone(&set))).await?;
        Ok(Self { handle })
    }

    /// Returns the actor's handle.
    #[must_use]
    pub fn handle(&self) -> &LoopHandle {
        &self.handle
    }
}
