//! Starts the controllers.

use std::sync::Arc;

use oarlock_client::Client;
use oarlock_informer::{Recorder, SharedInformers};
use oarlock_mesh::{Placement, Scope, Unit};
use oarlock_meta::Status;
use oarlock_runtime::System;

use crate::accounts;
use crate::env::{Env, PARTS};
use crate::table::{Placement as Spread, ROWS, Row};

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

/// Every unit of the controllers: all processes must know the same.
#[must_use]
pub fn units() -> Vec<Unit> {
    let single = ROWS.iter().filter(|row| row.placement == Spread::Singleton).map(|row| Unit::singleton(row.name));
    Scope::parts(PARTS).units().iter().cloned().chain(single).collect()
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
pub async fn start(
    system: &System,
    manager: Client,
    clients: Arc<dyn Fn(&str) -> Client + Send + Sync>,
    options: Options,
) -> Result<Started, Error> {
    if let Some(unknown) = options.disable.iter().find(|name| ROWS.iter().all(|row| row.name != name.as_str())) {
        return Err(Error::Unknown(unknown.clone()));
    }
    let informers = SharedInformers::new(system.clone(), manager.clone(), "controllers");
    let root_ca: Arc<str> = options.root_ca.as_str().into();
    let wanted = |row: &&'static Row| {
        let off = options.disable.iter().any(|name| name == row.name);
        let pointless = row.account == "root-ca-cert-publisher" && root_ca.is_empty();
        !(off || pointless)
    };
    let rows: Vec<&'static Row> = ROWS.iter().filter(wanted).collect();
    accounts::start(system, manager, rows.iter().map(|row| row.account).collect()).await?;
    for row in &rows {
        let spawn = |source| Error::Spawn { name: row.name, source };
        let client = clients(row.account);
        let recorder = Recorder::start(system, client.clone(), row.component, "").await.map_err(spawn)?;
        let env = Env {
            row,
            system: system.clone(),
            client,
            informers: informers.clone(),
            recorder,
            placement: options.placement.clone(),
            root_ca: root_ca.clone(),
        };
        (row.start)(env).await?;
    }
    Ok(Started { controllers: rows.iter().map(|row| row.name).collect(), informers })
}
