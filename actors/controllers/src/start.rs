//! Starts the controllers.

use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_client::Client;
use oarlock_cloud::Provider;
use oarlock_informer::{Recorder, SharedInformers, refusals_seen};
use oarlock_mesh::{Placement, Scope, Unit};
use oarlock_meta::Status;
use oarlock_runtime::System;

use crate::accounts;
use crate::cloud::{Cloud, UNIT};
use crate::env::{Env, PARTS};
use crate::table::{CLOUD_ROWS, Placement as Spread, ROWS, Row};

/// What is chosen about the controllers.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Controllers to leave out, by name.
    pub disable: Vec<String>,
    /// The cluster's CA certificates (PEM) for ConfigMap `kube-root-ca.crt`; empty leaves its publisher out.
    pub root_ca: String,
    /// Which units this process holds.
    pub placement: Placement,
}

/// What is chosen about the controllers that reach a cloud.
#[derive(Clone, Debug)]
pub struct CloudOptions {
    /// The cloud.
    pub provider: Arc<dyn Provider>,
    /// What it calls the cluster: the same in all processes, and another than that of any other cluster there.
    pub cluster: String,
    /// Which units this process holds.
    pub placement: Placement,
}

/// Every unit of the controllers: all processes must know the same.
#[must_use]
pub fn units() -> Vec<Unit> {
    let single = ROWS.iter().filter(|row| row.placement == Spread::Singleton).map(|row| Unit::singleton(row.name));
    Scope::parts(PARTS).units().iter().cloned().chain(single).collect()
}

/// Every unit of the controllers that reach a cloud; work for each has effects outside of the API.
#[must_use]
pub fn cloud_units() -> Vec<Unit> {
    vec![Unit::named(UNIT)]
}

/// The controllers could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No controller has this name.
    #[error("no controller {0:?}")]
    Unknown(String),
    /// The runtime refused an actor.
    #[error("controller {name}")]
    Spawn {
        /// Which one.
        name: &'static str,
        /// Why.
        source: oarlock_runtime::Error,
    },
    /// An informer could not be had.
    #[error("informer")]
    Informer(#[from] oarlock_informer::Error),
    /// The schema lacks something.
    #[error("schema")]
    Schema(#[from] Status),
}

/// What runs.
#[derive(Clone, Debug)]
pub struct Started {
    /// Names of the controllers, sorted.
    pub controllers: Vec<&'static str>,
    /// The caches that they share.
    pub informers: SharedInformers,
}

/// Starts every controller that is not disabled. `clients` makes the client of a ServiceAccount in kube-system (see [`Row::account`]);
/// `manager` is `system:kube-controller-manager`: it reads for the shared informers and creates the accounts.
///
/// # Errors
/// [`Error`]; what was started before stays and ends with the system.
pub async fn start(system: &System, manager: Client, clients: Clients, options: Options) -> Result<Started, Error> {
    if let Some(unknown) = options.disable.iter().find(|name| ROWS.iter().all(|row| row.name != name.as_str())) {
        return Err(Error::Unknown(unknown.clone()));
    }
    let root_ca: Arc<str> = options.root_ca.as_str().into();
    let wanted = |row: &&'static Row| {
        let off = options.disable.iter().any(|name| name == row.name);
        let pointless = row.account == "root-ca-cert-publisher" && root_ca.is_empty();
        !(off || pointless)
    };
    let rows = ROWS.iter().filter(wanted).collect();
    let informers = SharedInformers::new(system.clone(), manager.clone(), "controllers");
    let shared = Shared { placement: options.placement, root_ca, cloud: None };
    start_all(system, manager, clients, informers, rows, shared).await
}

/// Starts the controllers that reach a cloud; `manager` is `system:cloud-controller-manager`, the rest as for [`start`].
///
/// # Errors
/// [`Error`]; what was started before stays and ends with the system.
pub async fn start_cloud(
    system: &System,
    manager: Client,
    clients: Clients,
    options: CloudOptions,
) -> Result<Started, Error> {
    let CloudOptions { provider, cluster, placement } = options;
    let informers = SharedInformers::new(system.clone(), manager.clone(), "cloud");
    let cloud = Some(Cloud::new(provider, &cluster, placement.clone()));
    let shared = Shared { placement, root_ca: "".into(), cloud };
    start_all(system, manager, clients, informers, CLOUD_ROWS.iter().collect(), shared).await
}

/// Makes the client of an account.
pub type Clients = Arc<dyn Fn(&str) -> Client + Send + Sync>;

/// What all controllers of a process share, besides their informers.
struct Shared {
    placement: Placement,
    root_ca: Arc<str>,
    cloud: Option<Cloud>,
}

fn start_all<'a>(
    system: &'a System,
    manager: Client,
    clients: Clients,
    informers: SharedInformers,
    rows: Vec<&'static Row>,
    shared: Shared,
) -> BoxFuture<'a, Result<Started, Error>> {
    Box::pin(start_rows(system, manager, clients, informers, rows, shared))
}

async fn start_rows(
    system: &System,
    manager: Client,
    clients: Clients,
    informers: SharedInformers,
    rows: Vec<&'static Row>,
    shared: Shared,
) -> Result<Started, Error> {
    accounts::start(system, manager, rows.iter().map(|row| row.account).collect()).await?;
    for row in &rows {
        let spawn = |source| Error::Spawn { name: row.name, source };
        let client = refusals_seen(&clients(row.account), row.name);
        let recorder = Recorder::start(system, client.clone(), row.component, "").await.map_err(spawn)?;
        let env = Env {
            row,
            system: system.clone(),
            client,
            informers: informers.clone(),
            recorder,
            placement: shared.placement.clone(),
            root_ca: shared.root_ca.clone(),
            cloud: shared.cloud.clone(),
        };
        (row.start)(env).await?;
    }
    Ok(Started { controllers: rows.iter().map(|row| row.name).collect(), informers })
}
