//! What all incarnations of one scheduler share: the configuration and the dependencies.

use std::sync::Arc;
use std::time::Duration;

use oarlock_bus::Bus;
use oarlock_client::Client;
use oarlock_informer::{Recorder, SharedInformers, refusals_seen};
use oarlock_mesh::Placement;
use oarlock_runtime::System;

use crate::error::Error;
use crate::plugin::Plugins;

use super::attempt_metrics::AttemptMetrics;
use super::doubt::OpenBindings;

/// How long the loop waits for the caches to synchronise before it logs a warning and waits again.
pub(super) const SYNC_WARNING: Duration = Duration::from_secs(10);
/// Timeout of one API call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The configuration of a scheduler.
#[derive(Clone, Debug)]
pub struct Config {
    /// Values of `spec.schedulerName` that the scheduler serves; the first one is the reporting component of its Events.
    pub names: Vec<String>,
    /// Bound of bindings in progress at once.
    pub max_binds: usize,
    /// The units that this process holds.
    pub placement: Placement,
    /// The message bus to the other schedulers. Without a bus, the holder of the arbiter's unit schedules every pod.
    pub bus: Option<Bus>,
}

impl Default for Config {
    /// Serves `default-scheduler`, with 256 bindings at once.
    fn default() -> Self {
        let names = vec!["default-scheduler".to_owned()];
        Self { names, max_binds: 256, placement: Placement::everything(), bus: None }
    }
}

/// Dependencies that all incarnations of one scheduler share.
pub(crate) struct Set {
    pub(super) client: Client,
    pub(super) informers: SharedInformers,
    pub(super) recorder: Recorder,
    pub(super) config: Config,
    pub(super) plugins: Plugins,
    pub(super) open_bindings: Arc<OpenBindings>,
    pub(super) metrics: AttemptMetrics,
}

impl Set {
    /// Returns the dependencies, and the name of the actor that uses them.
    pub(crate) async fn new(
        system: &System,
        client: Client,
        config: Config,
        plugins: Plugins,
    ) -> Result<(String, Arc<Self>), Error> {
        let Some(name) = config.names.first().cloned() else { return Err(Error::Nameless) };
        let client = refusals_seen(&client.with_timeout(CALL_TIMEOUT), "scheduler");
        let recorder = Recorder::start(system, client.clone(), &name, "").await?;
        let informers = SharedInformers::new(system.clone(), client.clone(), name.clone());
        let (open_bindings, metrics) = (Arc::default(), AttemptMetrics::of(&name));
        Ok((name, Arc::new(Self { client, informers, recorder, config, plugins, open_bindings, metrics })))
    }
}
