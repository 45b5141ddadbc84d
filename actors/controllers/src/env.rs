//! What a controller is given when it starts.

use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_client::Client;
use oarlock_informer::{ControllerRow, Recorder, ResourceName, SharedInformers};
use oarlock_meta::Status;
use oarlock_runtime::System;
use oarlock_schema::Resource;

use crate::start::Error;
use crate::table::Row;

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
    /// The cluster's CA certificates, PEM.
    pub(crate) root_ca: Arc<str>,
}

impl Env {
    /// The shell's row.
    pub(crate) fn shell(&self) -> ControllerRow {
        ControllerRow::new(self.row.name, self.row.workers)
    }
}

/// A resource that the schema must have.
pub(crate) fn must(name: ResourceName) -> Result<&'static Resource, Status> {
    name.find().ok_or_else(|| Status::internal_error(format!("the schema has no {}", name.plural)))
}
