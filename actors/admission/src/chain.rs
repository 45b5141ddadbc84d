//! The admission chain: runs the stages in order, behind a panic guard.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use oarlock_meta::Status;

use crate::attributes::{Attributes, Operation};
use crate::stage::{AdmissionStage, Half};

/// The admission stages of a server, in order.
#[derive(Clone)]
pub struct Chain {
    stages: Arc<[Box<dyn AdmissionStage>]>,
}

impl Chain {
    /// Creates a chain of these stages.
    #[must_use]
    pub fn new(stages: Vec<Box<dyn AdmissionStage>>) -> Self {
        Self { stages: stages.into() }
    }

    /// Returns the names of the stages, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.stages.iter().map(|s| s.name())
    }

    /// Runs the mutating half: stages may change the object.
    ///
    /// # Errors
    /// The first refusal; a 500 when a stage panics.
    pub async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let mut running = "";
        let work = async {
            for stage in self.handling(attributes.operation, &mut running) {
                if stage.takes_part(Half::Mutating, attributes) {
                    stage.admit(attributes).await?;
                }
            }
            Ok(())
        };
        let outcome = AssertUnwindSafe(work).catch_unwind().await;
        outcome.unwrap_or_else(|_| Err(panicked(running)))
    }

    /// Runs the validating half: stages check the final object.
    ///
    /// # Errors
    /// The first refusal; a 500 when a stage panics.
    pub async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let mut running = "";
        let work = async {
            for stage in self.handling(attributes.operation, &mut running) {
                if stage.takes_part(Half::Validating, attributes) {
                    stage.validate(attributes).await?;
                }
            }
            Ok(())
        };
        let outcome = AssertUnwindSafe(work).catch_unwind().await;
        outcome.unwrap_or_else(|_| Err(panicked(running)))
    }

    /// Returns the stages that handle an operation, and notes the name of the latest one.
    fn handling(
        &self,
        operation: Operation,
        latest: &mut &'static str,
    ) -> impl Iterator<Item = &dyn AdmissionStage> + Send {
        self.stages
            .iter()
            .map(Box::as_ref)
            .filter(move |stage| stage.handles(operation))
            .inspect(|stage| *latest = stage.name())
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Returns the answer to a request in which a stage has panicked.
fn panicked(name: &str) -> Status {
    tracing::error!(stage = name, "admission stage panicked");
    Status::internal_error(format!("admission stage {name} failed"))
}
