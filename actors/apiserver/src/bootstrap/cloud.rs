//! RBAC for the cloud controller manager itself: reading what its controllers watch, and authenticating the controllers' accounts. Upstream has no
//! such role; the manifests of each cloud provider bring one. The roles of the controllers are upstream's (`system:controller:node-controller`,
//! `system:controller:service-controller`).

use oarlock_meta::Status;
use serde_json::json;

use super::desired::{Desired, GROUP, Repair, rbac};

const NAME: &str = "oarlock:cloud-controller-manager";
const USER: &str = "system:cloud-controller-manager";
/// The ServiceAccounts of its controllers.
const ACCOUNTS: [&str; 2] = ["node-controller", "service-controller"];

/// Returns the roles and bindings.
///
/// # Errors
/// 500 when the schema lacks RBAC.
pub(super) fn all() -> Result<[Desired; 4], Status> {
    let metadata = json!({"name": NAME});
    let inside = json!({"name": NAME, "namespace": "kube-system"});
    // The reviews let the manager's own server authenticate and authorize its clients, as in upstream's roles for control plane components.
    let reads = json!([
        {"apiGroups": [""], "resources": ["nodes", "services"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]);
    let accounts = json!([
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ACCOUNTS, "verbs": ["create"]},
    ]);
    let subjects = json!([{"apiGroup": GROUP, "kind": "User", "name": USER}]);
    let to = |kind: &str| json!({"apiGroup": GROUP, "kind": kind, "name": NAME});
    let (rules, bound) = (Repair::AddItems("rules"), Repair::AddItems("subjects"));
    let cluster = json!({"metadata": metadata, "roleRef": to("ClusterRole"), "subjects": subjects});
    let local = json!({"metadata": inside, "roleRef": to("Role"), "subjects": subjects});
    Ok([
        rbac("clusterroles", json!({"metadata": metadata, "rules": reads}), rules)?,
        rbac("clusterrolebindings", cluster, bound)?,
        rbac("roles", json!({"metadata": inside, "rules": accounts}), rules)?,
        rbac("rolebindings", local, bound)?,
    ])
}
