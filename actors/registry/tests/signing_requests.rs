//! What a signer may write to a CertificateSigningRequest.

use base64::Engine as _;
use oarlock_meta::ErrorList;
use oarlock_pki::{Authority, UnixTime};
use oarlock_registry::kind;
use oarlock_registry::kind::{Request, Requester};
use oarlock_schema::{Obj, resource};
use std::collections::BTreeMap;

fn request(certificate: &str) -> Obj {
    let certificate = base64::engine::general_purpose::STANDARD.encode(certificate);
    let json = format!(r#"{{"metadata":{{"name":"a"}},"status":{{"certificate":"{certificate}"}}}}"#);
    let row = resource("certificates.k8s.io", "v1", "certificatesigningrequests").unwrap();
    oarlock_registry::index::decode(json.as_bytes(), row.ty).unwrap()
}

fn errors(new: &str, old: &str) -> Vec<String> {
    let kind = kind(resource("certificates.k8s.io", "v1", "certificatesigningrequests").unwrap());
    let extra = BTreeMap::new();
    let user = Requester { name: "u", uid: "", groups: &[], extra: &extra };
    let context = Request { resource: kind.resource, endpoint: "status", now: "", user };
    let mut errors = ErrorList::default();
    kind.strategy.validate(&context, &request(new), Some(&request(old)), &mut errors);
    errors.iter().map(|e| format!("{}: {}", e.field, e.body())).collect()
}

#[test]
fn a_certificate_is_pem_certificates() {
    let ca = Authority::create("ca", UnixTime::since_unix_epoch(std::time::Duration::from_secs(1))).unwrap();
    let good = ca.certificate_pem();
    assert_eq!(errors(&good, ""), [""; 0]);
    let text =
        "status.certificate: Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block";
    assert_eq!(errors("nonsense", ""), [text]);
    assert_eq!(errors("nonsense", "nonsense"), [""; 0], "what is stored may stay");
    let fixed = "status.certificate: Forbidden: updates may not modify existing certificate content";
    assert_eq!(errors("", &good), [fixed], "it is given once");
}
