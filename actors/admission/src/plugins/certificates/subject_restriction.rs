//! CertificateSubjectRestriction: the signer of the API server's clients issues no certificate for the group `system:masters`.

use async_trait::async_trait;
use oarlock_meta::Status;
use oarlock_registry::Reader;
use oarlock_schema::views::certificates_v1::CertificateSigningRequest;

use crate::attributes::{Attributes, Operation};
use crate::plugins::signing_request;
use crate::stage::{AdmissionStage, Half};

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// The CertificateSubjectRestriction stage.
#[derive(Debug)]
pub struct CertificateSubjectRestriction;

/// Creates the stage CertificateSubjectRestriction.
#[must_use]
pub fn make(_reader: &Reader) -> Box<dyn AdmissionStage> {
    Box::new(CertificateSubjectRestriction)
}

#[async_trait]
impl AdmissionStage for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn takes_part(&self, half: Half, attributes: &Attributes<'_>) -> bool {
        half == Half::Validating && super::concerns(attributes, "")
    }

    async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let Some(asked) =
            attributes.object.as_deref().and_then(|object| object.view::<CertificateSigningRequest<'_>>())
        else {
            return Ok(());
        };
        if asked.spec().signer_name() != SIGNER {
            return Ok(());
        }
        let subject = signing_request::subject(asked)
            .map_err(|why| attributes.forbidden(format!("failed to parse CSR: {why}")))?;
        if subject.organizations.iter().any(|group| group == MASTERS) {
            let why = format!("use of {SIGNER} signer with {MASTERS} group is not allowed");
            return Err(attributes.forbidden(why));
        }
        Ok(())
    }
}
