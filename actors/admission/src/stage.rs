//! The trait of admission stages.

use async_trait::async_trait;
use oarlock_meta::Status;

use crate::attributes::{Attributes, Operation};

/// One admission stage (upstream: an admission plugin).
#[async_trait]
pub trait AdmissionStage: Send + Sync {
    /// Returns upstream's name, as `--enable-admission-plugins` lists it.
    fn name(&self) -> &'static str;

    /// Whether the stage handles an operation.
    fn handles(&self, operation: Operation) -> bool;

    /// Changes the object, before defaults and validation.
    ///
    /// # Errors
    /// The Status with which the request is refused.
    async fn admit(&self, _attributes: &mut Attributes<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Checks the final object.
    ///
    /// # Errors
    /// The Status with which the request is refused.
    async fn validate(&self, _attributes: &mut Attributes<'_>) -> Result<(), Status> {
        Ok(())
    }
}
