//! The Node authorizer (upstream: `plugin/pkg/auth/authorizer/node`, with the 1.35 defaults of its feature gates). A kubelet may access its own Node,
//! Lease and CSINode, and of other objects only those its pods refer to. The NodeRestriction admission plugin narrows the writes further.

mod graph;
mod rules;
#[cfg(test)]
mod tests;

use parking_lot::RwLock;

use graph::{Graph, Kind};
pub use graph::{ObjectName, PodRefs};

use crate::attributes::{Attributes, Decision};
use crate::grant::Grant;

/// The namespace of the kubelets' Leases.
const NODE_LEASES: &str = "kube-node-lease";

/// The Node authorizer with its graph.
#[derive(Debug, Default)]
pub struct NodeAuthorizer {
    graph: RwLock<Graph>,
}

/// Allowed, or the reason for refusing; the reason may be empty.
type Verdict = Result<(), String>;

impl NodeAuthorizer {
    /// Records a pod bound to a node that was created, or whose node, ephemeral containers or claims changed.
    pub fn upsert_pod(&self, pod: PodRefs) {
        // Most updates change only the status and keep the references.
        if !self.graph.read().knows(&pod) {
            self.graph.write().upsert_pod(pod);
        }
    }

    /// Records the deletion of a pod.
    pub fn delete_pod(&self, namespace: &str, name: &str) {
        self.graph.write().delete_pod(namespace, name);
    }

    /// Records a created or updated PersistentVolume: its bound claim and the Secrets a kubelet needs to mount it.
    pub fn upsert_volume(&self, name: &str, claim: Option<ObjectName>, secrets: Vec<ObjectName>) {
        self.graph.write().upsert_volume(name, claim, secrets);
    }

    /// Records the deletion of a PersistentVolume.
    pub fn delete_volume(&self, name: &str) {
        self.graph.write().upsert_volume(name, None, Vec::new());
    }

    /// Records a created or updated VolumeAttachment; an empty node means none.
    pub fn upsert_attachment(&self, name: &str, node: &str) {
        self.graph.write().set_owner(Kind::VolumeAttachment, name, node);
    }

    /// Records the deletion of a VolumeAttachment.
    pub fn delete_attachment(&self, name: &str) {
        self.graph.write().set_owner(Kind::VolumeAttachment, name, "");
    }

    /// Records a created ResourceSlice; an empty node means none.
    pub fn upsert_slice(&self, name: &str, node: &str) {
        self.graph.write().set_owner(Kind::ResourceSlice, name, node);
    }

    /// Records the deletion of a ResourceSlice.
    pub fn delete_slice(&self, name: &str) {
        self.graph.write().set_owner(Kind::ResourceSlice, name, "");
    }

