//! RBAC for the crew, the processes that share the work of the control plane: writing Leases in kube-system (which processes are alive) and
//! Assignments (which process holds which unit of work), and making writes under a claim to a unit.

use std::collections::BTreeSet;

use oarlock_meta::Status;
use serde_json::{Value, json};

use super::desired::{Desired, GROUP, Repair, rbac};

const NAME: &str = "oarlock:mesh";
/// ClusterRole for writing under a claim. A claim of a user without this role is refused (`Server::authorize_claim`).
const CLAIMS: &str = "oarlock:claims";
const ALL_VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
/// Users of the processes that share work among themselves.
const CREW: [&str; 3] = ["system:cloud-controller-manager", "system:kube-controller-manager", "system:kube-scheduler"];

/// Returns the roles and bindings. `controllers` are the accounts of kube-system under which controllers write.
///
/// # Errors
/// 500 when the schema lacks RBAC.
pub(super) fn all(controllers: &BTreeSet<String>) -> Result<[Desired; 6], Status> {
    let metadata = json!({"name": NAME});
    let inside = json!({"name": NAME, "namespace": "kube-system"});
    let assignments = json!([{"apiGroups": ["oarlock.dev"], "resources": ["assignments"], "verbs": ALL_VERBS}]);
    let leases = json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ALL_VERBS}]);
    let subjects: Vec<Value> =
        CREW.iter().map(|user| json!({"apiGroup": GROUP, "kind": "User", "name": user})).collect();
    let claims = json!([{"apiGroups": ["oarlock.dev"], "resources": ["assignments"], "verbs": ["claim"]}]);
    let account = |name: &String| json!({"kind": "ServiceAccount", "namespace": "kube-system", "name": name});
    let claimants: Vec<Value> = subjects.iter().cloned().chain(controllers.iter().map(account)).collect();
    let claimed = json!({
        "metadata": {"name": CLAIMS},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": CLAIMS},
        "subjects": claimants,
    });
    let to = |kind: &str| json!({"apiGroup": GROUP, "kind": kind, "name": NAME});
    let (rules, bound) = (Repair::AddItems("rules"), Repair::AddItems("subjects"));
    let cluster = json!({"metadata": metadata, "roleRef": to("ClusterRole"), "subjects": subjects});
    let local = json!({"metadata": inside, "roleRef": to("Role"), "subjects": subjects});
    Ok([
        rbac("clusterroles", json!({"metadata": metadata, "rules": assignments}), rules)?,
        rbac("clusterrolebindings", cluster, bound)?,
        rbac("roles", json!({"metadata": inside, "rules": leases}), rules)?,
        rbac("rolebindings", local, bound)?,
        rbac("clusterroles", json!({"metadata": {"name": CLAIMS}, "rules": claims}), rules)?,
        rbac("clusterrolebindings", claimed, bound)?,
    ])
}
