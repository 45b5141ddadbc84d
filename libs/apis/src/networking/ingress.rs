//! Defaults and validation of Ingress and IngressClass.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::networking_v1::{HTTPIngressPath, Ingress, IngressBackend, IngressClassSpec, IngressSpec};

use crate::rules::{each, formats, no_backsteps, one_of, optional_subdomain, show, subdomain};

/// Validates like upstream's `ValidateIngressSpec`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = IngressSpec::new(node);
    if spec.rules().is_empty() && spec.default_backend().is_none() {
        let shown = show::value(None);
        errors.push(FieldError::invalid(path, shown, "either `defaultBackend` or `rules` must be specified"));
    }
    for (i, rule) in spec.rules().iter().enumerate().filter(|(_, r)| !r.host().is_empty()) {
        let at = path.child("rules");
        let at = at.index(i);
        host(rule.host(), &at.child("host"), errors);
    }
    for (i, tls) in spec.tls().iter().enumerate() {
        let at = path.child("tls");
        let at = at.index(i);
        for (j, name) in tls.hosts().iter().enumerate() {
            wildcard_host(name, &at.child("hosts").index(j), errors);
        }
        optional_subdomain(tls.secret_name(), &at.child("secretName"), errors);
    }
    if let Some(class) = spec.ingress_class_name() {
        subdomain(class, &path.child("ingressClassName"), errors);
    }
}

fn host(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if formats::is_ip(name) {
        errors.push(FieldError::invalid(path, name, "must be a DNS name, not an IP address"));
    } else {
        wildcard_host(name, path, errors);
    }
}

fn wildcard_host(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    match name.strip_prefix("*.") {
        Some(rest) if !rest.contains('*') => {
            each(oarlock_meta::names::subdomain_errors(rest), name, path, errors);
        }
        _ => subdomain(name, path, errors),
    }
}

/// Validates a path with its backend.
pub fn validate_path(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let one = HTTPIngressPath::new(node);
    let at = path.child("path");
    match one.path_type() {
        None => errors.push(FieldError::required(&path.child("pathType"), "pathType must be specified")),
        Some("Exact" | "Prefix") => {
            if !one.path().starts_with('/') {
                errors.push(FieldError::invalid(&at, one.path(), "must be an absolute path"));
            }
            if one.path().contains("//") {
                errors.push(FieldError::invalid(&at, one.path(), "must not contain '//'"));
            }
            no_backsteps(one.path(), &at, errors);
            for part in ["/./", "%2f", "%2F"] {
                if one.path().contains(part) {
                    errors.push(FieldError::invalid(&at, one.path(), format!("must not contain '{part}'")));
                }
            }
            for end in ["/..", "/."] {
                if one.path().ends_with(end) {
                    errors.push(FieldError::invalid(&at, one.path(), format!("cannot end with '{end}'")));
                }
            }
        }
        Some("ImplementationSpecific") => {
            if !one.path().is_empty() && !one.path().starts_with('/') {
                errors.push(FieldError::invalid(&at, one.path(), "must be an absolute path"));
            }
        }
        Some(other) => one_of(other, &["Exact", "ImplementationSpecific", "Prefix"], &path.child("pathType"), errors),
    }
}

/// Validates like upstream's `validateIngressBackend`.
pub fn validate_backend(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let backend = IngressBackend::new(node);
    match (backend.service(), backend.resource()) {
        (Some(_), Some(_)) => {
            errors.push(FieldError::invalid(path, "", "cannot set both resource and service backends"))
        }
        (None, None) => errors.push(FieldError::invalid(path, "", "resource or service backend is required")),
        (None, Some(_)) => {}
        (Some(service), None) => {
            let at = path.child("service");
            if service.name().is_empty() {
                errors.push(FieldError::required(&at.child("name"), ""));
            } else {
                each(formats::dns1035_label(service.name()), service.name(), &at.child("name"), errors);
            }
            let (number, name) = (service.port().number(), service.port().name());
            let port = at.child("port");
            match (number, name) {
                (0, "") => errors.push(FieldError::required(path, "port name or number is required")),
                (0, name) => each(formats::port_name(name), name, &port.child("name"), errors),
                (n, "") => crate::rules::port(n, &port.child("number"), errors),
                _ => errors.push(FieldError::invalid(path, "", "cannot set both port name & port number")),
            }
        }
    }
}

/// Warns of the deprecated class annotation, which the field replaces.
pub fn warnings(node: &Struct, _: &Path<'_>, texts: &mut Vec<String>) {
    if Ingress::new(node).metadata().annotations().get("kubernetes.io/ingress.class").is_some() {
        texts.push(
            "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
                .to_owned(),
        );
    }
}

/// Validates like upstream's `validateIngressClassSpec`.
pub fn validate_class(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let controller = IngressClassSpec::new(node).controller();
    let at = path.child("controller");
    match controller.split_once('/') {
        _ if controller.is_empty() => errors.push(FieldError::required(&at, "")),
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => subdomain(domain, &at, errors),
        _ => {
            let text = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(FieldError::invalid(&at, controller, text));
        }
    }
}
