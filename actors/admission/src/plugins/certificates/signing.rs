//! CertificateSigning: setting the certificate or the conditions of a signing request through `status` requires the permission `sign` for its signer.

use async_trait::async_trait;
use oarlock_meta::{Status, quote};
use oarlock_registry::Reader;
use oarlock_schema::views::certificates_v1::CertificateSigningRequest;
use oarlock_schema::{Obj, canonical};

use crate::attributes::{Attributes, Operation};
use crate::stage::{AdmissionStage, Half};

/// The CertificateSigning stage.
#[derive(Debug)]
pub struct CertificateSigning;

/// Creates the stage CertificateSigning.
#[must_use]
pub fn make(_reader: &Reader) -> Box<dyn AdmissionStage> {
    Box::new(CertificateSigning)
}

#[async_trait]
impl AdmissionStage for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Update
    }

    fn takes_part(&self, half: Half, _attributes: &Attributes<'_>) -> bool {
        half == Half::Validating
    }

    async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !super::concerns(attributes, "status") {
            return Ok(());
        }
        let (new, old) = (attributes.object.as_deref(), attributes.old);
        let same = |field: &str| {
            let value = |obj: Option<&Obj>| obj.and_then(|obj| obj.at(&["status", field])).cloned();
            canonical::same(value(new).as_ref(), value(old).as_ref())
        };
        if same("certificate") && same("conditions") {
            return Ok(());
        }
        let old = old.and_then(|old| old.view::<CertificateSigningRequest<'_>>());
        let signer = old.map_or("", |old| old.spec().signer_name());
        if super::may(attributes, "sign", signer) {
            return Ok(());
        }
        let signer = quote::quote(signer);
        Err(attributes.forbidden(format!("user not permitted to sign requests with signerName {signer}")))
    }
}
