//! The rules that are the same for every kubelet: upstream's `NodeRules` for resources that are not narrowed by node.

use crate::attributes::Attributes;

const READ: &[&str] = &["get", "list", "watch"];

/// Verbs, group, resource, subresource.
type Row = (&'static [&'static str], &'static str, &'static str, &'static str);

/// `bootstrappolicy.NodeRules`, without the resources that [`super`] decides itself.
const ROWS: &[Row] = &[
    (&["create"], "authentication.k8s.io", "tokenreviews", ""),
    (&["create"], "authorization.k8s.io", "subjectaccessreviews", ""),
    (&["create"], "authorization.k8s.io", "localsubjectaccessreviews", ""),
    (READ, "", "services", ""),
    (&["create", "update", "patch"], "", "events", ""),
    (&["create", "update", "patch"], "events.k8s.io", "events", ""),
    (&["get"], "", "endpoints", ""),
    (&["create", "get", "list", "watch"], "certificates.k8s.io", "certificatesigningrequests", ""),
    (READ, "storage.k8s.io", "csidrivers", ""),
    (READ, "node.k8s.io", "runtimeclasses", ""),
];

/// Allows a request that a row allows.
pub(super) fn allow(a: &Attributes<'_>) -> Result<(), String> {
    let allowed = a.resource_request
        && ROWS.iter().any(|(verbs, group, resource, subresource)| {
            a.resource == *resource && a.subresource == *subresource && a.group == *group && verbs.contains(&a.verb)
        });
    if allowed { Ok(()) } else { Err(String::new()) }
}
