//! What a controller is given when it starts.

use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_client::Client;
use oarlock_informer::{
    Controller, ControllerBuilder, ControllerRow, Reconcile, Recorder, ResourceName, SharedInformers,
};
use oarlock_mesh::{Placement, Scope, Unit};
use oarlock_meta::Status;
use oarlock_runtime::System;
use oarlock_schema::Resource;

use crate::cloud::{Cloud, UNIT};
use crate::start::Error;
use crate::table::{Placement as Spread, Row};

/// Starts one controller.
pub(crate) type Starter = fn(Env) -> BoxFuture<'static, Result<(), Error>>;

/// See the module text.
#[derive(Clone)]
pub(crate) struct Env {
    /// Its row.
    pub(crate) row: &'static Row,
    /// Where actors live.
    pub(crate) system: System,
    /// The API, as its own identity.
    pub(crate) client: Client,
    /// The shared caches.
    pub(crate) informers: SharedInformers,
    /// Events, as its own identity.
    pub(crate) recorder: Recorder,
    /// Which units this process holds.
    pub(crate) placement: Placement,
    /// The cluster's CA certificates, PEM.
    pub(crate) root_ca: Arc<str>,
    /// The cloud, where there is one.
    pub(crate) cloud: Option<Cloud>,
}

impl Env {
    /// The shell in which it runs.
    pub(crate) fn shell(&self) -> Shell {
        let scope = match self.row.placement {
            Spread::Key => Scope::parts(PARTS),
            Spread::Singleton => Scope::One(Unit::singleton(self.row.name)),
            Spread::Cloud => Scope::One(Unit::named(UNIT)),
        };
        Shell { row: ControllerRow::new(self.row.name, self.row.workers), placement: self.placement.clone(), scope }
    }
}

/// The cloud of those that are [placed](Spread::Cloud) there.
pub(crate) fn cloud(env: &Env) -> Result<Cloud, Status> {
    env.cloud.clone().ok_or_else(|| Status::internal_error(format!("{} was started without a cloud", env.row.name)))
}

/// The units of all controllers that are partitioned by key.
pub(crate) const PARTS: &str = "controllers";

/// What is the same for all controllers.
pub(crate) struct Shell {
    row: ControllerRow,
    placement: Placement,
    scope: Scope,
}

impl Shell {
    /// The controller that does `reconcile` for the keys that are this process's.
    pub(crate) fn controller(self, reconcile: impl Reconcile) -> ControllerBuilder {
        Controller::new(self.row, reconcile).placed(&self.placement, self.scope)
    }
}

/// A resource that the schema must have.
pub(crate) fn must(name: ResourceName) -> Result<&'static Resource, Status> {
    name.find().ok_or_else(|| Status::internal_error(format!("the schema has no {}", name.plural)))
}
