//! Plans the changes of a node from the cloud's answer about its machine.

use std::collections::BTreeSet;

use oarlock_cloud::wire;
use oarlock_informer::Item;

use crate::project::CloudNode;

/// The annotation of a kubelet with configured addresses (`--node-ip`). The addresses are used if the cloud confirms them.
const PROVIDED: &str = "alpha.kubernetes.io/provided-node-ip";

/// The initial properties of a new node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Initial {
    /// The node's `spec.providerID`, which never changes once it is set.
    pub(super) provider_id: String,
    /// The node's labels, under the current and the older names.
    pub(super) labels: Vec<(String, String)>,
}

/// Returns the properties to write to a new node.
///
/// # Errors
/// Why the node cannot be initialized yet; the controller tries again.
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

/// Returns the provider's additional labels that the node lacks or has with other values. Labels of Kubernetes' domains are ignored: a provider must not
/// set them.
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

/// Returns the addresses that the node should have; none if the cloud knows none.
///
/// # Errors
/// When the kubelet is configured with an address that the cloud does not know.
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
    // Further addresses of the same types are left out.
    let chosen: BTreeSet<String> = first.iter().map(|address| address.r#type.clone()).collect();
    first.extend(known.into_iter().filter(|address| !chosen.contains(&address.r#type)));
    Ok(first)
}
