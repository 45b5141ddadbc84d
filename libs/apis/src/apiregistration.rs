//! Rules of the apiregistration group: defaults, validation and warnings.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::apiregistration_v1::{APIService, APIServiceSpec};

use crate::rules::{each, formats, object_meta::composed_name, one_of, optional_subdomain};
use crate::type_rules::TypeRules;

/// The rules of the apiregistration group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("apiregistration/v1.APIService").validate(service).status(status),
    TypeRules::of("apiregistration/v1.APIServiceSpec").validate(spec),
];

fn service(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let service = APIService::new(node);
    let wanted = format!("{}.{}", service.spec().version(), service.spec().group());
    let why = format!("must be `spec.version+\".\"+spec.group`: \"{wanted}\"");
    let is_segment = |name: &str| formats::path_segment(name).is_empty();
    if is_segment(service.metadata().name()) && is_segment(service.metadata().generate_name()) {
        composed_name(service.metadata(), &wanted, &why, path, errors);
    }
}

/// Validates like upstream's `ValidateAPIService`, without the name.
fn spec(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = APIServiceSpec::new(node);
    let group = path.child("group");
    if spec.group().is_empty() && spec.version() != "v1" {
        let text = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(&group, text));
    }
    optional_subdomain(spec.group(), &group, errors);
    each(formats::dns1035_label(spec.version()), spec.version(), &path.child("version"), errors);
    for (field, n, most) in [
        ("groupPriorityMinimum", spec.group_priority_minimum(), 20_000),
        ("versionPriority", spec.version_priority(), 1_000),
    ] {
        if n <= 0 || n > most {
            let text = format!("must be positive and less than {most}");
            errors.push(FieldError::invalid(&path.child(field), n, text));
        }
    }
    let (insecure, bundle) = (path.child("insecureSkipTLSVerify"), spec.ca_bundle());
    let Some(backend) = spec.service() else {
        if !bundle.is_empty() {
            // Upstream counts the decoded bytes, not the base64 text.
            let bytes = bundle.trim_end_matches('=').len() * 3 / 4;
            let text = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid(&path.child("caBundle"), format!("{bytes} bytes"), text));
        }
        if spec.insecure_skip_tls_verify() {
            errors.push(FieldError::invalid(&insecure, true, "local APIServices may not have insecureSkipTLSVerify"));
        }
        return;
    };
    let at = path.child("service");
    for (field, value) in [("namespace", backend.namespace()), ("name", backend.name())] {
        if value.is_empty() {
            errors.push(FieldError::required(&at.child(field), ""));
        }
    }
    if let Some(port) = backend.port().filter(|port| !(1..=65_535).contains(port)) {
        let text = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(&at.child("port"), port, text));
    }
    if spec.insecure_skip_tls_verify() && !bundle.is_empty() {
        errors.push(FieldError::invalid(&insecure, true, "may not be true if caBundle is present"));
    }
}

/// Validates the status: a condition is True, False or Unknown (upstream `ValidateAPIServiceStatus`).
fn status(new: &Struct, _: &Struct, errors: &mut ErrorList) {
    let path = Path::new("status");
    let path = path.child("conditions");
    for (i, condition) in APIService::new(new).status().conditions().iter().enumerate() {
        one_of(condition.status(), &["True", "False", "Unknown"], &path.index(i).child("status"), errors);
    }
}
