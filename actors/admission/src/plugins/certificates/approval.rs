//! CertificateApproval: approving or denying a signing request requires the permission `approve` for its signer.

use async_trait::async_trait;
use oarlock_meta::{Status, quote};
use oarlock_registry::Reader;
use oarlock_schema::views::certificates_v1::CertificateSigningRequest;
use oarlock_seeded_bug::seeded_bug;

use crate::attributes::{Attributes, Operation};
use crate::stage::{AdmissionStage, Half};

/// The CertificateApproval stage.
#[derive(Debug)]
pub struct CertificateApproval;

/// Creates the stage CertificateApproval.
#[must_use]
pub fn make(_reader: &Reader) -> Box<dyn AdmissionStage> {
    Box::new(CertificateApproval)
}

#[async_trait]
impl AdmissionStage for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Update
    }

    fn takes_part(&self, half: Half, _attributes: &Attributes<'_>) -> bool {
        half == Half::Validating
    }

    async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !super::concerns(attributes, "approval") || seeded_bug!("anybody_approves") {
            return Ok(());
        }
        // The permission is checked for the stored signer; the validation of updates refuses a change of the signer.
        let old = attributes.old.and_then(|old| old.view::<CertificateSigningRequest<'_>>());
        let signer = old.map_or("", |old| old.spec().signer_name());
        if super::may(attributes, "approve", signer) {
            return Ok(());
        }
        let signer = quote::quote(signer);
        Err(attributes.forbidden(format!("user not permitted to approve requests with signerName {signer}")))
    }
}
