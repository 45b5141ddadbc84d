//! The shell of a controller: creates it for the units that this process holds, and starts its actor.

use oarlock_informer::{Controller, ControllerBuilder, ControllerRow, Reconcile};
use oarlock_mesh::{Placement, Scope};
use oarlock_runtime::System;

use crate::error::Error;

/// The shell of one controller: system, workers, placement and scope.
#[derive(Clone, Debug)]
pub(crate) struct Shell {
    /// The actor system.
    pub(crate) system: System,
    /// Name of the controller and number of keys reconciled at once.
    pub(crate) row: ControllerRow,
    /// Units that this process holds.
    pub(crate) placement: Placement,
    /// The units among which the controller's keys are split.
    pub(crate) scope: Scope,
}

impl Shell {
    /// Begins a controller that calls `reconcile` for the keys of units that this process holds.
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
