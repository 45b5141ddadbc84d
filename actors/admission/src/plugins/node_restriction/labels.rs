//! The labels that a kubelet may set on its Node: those outside Kubernetes' domains, and a list of known ones (KEP-279).

use oarlock_schema::Obj;

/// The domain reserved for administrators, closed to kubelets.
const RESTRICTED: &str = "node-restriction.kubernetes.io";
/// The domains of Kubernetes.
const RESERVED: &[&str] = &["kubernetes.io", "k8s.io"];
/// The subdomains open to kubelets.
const KUBELETS: &[&str] = &["kubelet.kubernetes.io", "node.kubernetes.io"];
/// The single labels of Kubernetes' domains that are open to kubelets.
const KNOWN: &[&str] = &[
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// Returns the changed labels that a kubelet may not change, in order.
pub(super) fn refused<'a>(new: &'a Obj, old: Option<&'a Obj>) -> Vec<&'a str> {
    let value = |obj: Option<&'a Obj>, key: &str| obj.and_then(|o| o.meta().labels().get(key));
    let keys = |obj: &'a Obj| obj.meta().labels().iter().map(|(key, _)| key);
    let all = keys(new).chain(old.into_iter().flat_map(keys));
    let mut refused: Vec<&str> = all.filter(|key| value(Some(new), key) != value(old, key) && !allowed(key)).collect();
    refused.sort_unstable();
    refused.dedup();
    refused
}

fn allowed(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within = |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|head| head.ends_with('.'));
    if within(RESTRICTED) {
        return false;
    }
    !RESERVED.iter().any(|d| within(d)) || KUBELETS.iter().any(|d| within(d)) || KNOWN.contains(&label)
}
