//! Starts the selected controllers of a controller manager or cloud controller manager.

use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_client::Client;
use oarlock_cloud::Provider;
use oarlock_informer::{ControllerRow, Recorder, SharedInformers, refusals_seen};
use oarlock_mesh::{Placement, Scope, Unit};
use oarlock_runtime::System;
use oarlock_schema::FeatureGates;
use oarlock_seeded_bug::seeded_bug;

use crate::change_root::ChangeRoots;
use crate::cloud::provider::Cloud;
use crate::error::Error;
use crate::harness::{CLOUD_UNIT, Clients, Env, PARTS, Row, Settings, Shell, Spread, Supplies, Table, WorkerCounts};
use crate::selection::Selection;
use crate::service_accounts;
use crate::table::{CLOUD_ROWS, GATES, ROWS};

/// Options of the controllers of kube-controller-manager.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The controllers to run.
    pub selection: Selection,
    /// Feature gates; a controller whose gate is off does not run.
    pub features: FeatureGates,
    /// Settings of single controllers.
    pub settings: Settings,
    /// The cluster's CA certificates, PEM; empty when the process has none.
    pub root_ca: String,
    /// Units that this process holds.
    pub placement: Placement,
}

/// Options of the controllers of cloud-controller-manager.
#[derive(Clone, Debug)]
pub struct CloudOptions {
    /// The controllers to run.
    pub selection: Selection,
    /// Settings of single controllers.
    pub settings: Settings,
    /// The cloud provider.
    pub provider: Arc<dyn Provider>,
    /// The cluster's name at the provider: the same in all processes, and unique among the provider's clusters.
    pub cluster: String,
    /// Units that this process holds.
    pub placement: Placement,
}

/// Returns every unit of the controllers. All processes must use the same units, so a controller's unit exists whether the controller runs or not.
#[must_use]
pub fn units() -> Vec<Unit> {
    let single = ROWS.iter().filter(|row| row.spread == Spread::Singleton).map(|row| Unit::singleton(row.name));
    Scope::parts(PARTS).units().iter().cloned().chain(single).collect()
}

/// Returns every unit of the controllers that call a cloud; work for each has effects outside of the API.
#[must_use]
pub fn cloud_units() -> Vec<Unit> {
    vec![Unit::named(CLOUD_UNIT)]
}

/// Returns the rows of kube-controller-manager's controllers, sorted by name.
#[must_use]
pub fn rows() -> &'static [Row] {
    ROWS
}

/// Whether a controller of kube-controller-manager runs, or what it does, depends on a feature gate.
#[must_use]
pub fn asks_for_gate(name: &str) -> bool {
    ROWS.iter().any(|row| row.gate == Some(name)) || GATES.iter().any(|gates| gates.contains(&name))
}

/// The list of kube-controller-manager's controllers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagerTable;

impl Table for ManagerTable {
    fn rows() -> &'static [Row] {
        ROWS
    }
}

/// The list of cloud-controller-manager's controllers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloudTable;

impl Table for CloudTable {
    fn rows() -> &'static [Row] {
        CLOUD_ROWS
    }
}

/// Returns the rows of cloud-controller-manager's controllers, sorted by name.
#[must_use]
pub fn cloud_rows() -> &'static [Row] {
    CLOUD_ROWS
}

/// The controllers that were started in a process, and their informers.
#[derive(Clone, Debug)]
pub struct StartedControllers {
    /// The names of the running controllers, sorted.
    pub controllers: Vec<&'static str>,
    /// The informers that the controllers share.
    pub informers: SharedInformers,
}

/// Starts the selected controllers. `clients` makes the client of a ServiceAccount (see [`Row::account`]); `manager` is
/// `system:kube-controller-manager`, which reads for the shared informers and creates the accounts.
///
/// # Errors
/// [`Error`]; controllers that were started before the error keep running and end with the system.
pub async fn start(
    system: &System,
    manager: Client,
    clients: Clients,
    options: Options,
) -> Result<StartedControllers, Error> {
    let Options { selection, features, settings, root_ca, placement } = options;
    selection.check(ROWS)?;
    let root_ca = Some(root_ca.as_str().into()).filter(|root_ca: &Arc<str>| !root_ca.is_empty());
    let process = Process {
        informers: SharedInformers::new(system.clone(), manager.clone(), "controllers"),
        system: system.clone(),
        clients,
        placement,
        settings,
        supplies: Supplies { root_ca, cloud: None },
        features,
    };
    process.start(manager, running(ROWS, &selection, &process.features, &process.supplies)).await
}

