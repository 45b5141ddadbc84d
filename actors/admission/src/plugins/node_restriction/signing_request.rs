//! The certificates that a kubelet may request: only those in its own name.

use oarlock_schema::Obj;
use oarlock_schema::views::certificates_v1::CertificateSigningRequest;

use crate::plugins::signing_request;

/// The signers whose certificates name a node.
const SIGNERS: &[&str] = &["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

/// Checks a kubelet's new signing request.
pub(super) fn check(obj: &Obj, node: &str) -> Result<(), String> {
    let Some(asked) = obj.view::<CertificateSigningRequest<'_>>() else { return Ok(()) };
    if !SIGNERS.contains(&asked.spec().signer_name()) {
        return Ok(());
    }
    let subject = signing_request::subject(asked).map_err(|why| format!("unable to parse csr: {why}"))?;
    if subject.common_name == format!("system:node:{node}") {
        return Ok(());
    }
    Err(format!("can only create a node CSR with CN=system:node:{node}"))
}
