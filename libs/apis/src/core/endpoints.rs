//! Defaults and validation of Endpoints.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{EndpointAddress, EndpointSubset, Endpoints};

use crate::rules::{self, label, port, qualified, subdomain};

/// Validates like upstream's `validateEndpointSubsets`.
pub fn validate_subset(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let subset = EndpointSubset::new(node);
    if subset.addresses().is_empty() && subset.not_ready_addresses().is_empty() {
        errors.push(FieldError::required(path, "must specify `addresses` or `notReadyAddresses`"));
    }
    let several = subset.ports().len() > 1;
    for (i, one) in subset.ports().iter().enumerate() {
        let list = path.child("ports");
        let at = list.index(i);
        if one.name().is_empty() {
            if several {
                errors.push(FieldError::required(&at.child("name"), ""));
            }
        } else {
            label(one.name(), &at.child("name"), errors);
        }
        port(one.port(), &at.child("port"), errors);
        if let Some(protocol) = one.app_protocol() {
            qualified(protocol, &at.child("appProtocol"), errors);
        }
    }
}

/// Validates like upstream's `validateEndpointAddress`.
pub fn validate_address(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let address = EndpointAddress::new(node);
    let ip = path.child("ip");
    rules::ip(address.ip(), &ip, errors);
    if !address.hostname().is_empty() {
        label(address.hostname(), &path.child("hostname"), errors);
    }
    if let Some(name) = address.node_name() {
        subdomain(name, &path.child("nodeName"), errors);
    }
    rules::address::endpoint(address.ip(), &ip, errors);
}

/// Warns of addresses in deprecated forms, except in objects that the endpoints controller wrote: the controller corrects them itself.
pub fn warnings(node: &Struct, path: &Path<'_>, texts: &mut Vec<String>) {
    let endpoints = Endpoints::new(node);
    if endpoints.metadata().labels().get("endpoints.kubernetes.io/managed-by") == Some("endpoint-controller") {
        return;
    }
    let list = path.child("subsets");
    for (i, subset) in endpoints.subsets().iter().enumerate() {
        let at = list.index(i);
        for (field, all) in [("addresses", subset.addresses()), ("notReadyAddresses", subset.not_ready_addresses())] {
            let at = at.child(field);
            for (i, one) in all.iter().enumerate() {
                rules::address::warn(one.ip(), &at.index(i).child("ip"), texts);
            }
        }
    }
}