/// Starts the selected controllers that call a cloud; `manager` is `system:cloud-controller-manager`, the other arguments are as for [`start`].
///
/// # Errors
/// [`Error`]; controllers that were started before the error keep running and end with the system.
pub async fn start_cloud(
    system: &System,
    manager: Client,
    clients: Clients,
    options: CloudOptions,
) -> Result<StartedControllers, Error> {
    let CloudOptions { selection, settings, provider, cluster, placement } = options;
    selection.check(CLOUD_ROWS)?;
    let process = Process {
        informers: SharedInformers::new(system.clone(), manager.clone(), "cloud"),
        system: system.clone(),
        clients,
        settings,
        supplies: Supplies { root_ca: None, cloud: Some(Cloud::new(provider, &cluster, placement.clone())) },
        placement,
        features: FeatureGates::default(),
    };
    process.start(manager, running(CLOUD_ROWS, &selection, &process.features, &process.supplies)).await
}

/// Returns the controllers that run: the selected ones whose gate is on and whose needs the process meets. Logs why a selected controller does not run.
fn running<'a>(rows: &'a [Row], selection: &Selection, features: &FeatureGates, supplies: &Supplies) -> Vec<&'a Row> {
    let mut running = Vec::new();
    for row in rows.iter().filter(|row| selection.runs(row)) {
        let off = row.gate.filter(|gate| !features.enabled(gate) && !seeded_bug!("controller_ignores_its_gate"));
        if let Some(gate) = off {
            tracing::info!(controller = row.name, gate, "controller is disabled by a feature gate");
        } else if let Some(need) = supplies.unmet(row.needs) {
            tracing::warn!(controller = row.name, %need, "controller does not run: the process lacks what it needs");
        } else {
            running.push(row);
        }
    }
    running
}

/// The state that all controllers of a process share.
struct Process {
    system: System,
    clients: Clients,
    informers: SharedInformers,
    placement: Placement,
    settings: Settings,
    supplies: Supplies,
    features: FeatureGates,
}

impl Process {
    fn start(&self, manager: Client, rows: Vec<&'static Row>) -> BoxFuture<'_, Result<StartedControllers, Error>> {
        Box::pin(self.start_rows(manager, rows))
    }

    async fn start_rows(&self, manager: Client, rows: Vec<&'static Row>) -> Result<StartedControllers, Error> {
        service_accounts::start(&self.system, manager, rows.iter().map(|row| row.account).collect()).await?;
        for row in &rows {
            (row.start)(self.env(row).await?).await?;
        }
        Ok(StartedControllers {
            controllers: rows.iter().map(|row| row.name).collect(),
            informers: self.informers.clone(),
        })
    }

    async fn env(&self, row: &'static Row) -> Result<Env, Error> {
        let spawn = |source| Error::Spawn { name: row.name, source };
        let client = refusals_seen(&(self.clients)(row.account), row.name);
        let recorder = Recorder::start(&self.system, client.clone(), row.component, "").await.map_err(spawn)?;
        Ok(Env {
            name: row.name,
            component: row.component,
            client,
            informers: self.informers.clone(),
            recorder,
            shell: Shell {
                system: self.system.clone(),
                row: ControllerRow::new(row.name, self.settings.get::<WorkerCounts>().of(row.name, row.workers)),
                placement: self.placement.clone(),
                scope: row.spread.scope(row.name),
            },
            settings: self.settings.clone(),
            features: self.features.clone(),
            supplies: self.supplies.of(row.needs),
            roots: ChangeRoots::default(),
        })
    }
}

#[cfg(test)]
mod tests;
