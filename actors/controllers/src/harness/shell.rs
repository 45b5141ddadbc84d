//! The shell in which a controller runs: queue, workers and the units that this process holds.

use oarlock_informer::{Controller, ControllerBuilder, ControllerRow, Reconcile};
use oarlock_mesh::{Placement, Scope};
use oarlock_runtime::System;

use crate::error::Error;

/// What the shells of all controllers have in common.
#[derive(Clone, Debug)]
pub(crate) struct Shell {
    /// Where actors run.
    pub(crate) system: System,
    /// Name of the controller and number of keys reconciled at once.
    pub(crate) row: ControllerRow,
    /// Units that this process holds.
    pub(crate) placement: Placement,
    /// Units that the controller works for.
    pub(crate) scope: Scope,
}

impl Shell {
    /// A controller that calls `reconcile` for the keys of units that this process holds.
    pub(crate) fn controller(&self, reconcile: impl Reconcile) -> ControllerBuilder {
        Controller::new(self.row, reconcile).placed(&self.placement, self.scope.clone())
    }

    /// Starts a controller.
    ///
    /// # Errors
    /// [`Error::Spawn`].
    pub(crate) async fn spawn(&self, controller: ControllerBuilder) -> Result<(), Error> {
        let spawned = controller.spawn(&self.system).await;
        spawned.map(drop).map_err(|source| Error::Spawn { name: self.row.name, source })
    }
}
