//! The admission chain: runs the stages in order, each behind a panic guard.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use oarlock_meta::Status;

use crate::attributes::Attributes;
use crate::stage::AdmissionStage;

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
        let operation = attributes.operation;
        for stage in self.stages.iter().filter(|s| s.handles(operation)) {
            guarded(stage.name(), stage.admit(attributes)).await?;
        }
        Ok(())
    }

    /// Runs the validating half: stages check the final object.
    ///
    /// # Errors
    /// The first refusal; a 500 when a stage panics.
    pub async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let operation = attributes.operation;
        for stage in self.stages.iter().filter(|s| s.handles(operation)) {
            guarded(stage.name(), stage.validate(attributes)).await?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

async fn guarded(name: &str, work: impl Future<Output = Result<(), Status>>) -> Result<(), Status> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(result) => result,
        Err(_) => {
            tracing::error!(stage = name, "admission stage panicked");
            Err(Status::internal_error(format!("admission stage {name} failed")))
        }
    }
}
