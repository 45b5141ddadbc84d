//! Validates the load balancer addresses in statuses of Services and Ingresses (upstream `ValidateLoadBalancerStatus`, `ValidateIngressLoadBalancerStatus`).

use std::collections::HashSet;

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{LoadBalancerIngress, Service};
use oarlock_schema::views::networking_v1::Ingress;

use crate::rules::{self, formats, one_of, subdomain};

/// Validates the status of a Service.
pub fn validate_service(new: &Struct, old: &Struct, errors: &mut ErrorList) {
    let (service, before) = (Service::new(new), Service::new(old));
    let path = Path::new("status");
    let path = path.child("loadBalancer");
    let path = path.child("ingress");
    let points = service.status().load_balancer().ingress();
    if service.spec().type_() != "LoadBalancer" {
        if !points.is_empty() {
            errors.push(FieldError::forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'"));
        }
        return;
    }
    let known = before.status().load_balancer().ingress().iter().map(LoadBalancerIngress::ip).collect();
    for (i, point) in points.iter().enumerate() {
        let at = path.index(i);
        address(point.ip(), &known, &at, errors);
        mode(point, &at.child("ipMode"), errors);
        host(point.hostname(), &at, errors);
    }
}

/// Validates the status of an Ingress.
pub fn validate_ingress(new: &Struct, old: &Struct, errors: &mut ErrorList) {
    let (ingress, before) = (Ingress::new(new), Ingress::new(old));
    let path = Path::new("status");
    let path = path.child("loadBalancer");
    let path = path.child("ingress");
    let known = before.status().load_balancer().ingress().iter().map(|point| point.ip()).collect();
    for (i, point) in ingress.status().load_balancer().ingress().iter().enumerate() {
        let at = path.index(i);
        address(point.ip(), &known, &at, errors);
        host(point.hostname(), &at, errors);
    }
}

/// Validates an address. Addresses of the stored status are accepted in any form.
fn address(ip: &str, known: &HashSet<&str>, path: &Path<'_>, errors: &mut ErrorList) {
    if !ip.is_empty() && !known.contains(ip) {
        rules::ip(ip, &path.child("ip"), errors);
    }
}

/// Validates `ipMode`: whether packets arrive with the address of the load balancer (`VIP`) or not (`Proxy`).
fn mode(point: LoadBalancerIngress<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    match point.ip_mode() {
        None if point.ip().is_empty() => {}
        None => errors.push(FieldError::required(path, "must be specified when `ip` is set")),
        Some(_) if point.ip().is_empty() => {
            errors.push(FieldError::forbidden(path, "may not be specified when `ip` is not set"));
        }
        Some(mode) => one_of(mode, &["Proxy", "VIP"], path, errors),
    }
}

fn host(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        return;
    }
    let at = path.child("hostname");
    subdomain(name, &at, errors);
    if formats::is_ip(name) {
        errors.push(FieldError::invalid(&at, name, "must be a DNS name, not an IP address"));
    }
}