    /// Decides a request of a node.
    #[must_use]
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let Some(node) = attributes.user.node_name() else {
            return Decision::NoOpinion(String::new());
        };
        if node.is_empty() {
            // Go's %q needs no escapes for a user name that ends in the prefix.
            return Decision::NoOpinion(format!("unknown node for user \"{}\"", attributes.user.name));
        }
        match self.judge(node, attributes) {
            Ok(()) => Decision::Allow(Grant::BuiltIn),
            Err(reason) => Decision::NoOpinion(reason),
        }
    }

    fn judge(&self, node: &str, a: &Attributes<'_>) -> Verdict {
        if !a.resource_request {
            return rules::allow(a);
        }
        match (a.group, a.resource) {
            ("", "secrets") => self.read_namespaced(node, Kind::Secret, a),
            ("", "configmaps") => self.read_namespaced(node, Kind::ConfigMap, a),
            ("", "persistentvolumeclaims") if a.subresource == "status" => match a.verb {
                "update" | "patch" => self.related(node, Kind::Claim, a),
                _ => no("can only get/update/patch this type"),
            },
            ("", "persistentvolumeclaims") => self.get(node, Kind::Claim, a),
            ("", "persistentvolumes") => self.get(node, Kind::Volume, a),
            ("resource.k8s.io", "resourceclaims") => self.get(node, Kind::ResourceClaim, a),
            ("storage.k8s.io", "volumeattachments") => self.get(node, Kind::VolumeAttachment, a),
            ("", "serviceaccounts") => self.service_account(node, a),
            ("coordination.k8s.io", "leases") => lease(node, a),
            ("storage.k8s.io", "csinodes") => csi_node(node, a),
            ("resource.k8s.io", "resourceslices") => self.slice(node, a),
            ("", "nodes") => own_node(node, a),
            ("", "pods") => self.pod(node, a),
            // The feature gate is off.
            ("certificates.k8s.io", "podcertificaterequests") => no(""),
            _ => rules::allow(a),
        }
    }

    fn get(&self, node: &str, kind: Kind, a: &Attributes<'_>) -> Verdict {
        if a.verb != "get" {
            return no("can only get individual resources of this type");
        }
        if !a.subresource.is_empty() {
            return no("cannot get subresource");
        }
        self.related(node, kind, a)
    }

    /// Decides get, list and watch of one object: a kubelet watches single ConfigMaps and Secrets by a field selector on the name.
    fn read_namespaced(&self, node: &str, kind: Kind, a: &Attributes<'_>) -> Verdict {
        if !matches!(a.verb, "get" | "list" | "watch") {
            return no("can only read resources of this type");
        }
        if !a.subresource.is_empty() {
            return no("cannot read subresource");
        }
        if a.namespace.is_empty() {
            return no("can only read namespaced object of this type");
        }
        self.related(node, kind, a)
    }

    fn related(&self, node: &str, kind: Kind, a: &Attributes<'_>) -> Verdict {
        if a.name.is_empty() {
            return no("No Object name found");
        }
        if self.graph.read().related(node, kind, a.namespace, a.name) {
            return Ok(());
        }
        no(&format!("no relationship found between node '{node}' and this object"))
    }

    fn service_account(&self, node: &str, a: &Attributes<'_>) -> Verdict {
        if a.verb == "get" && a.subresource.is_empty() {
            return self.read_namespaced(node, Kind::ServiceAccount, a);
        }
        if a.verb != "create" || a.name.is_empty() {
            return no("can only create tokens for individual service accounts");
        }
        if a.subresource != "token" {
            return no("can only create token subresource of serviceaccount");
        }
        self.related(node, Kind::ServiceAccount, a)
    }

    fn slice(&self, node: &str, a: &Attributes<'_>) -> Verdict {
        if !a.subresource.is_empty() {
            return no("cannot authorize ResourceSlice subresources");
        }
        match a.verb {
            // NodeRestriction checks the new object's node.
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.related(node, Kind::ResourceSlice, a),
            "watch" | "list" | "deletecollection" if selects(a, node) => Ok(()),
            "watch" | "list" | "deletecollection" => {
                no("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => no(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn pod(&self, node: &str, a: &Attributes<'_>) -> Verdict {
        match (a.subresource, a.verb) {
            ("", "get") => self.get(node, Kind::Pod, a),
            ("", "list" | "watch") if selects(a, node) => Ok(()),
            ("", "list" | "watch") if !a.name.is_empty() => self.related(node, Kind::Pod, a),
            ("", "list" | "watch") => no("can only list/watch pods with spec.nodeName field selector"),
            // NodeRestriction narrows these to mirror pods, and to pods of this node.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => no(""),
        }
    }
}

fn lease(node: &str, a: &Attributes<'_>) -> Verdict {
    if !matches!(a.verb, "get" | "create" | "update" | "patch" | "delete") {
        return no("can only get, create, update, patch, or delete a node lease");
    }
    if a.namespace != NODE_LEASES {
        return no(&format!("can only access leases in the \"{NODE_LEASES}\" system namespace"));
    }
    if a.verb != "create" && a.name != node {
        return no("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

fn csi_node(node: &str, a: &Attributes<'_>) -> Verdict {
    if !matches!(a.verb, "get" | "create" | "update" | "patch" | "delete") {
        return no("can only get, create, update, patch, or delete a CSINode");
    }
    if !a.subresource.is_empty() {
        return no("cannot authorize CSINode subresources");
    }
    if a.verb != "create" && a.name != node {
        return no("can only access CSINode with the same name as the requesting node");
    }
    Ok(())
}

/// Decides about the node's own Node object. The name decides, not the graph, so that a kubelet may read its Node before the object exists.
fn own_node(node: &str, a: &Attributes<'_>) -> Verdict {
    match (a.subresource, a.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") if a.name == node => Ok(()),
        ("", "get" | "list" | "watch") if a.name.is_empty() => {
            no(&format!("node '{node}' cannot read all nodes, only its own Node object"))
        }
        ("", "get" | "list" | "watch") => {
            no(&format!("node '{node}' cannot read '{}', only its own Node object", a.name))
        }
        _ => no(""),
    }
}

/// Whether the field selector narrows the request to this node's objects (pods and slices have the same field).
fn selects(a: &Attributes<'_>, node: &str) -> bool {
    let requirements = a.fields.map(|fields| fields.requirements()).unwrap_or_default();
    requirements.iter().any(|r| r.field == "spec.nodeName" && r.equal && r.value == node)
}

fn no(reason: &str) -> Verdict {
    Err(reason.to_owned())
}
