//! Rules of the certificates group: defaults, validation and warnings.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::certificates_v1::{
    CertificateSigningRequestCondition, CertificateSigningRequestSpec, CertificateSigningRequestStatus,
};

use crate::rules::{Seen, one_of};
use crate::type_rules::TypeRules;

/// The rules of the certificates group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("certificates/v1.CertificateSigningRequest").whole_status(),
    TypeRules::of("certificates/v1.CertificateSigningRequestSpec").required(&["usages"]).validate(spec),
    TypeRules::of("certificates/v1.CertificateSigningRequestStatus").after(status),
    TypeRules::of("certificates/v1.CertificateSigningRequestCondition").required(&["type"]).validate(condition),
];

/// Key usages, in the order of error texts.
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Validates like upstream's `validateCertificateSigningRequest`, without the request itself.
fn spec(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = CertificateSigningRequestSpec::new(node);
    let mut seen: Seen<&str> = Seen::new();
    for (i, usage) in spec.usages().iter().enumerate() {
        let list = path.child("usages");
        one_of(usage, USAGES, &list.index(i), errors);
        if seen.contains(&usage) {
            errors.push(FieldError::duplicate(&list.index(i), usage));
        }
        seen.push(usage);
    }
    signer(spec.signer_name(), &path.child("signerName"), errors);
    if let Some(seconds) = spec.expiration_seconds().filter(|s| *s < 600) {
        let text = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(&path.child("expirationSeconds"), seconds, text));
    }
}

/// Validates a signer name: a domain and a path below the domain (upstream `ValidateSignerName`).
fn signer(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name == "kubernetes.io/legacy-unknown" {
        errors.push(FieldError::invalid(path, name, "the legacy signerName is not allowed via this API version"));
        return;
    }
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [domain, rest] if !rest.is_empty() => {
            crate::rules::subdomain(domain, path, errors);
            for label in rest.split('.').filter(|label| label.is_empty()) {
                crate::rules::label(label, path, errors);
            }
        }
        _ => {
            let text = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            errors.push(FieldError::invalid(path, name, text));
        }
    }
}

/// Validates the conditions: Approved and Denied exclude each other, and no type occurs twice.
fn status(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("conditions");
    let mut seen: Seen<&str> = Seen::new();
    for (i, condition) in CertificateSigningRequestStatus::new(node).conditions().iter().enumerate() {
        let kind = condition.type_();
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !other.is_empty() && seen.contains(&other) {
            errors.push(FieldError::invalid(&at, kind, "Approved and Denied conditions are mutually exclusive"));
        }
        if seen.contains(&kind) {
            errors.push(FieldError::duplicate(&at.index(i).child("type"), kind));
        }
        seen.push(kind);
    }
}

fn condition(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let condition = CertificateSigningRequestCondition::new(node);
    let at = path.child("status");
    let decided = matches!(condition.type_(), "Approved" | "Denied" | "Failed");
    let allowed: &[&str] = if decided { &["True"] } else { &["False", "True", "Unknown"] };
    if condition.status().is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        one_of(condition.status(), allowed, &at, errors);
    }
}
