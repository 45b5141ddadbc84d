//! Defaults and validation of NetworkPolicy.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::networking_v1::{
    IPBlock, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec, NetworkPolicySpecMut,
};
use oarlock_schema::{IntOrStr, Struct, Value};

use crate::rules::address::{self, Range};
use crate::rules::{formats, one_of, port_or_name, show};

/// Sets the default policy types: ingress, and egress if the policy has egress rules (upstream `SetDefaults_NetworkPolicy`).
pub fn default(node: &mut Struct) {
    let mut spec = NetworkPolicySpecMut::new(node);
    if spec.read().policy_types().is_empty() {
        let egress = !spec.read().egress().is_empty();
        let types: Value = ["Ingress"].into_iter().chain(egress.then_some("Egress")).collect();
        spec.set_policy_types(types);
    }
}

/// Validates like upstream's `ValidateNetworkPolicySpec`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let types = NetworkPolicySpec::new(node).policy_types();
    let at = path.child("policyTypes");
    if types.len() > 2 {
        let shown = Raw(show::items(types.values()));
        errors.push(FieldError::invalid(&at, shown, "may not specify more than two policyTypes"));
        return;
    }
    for (i, kind) in types.iter().enumerate() {
        one_of(kind, &["Ingress", "Egress"], &at.index(i), errors);
    }
}

/// Validates a port, or a range of ports.
pub fn validate_port(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let port = NetworkPolicyPort::new(node);
    if let Some(protocol) = port.protocol() {
        one_of(protocol, &["TCP", "UDP", "SCTP"], &path.child("protocol"), errors);
    }
    if let Some(value) = port.port() {
        port_or_name(value, &path.child("port"), errors);
    }
    let Some(end) = port.end_port() else { return };
    let at = path.child("endPort");
    match port.port() {
        None => errors.push(FieldError::invalid(&at, end, "may not be specified when `port` is not specified")),
        Some(IntOrStr::Str(_)) => {
            errors.push(FieldError::invalid(&at, end, "may not be specified when `port` is non-numeric"))
        }
        Some(IntOrStr::Int(start)) => {
            if start > end {
                // Upstream shows the start of the range.
                errors.push(FieldError::invalid(&at, start, "must be greater than or equal to `port`"));
            }
            crate::rules::port(end, &at, errors);
        }
    }
}

/// Validates a peer.
pub fn validate_peer(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let peer = NetworkPolicyPeer::new(node);
    let selectors = usize::from(peer.pod_selector().is_some()) + usize::from(peer.namespace_selector().is_some());
    match (selectors, peer.ip_block()) {
        (0, None) => errors.push(FieldError::required(path, "must specify a peer")),
        (1.., Some(_)) => errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer")),
        _ => {}
    }
}

/// Validates an address range and its excluded ranges.
pub fn validate_block(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let block = IPBlock::new(node);
    let at = path.child("cidr");
    let text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    if block.cidr().is_empty() {
        errors.push(FieldError::required(&at, ""));
        return;
    }
    if !formats::is_cidr(block.cidr()) {
        errors.push(FieldError::invalid(&at, block.cidr(), text));
        return;
    }
    for (i, range) in block.except().iter().enumerate() {
        let at = path.child("except");
        let at = at.index(i);
        if !formats::is_cidr(range) {
            errors.push(FieldError::invalid(&at, range, text));
        } else if !strictly_within(range, block.cidr()) {
            errors.push(FieldError::invalid(&at, range, "must be a strict subset of `cidr`"));
        }
    }
}

fn strictly_within(inner: &str, outer: &str) -> bool {
    let (inner, outer) = (Range::parse(inner), Range::parse(outer));
    inner.zip(outer).is_some_and(|(inner, outer)| outer.holds_more_than(inner))
}

/// Warns of ranges of a peer in deprecated forms.
pub fn warnings(node: &Struct, path: &Path<'_>, texts: &mut Vec<String>) {
    let Some(block) = NetworkPolicyPeer::new(node).ip_block() else { return };
    let at = path.child("ipBlock");
    address::warn_range(block.cidr(), &at.child("cidr"), texts);
    for (i, range) in block.except().iter().enumerate() {
        address::warn_range(range, &at.child("except").index(i), texts);
    }
}
