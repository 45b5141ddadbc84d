//! Defaults and validation of EndpointSlice.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::discovery_v1::{Endpoint, EndpointSlice};

use crate::rules::{Seen, address, label, qualified, subdomain};

/// The most endpoints of one slice.
const MAX_ENDPOINTS: usize = 1000;
/// The most addresses of one endpoint.
const MAX_ADDRESSES: usize = 100;
/// The most ports of one slice.
const MAX_PORTS: usize = 20_000;

/// Validates like upstream's `ValidateEndpointSlice`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let slice = EndpointSlice::new(node);
    let endpoints = path.child("endpoints");
    if slice.endpoints().len() > MAX_ENDPOINTS {
        errors.push(FieldError::too_many(&endpoints, slice.endpoints().len(), MAX_ENDPOINTS));
    }
    for (i, endpoint) in slice.endpoints().iter().enumerate() {
        one(endpoint, slice.address_type(), &endpoints.index(i), errors);
    }
    let ports = path.child("ports");
    if slice.ports().len() > MAX_PORTS {
        errors.push(FieldError::too_many(&ports, slice.ports().len(), MAX_PORTS));
        return;
    }
    let mut names: Seen<&str> = Seen::new();
    for (i, port) in slice.ports().iter().enumerate() {
        let (at, name) = (ports.index(i), port.name().unwrap_or(""));
        if !name.is_empty() {
            label(name, &at.child("name"), errors);
        }
        if names.contains(&name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        names.push(name);
        if let Some(protocol) = port.app_protocol() {
            qualified(protocol, &at.child("appProtocol"), errors);
        }
    }
}

fn one(endpoint: Endpoint<'_>, kind: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("addresses");
    match endpoint.addresses().len() {
        0 => errors.push(FieldError::required(&at, "must contain at least 1 address")),
        n if n > MAX_ADDRESSES => errors.push(FieldError::too_many(&at, n, MAX_ADDRESSES)),
        _ => {}
    }
    for (i, text) in endpoint.addresses().iter().enumerate() {
        match kind {
            // Type IPv4 is older than strict validation: its addresses are parsed like those of Endpoints.
            "IPv4" => match address::parse(text) {
                None => address::legacy(text, &at.index(i), errors),
                Some(ip) => of_family(ip.is_ipv4(), kind, text, (&at, i), errors),
            },
            "IPv6" => match address::strict(text) {
                Some(wrong) => errors.push(FieldError::invalid(&at.index(i), text, wrong)),
                None => of_family(text.contains(':'), kind, text, (&at, i), errors),
            },
            "FQDN" if !text.trim_end_matches('.').contains('.') => {
                let wrong = "should be a domain with at least two segments separated by dots";
                errors.push(FieldError::invalid(&at.index(i), text, wrong));
            }
            "FQDN" => subdomain(text.strip_suffix('.').unwrap_or(text), &at.index(i), errors),
            _ => {}
        }
    }
    if let Some(name) = endpoint.hostname() {
        label(name, &path.child("hostname"), errors);
    }
    if let Some(name) = endpoint.node_name() {
        subdomain(name, &path.child("nodeName"), errors);
    }
}

/// Validates a parsed address: it must be of the slice's family and no loopback or link-local one. As upstream, the first error has the path of
/// the whole list.
fn of_family(is: bool, kind: &str, text: &str, (list, i): (&Path<'_>, usize), errors: &mut ErrorList) {
    if !is {
        errors.push(FieldError::invalid(list, text, format!("must be an {kind} address")));
    }
    address::endpoint(text, &list.index(i), errors);
}

/// Controllers that correct the addresses they write, so that no warning is needed.
const CORRECTING_CONTROLLERS: [&str; 2] =
    ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

/// Warns of addresses in deprecated forms, and of type FQDN.
pub fn warnings(node: &Struct, path: &Path<'_>, texts: &mut Vec<String>) {
    let slice = EndpointSlice::new(node);
    if slice.address_type() == "FQDN" {
        // Upstream's path has a superfluous part.
        texts.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let manager = slice.metadata().labels().get("endpointslice.kubernetes.io/managed-by");
    if manager.is_some_and(|manager| CORRECTING_CONTROLLERS.contains(&manager)) {
        return;
    }
    let list = path.child("endpoints");
    for (i, endpoint) in slice.endpoints().iter().enumerate() {
        let at = list.index(i);
        let at = at.child("addresses");
        for (i, text) in endpoint.addresses().iter().enumerate() {
            address::warn(text, &at.index(i), texts);
        }
    }
}
