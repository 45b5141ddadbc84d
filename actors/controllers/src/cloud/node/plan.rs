//! What the cloud's word changes about a node.

use std::collections::BTreeSet;

use oarlock_cloud::wire;
use oarlock_informer::Item;

use crate::project::CloudNode;

/// Annotation of a kubelet that was told its addresses (`--node-ip`): they count, if the cloud knows them too.
const PROVIDED: &str = "alpha.kubernetes.io/provided-node-ip";

/// What a new node is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Initial {
    /// Its `spec.providerID`; stays once it is set.
    pub(super) provider_id: String,
    /// Its labels, with the older names beside the present ones.
    pub(super) labels: Vec<(String, String)>,
}

/// What is written of a new node.
///
/// # Errors
/// Why it is no node yet that pods may come to; it is tried again.
pub(super) fn initial(node: &Item<CloudNode>, instance: &wire::Instance) -> Result<Initial, String> {
    let name = node.meta.name();
    let provider_id = match (node.value.provider_id.as_str(), instance.provider_id.as_str()) {
        ("", "") => return Err(format!("cloud provider does not set node provider ID for node {name}")),
        ("", told) => told,
        (known, _) => known,
    };
    addresses(node, instance)?;
    let rows = [
        (&instance.instance_type, ["beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"]),
        (&instance.zone, ["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"]),
        (&instance.region, ["failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"]),
    ];
    let told = rows.into_iter().filter(|(value, _)| !value.is_empty());
    let labels = told.flat_map(|(value, keys)| keys.map(|key| (key.to_owned(), value.clone()))).collect();
    Ok(Initial { provider_id: provider_id.to_owned(), labels })
}

/// Labels of the provider's own that the node lacks or has otherwise; those of Kubernetes' domains are not the provider's to give.
pub(super) fn additional<'a>(node: &Item<CloudNode>, instance: &'a wire::Instance) -> Vec<(&'a str, &'a str)> {
    let theirs = instance.additional_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    theirs.filter(|(key, value)| !is_kubernetes(key) && node.meta.label(key) != Some(*value)).collect()
}

fn is_kubernetes(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    ["kubernetes.io", "k8s.io"]
        .iter()
        .any(|own| domain.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// The addresses that the node is to have; none where the cloud knows none.
///
/// # Errors
/// When the kubelet was told an address that the cloud does not know.
pub(super) fn addresses(node: &Item<CloudNode>, instance: &wire::Instance) -> Result<Vec<wire::Address>, String> {
    let mut known = instance.addresses.clone();
    if known.is_empty() {
        return Ok(known);
    }
    if !known.iter().any(|address| address.r#type == "Hostname") {
        known.extend(node.value.addresses.iter().filter(|address| address.r#type == "Hostname").cloned());
    }
    let Some(provided) = node.meta.annotation(PROVIDED) else { return Ok(known) };
    let mut first: Vec<wire::Address> = Vec::new();
    for ip in provided.split(',').map(str::trim).filter(|ip| !ip.is_empty()) {
        let before = first.len();
        first.extend(known.iter().filter(|address| address.address == ip).cloned());
        if first.len() == before {
            let name = node.meta.name();
            return Err(format!(
                "provided node ip for node {name:?} is not valid: the cloud provider knows no address {ip}"
            ));
        }
    }
    // Of the types that were chosen so, no others count.
    let chosen: BTreeSet<String> = first.iter().map(|address| address.r#type.clone()).collect();
    first.extend(known.into_iter().filter(|address| !chosen.contains(&address.r#type)));
    Ok(first)
}
