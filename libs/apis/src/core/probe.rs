//! Validation of probes and lifecycle hooks.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{Container, ExecAction, HTTPGetAction, Probe, TCPSocketAction};
use oarlock_schema::{Struct, Value};

use crate::rules::{each, formats, port, port_or_name};

/// The handlers, of which a probe or hook may have one.
const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// Validates that there is exactly one handler (upstream `validateHandler`).
pub fn validate_handler(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let mut set = HANDLERS.iter().filter(|name| node.get(name).is_some_and(|v| !v.is_null()));
    if set.next().is_none() {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
    for extra in set {
        errors.push(FieldError::forbidden(&path.child(extra), "may not specify more than 1 handler type"));
    }
}

/// Validates like upstream's `validateProbe`; the table's row checks the counters.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    validate_handler(node, path, errors);
    let probe = Probe::new(node);
    if let Some(grace) = probe.termination_grace_period_seconds().filter(|g| *g <= 0) {
        errors.push(FieldError::invalid(&path.child("terminationGracePeriodSeconds"), grace, "must be greater than 0"));
    }
    if let Some(grpc) = probe.grpc() {
        port(grpc.port(), &path.child("grpc").child("port"), errors);
    }
}

/// Validates a command of a handler.
pub fn validate_exec(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    if ExecAction::new(node).command().is_empty() {
        errors.push(FieldError::required(&path.child("command"), ""));
    }
}

/// Validates the port of a TCP handler.
pub fn validate_tcp(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    port_or_name(TCPSocketAction::new(node).port(), &path.child("port"), errors);
}

/// Validates the request of an HTTP handler.
pub fn validate_http(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let get = HTTPGetAction::new(node);
    port_or_name(get.port(), &path.child("port"), errors);
    for header in get.http_headers().iter() {
        each(formats::http_header(header.name()), header.name(), &path.child("httpHeaders"), errors);
    }
}

/// Validates a container's probes and hooks against the pod's grace period and each other.
pub(super) fn of_container(container: Container<'_>, grace: Option<i64>, path: &Path<'_>, errors: &mut ErrorList) {
    for (name, probe) in [("livenessProbe", container.liveness_probe()), ("startupProbe", container.startup_probe())] {
        if let Some(n) = probe.map(|p| p.success_threshold()).filter(|n| *n != 1) {
            errors.push(FieldError::invalid(&path.child(name).child("successThreshold"), n, "must be 1"));
        }
    }
    if let Some(n) = container.readiness_probe().and_then(|p| p.termination_grace_period_seconds()) {
        let at = path.child("readinessProbe");
        errors.push(FieldError::invalid(
            &at.child("terminationGracePeriodSeconds"),
            n,
            "must not be set for readinessProbes",
        ));
    }
    let Some(lifecycle) = container.lifecycle() else { return };
    for (name, hook) in [("postStart", lifecycle.post_start()), ("preStop", lifecycle.pre_stop())] {
        let Some(seconds) = hook.and_then(|h| h.sleep()).map(|s| s.seconds()) else { continue };
        // An earlier handler makes upstream ignore the sleep.
        let hidden = hook
            .and_then(View::node)
            .is_some_and(|n| HANDLERS.iter().take(4).any(|h| n.get(h).is_some_and(|v: &Value| !v.is_null())));
        if let Some(grace) = grace.filter(|g| !hidden && (seconds < 0 || seconds > *g)) {
            let text = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
            errors.push(FieldError::invalid(&path.child("lifecycle").child(name).child("sleep"), seconds, text));
        }
    }
}
