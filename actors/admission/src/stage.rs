//! The trait of admission stages.

use async_trait::async_trait;
use oarlock_meta::Status;

use crate::attributes::{Attributes, Operation};

/// One of the two halves of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Stages may change the object.
    Mutating,
    /// Stages check the final object.
    Validating,
}

/// One admission stage (upstream: an admission plugin).
#[async_trait]
pub trait AdmissionStage: Send + Sync {
    /// Returns upstream's name, as `--enable-admission-plugins` lists it.
    fn name(&self) -> &'static str;

    /// Whether the stage handles an operation.
    fn handles(&self, operation: Operation) -> bool;

    /// Whether the stage has anything to do in a half, for a request whose operation it handles. A stage that has not is not called, which costs much less than a call that returns at once.
    fn takes_part(&self, _half: Half, _attributes: &Attributes<'_>) -> bool {
        true
    }

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
