//! Validates webhooks and the rules that select their requests.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::admissionregistration_v1::WebhookClientConfig;
use oarlock_schema::{Struct, Value};

use crate::rules::{no_backsteps, one_of, required, show, subdomain};

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// Validates like upstream's `validateValidatingWebhook`, `validateMutatingWebhook`: both types have the same fields here.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let text = |field: &str| node.get(field).and_then(Value::as_str);
    let at = path.child("name");
    match text("name") {
        None | Some("") => errors.push(FieldError::required(&at, "")),
        Some(name) => {
            let before = errors.len();
            subdomain(name, &at, errors);
            if errors.len() == before && name.split('.').count() < 3 {
                let rule = "should be a domain with at least three segments separated by dots";
                errors.push(FieldError::invalid(&at, name, rule));
            }
        }
    }
    let at = path.child("sideEffects");
    match text("sideEffects") {
        None => errors.push(FieldError::required(&at, "must specify one of None, NoneOnDryRun")),
        Some(effects) => one_of(effects, &["None", "NoneOnDryRun"], &at, errors),
    }
    if let Some(n) = node.get("timeoutSeconds").and_then(Value::as_int).filter(|n| !(1..=30).contains(n)) {
        let rule = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(&path.child("timeoutSeconds"), n, rule));
    }
    let at = path.child("admissionReviewVersions");
    let versions = node.get("admissionReviewVersions").map_or(&[][..], Value::items);
    if versions.is_empty() {
        errors.push(FieldError::required(&at, "must specify one of v1, v1beta1"));
    } else if !versions.iter().filter_map(Value::as_str).any(|v| matches!(v, "v1" | "v1beta1")) {
        errors.push(FieldError::invalid(&at, Raw(show::items(versions)), "must include at least one of v1, v1beta1"));
    }
}

/// Validates the address of a webhook: a URL or a Service.
pub fn validate_client(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let config = WebhookClientConfig::new(node);
    match (config.url(), config.service()) {
        (Some(_), Some(_)) | (None, None) => {
            errors.push(FieldError::required(path, "exactly one of url or service is required"))
        }
        (Some(url), None) => address(url, &path.child("url"), errors),
        (None, Some(service)) => {
            let at = path.child("service");
            required(service.name(), &at.child("name"), errors);
            required(service.namespace(), &at.child("namespace"), errors);
            if let Some(port) = service.port().filter(|p| !(1..=65_535).contains(p)) {
                let rule = "port is not valid: must be between 1 and 65535, inclusive";
                errors.push(FieldError::invalid(&at.child("port"), port, rule));
            }
            if let Some(target) = service.path() {
                let here = at.child("path");
                if target.starts_with('/') {
                    no_backsteps(target, &here, errors);
                } else {
                    errors.push(FieldError::invalid(&here, target, "must start with a '/'"));
                }
            }
        }
    }
}

fn address(url: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let form = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (host, _) = rest.split_once('/').unwrap_or((rest, ""));
    let rules = [
        (scheme != "https", scheme, format!("'https' is the only allowed URL scheme{form}")),
        (host.is_empty(), host, format!("host must be specified{form}")),
        (
            host.contains('@'),
            host.split('@').next().unwrap_or(""),
            format!("user information is not permitted in the URL{form}"),
        ),
        (
            rest.contains('#'),
            rest.split('#').nth(1).unwrap_or(""),
            format!("fragments are not permitted in the URL{form}"),
        ),
        (
            rest.contains('?'),
            rest.split('?').nth(1).unwrap_or(""),
            format!("query parameters are not permitted in the URL{form}"),
        ),
    ];
    for (_, shown, text) in rules.into_iter().filter(|(broken, ..)| *broken) {
        errors.push(FieldError::invalid(path, shown, text));
    }
}

/// Validates like upstream's `validateRuleWithOperations`.
pub fn validate_rule(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["operations", "apiGroups", "apiVersions", "resources"] {
        let at = path.child(field);
        let items: Vec<&str> = node.get(field).map_or(&[][..], Value::items).iter().filter_map(Value::as_str).collect();
        if items.is_empty() {
            errors.push(FieldError::required(&at, ""));
        }
        if items.len() > 1 && items.contains(&"*") && field != "resources" {
            let shown = node.get(field).map_or(&[][..], Value::items);
            let text = "if '*' is present, must not specify other ";
            let what = match field {
                "operations" => "operations",
                "apiGroups" => "API groups",
                _ => "API versions",
            };
            errors.push(FieldError::invalid(&at, Raw(show::items(shown)), format!("{text}{what}")));
        }
        for (i, item) in items.iter().enumerate() {
            match field {
                "operations" => one_of(item, OPERATIONS, &at.index(i), errors),
                // The core group's name is empty.
                "apiGroups" => {}
                _ => required(item, &at.index(i), errors),
            }
        }
    }
}
