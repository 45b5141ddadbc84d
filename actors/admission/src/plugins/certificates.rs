//! CertificateSigningRequests: who may approve and sign for which signer, and which subjects are forbidden.

pub mod approval;
pub mod signing;
pub mod subject_restriction;

use oarlock_cel::AccessQuery;

use crate::attributes::{Attributes, UserPermissions};

const GROUP: &str = "certificates.k8s.io";

/// Whether a request is for this subresource of CertificateSigningRequests.
fn concerns(attributes: &Attributes<'_>, subresource: &str) -> bool {
    let resource = attributes.resource;
    resource.group == GROUP && resource.plural == "certificatesigningrequests" && attributes.subresource == subresource
}

/// Whether the user has the permission `verb` on `signers` for a signer: by the signer's name, or by `<domain>/*` for all signers of the domain
/// (upstream `certauthorization.IsAuthorizedForSignerName`). False without an authorizer.
fn may(attributes: &Attributes<'_>, verb: &str, signer: &str) -> bool {
    let Some(authorizer) = attributes.authorizer.map(UserPermissions::authorizer) else { return false };
    let domain = signer.split('/').next().unwrap_or("");
    [signer.to_owned(), format!("{domain}/*")].into_iter().any(|name| {
        let query = AccessQuery {
            verb: verb.to_owned(),
            group: GROUP.to_owned(),
            resource: "signers".to_owned(),
            name,
            ..AccessQuery::default()
        };
        authorizer.check(&query).allowed
    })
}
