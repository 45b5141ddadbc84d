//! The environment in which a controller is started.

use std::any::Any;
use std::sync::Arc;

use oarlock_client::Client;
use oarlock_informer::{Recorder, ResourceName, SharedInformers};
use oarlock_meta::Status;
use oarlock_schema::{FeatureGates, Resource};

use super::need::{Requirement, Supplies};
use super::settings::Settings;
use super::shell::Shell;
use crate::change_root::ChangeRoots;
use crate::cloud::provider::Cloud;
use crate::error::Error;

/// The environment of one controller: clients, informers, settings and needs.
#[derive(Clone)]
pub(crate) struct Env {
    /// Canonical name of the controller.
    pub(crate) name: &'static str,
    /// Name of the controller's field manager.
    pub(crate) component: &'static str,
    /// The client with the controller's own identity.
    pub(crate) client: Client,
    /// Caches that all controllers of the process share.
    pub(crate) informers: SharedInformers,
    /// The Event recorder with the controller's own identity.
    pub(crate) recorder: Recorder,
    /// The shell that runs the controller.
    pub(crate) shell: Shell,
    /// Settings of all controllers of the process.
    pub(crate) settings: Settings,
    /// Feature gates of the process.
    pub(crate) features: FeatureGates,
    /// The needs that the controller's row declares.
    pub(crate) supplies: Supplies,
    /// The writer of the root spans of the controller's workloads.
    pub(crate) roots: ChangeRoots,
}

impl Env {
    /// Returns the shell that runs the controller.
    pub(crate) fn shell(&self) -> Shell {
        self.shell.clone()
    }

    /// Returns the controller's settings, or the defaults if none are given.
    pub(crate) fn settings<T: Any + Clone + Default>(&self) -> T {
        self.settings.get()
    }

    /// Returns the cluster's CA certificates, PEM.
    ///
    /// # Errors
    /// When the controller's row does not declare [`Requirement::RootCa`].
    pub(crate) fn root_ca(&self) -> Result<Arc<str>, Error> {
        self.supplies.root_ca.clone().ok_or_else(|| self.undeclared(Requirement::RootCa))
    }

    /// Returns the cloud provider.
    ///
    /// # Errors
    /// When the controller's row does not declare [`Requirement::Cloud`].
    pub(crate) fn cloud(&self) -> Result<Cloud, Error> {
        self.supplies.cloud.clone().ok_or_else(|| self.undeclared(Requirement::Cloud))
    }

    fn undeclared(&self, need: Requirement) -> Error {
        Error::Undeclared { name: self.name, need }
    }
}

/// Returns a resource that the schema must have.
///
/// # Errors
/// 500 when the schema lacks the resource.
pub(crate) fn must(name: ResourceName) -> Result<&'static Resource, Status> {
    name.find().ok_or_else(|| Status::internal_error(format!("the schema has no {}", name.plural)))
}
