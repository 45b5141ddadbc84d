//! The list of bootstrap objects: recorded ones (`actors/registry/data/bootstrap.json`) and those that depend on this server.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use oarlock_meta::Status;
use oarlock_runtime::clock;
use oarlock_schema::views::rbac_v1::{ClusterRoleBinding, RoleBinding};
use oarlock_schema::{Resource, Value, resource_of_kind};

use super::desired::{Desired, GROUP, Repair, made, rbac};
use crate::server::Server;

static RECORDED: LazyLock<Result<Vec<Desired>, String>> = LazyLock::new(|| recorded().map_err(|status| status.message));

/// Returns every object that must exist.
///
/// # Errors
/// 500 when the recorded data is damaged.
pub(super) fn all(server: &Server) -> Result<Vec<Desired>, Status> {
    let mut objects = RECORDED.clone().map_err(Status::internal_error)?;
    objects.push(service_cidr(server)?);
    objects.push(authentication(server)?);
    objects.push(token_tracking()?);
    // The server's own calls of kubelets. kubeadm grants the same by putting the certificate into the group `system:masters`.
    objects.push(bound(
        "oarlock:kube-apiserver-kubelet-client",
        "system:kubelet-api-admin",
        "kube-apiserver-kubelet-client",
    )?);
    // The process that evaluates admission policies asks who may read its metrics.
    objects.push(bound("oarlock:admission", "system:auth-delegator", "oarlock:admission")?);
    objects.extend(super::mesh::all(&controllers(&objects))?);
    objects.extend(super::cloud::all()?);
    Ok(objects)
}

/// Returns the accounts of kube-system to which upstream binds the roles of its controllers.
fn controllers(recorded: &[Desired]) -> BTreeSet<String> {
    let subjects = recorded.iter().filter(|one| one.obj.name().starts_with("system:controller:")).flat_map(|one| {
        let cluster = one.obj.view::<ClusterRoleBinding<'_>>().map(|binding| binding.subjects());
        cluster.or_else(|| one.obj.view::<RoleBinding<'_>>().map(|binding| binding.subjects()))
    });
    let accounts = subjects.flat_map(|subjects| subjects.iter());
    let inside = accounts.filter(|one| one.kind() == "ServiceAccount" && one.namespace() == "kube-system");
    inside.map(|one| one.name().to_owned()).collect()
}

fn recorded() -> Result<Vec<Desired>, Status> {
    let data: Vec<&serde_json::value::RawValue> = serde_json::from_str(oarlock_registry::BOOTSTRAP)
        .map_err(|e| Status::internal_error(format!("bootstrap data: {e}")))?;
    data.into_iter()
        .map(|raw| {
            let peeked = oarlock_codec::json::peek_gvk(raw.get().as_bytes())
                .map_err(|e| Status::internal_error(format!("bootstrap data: {e}")))?;
            let row = resource_of_kind(&peeked.group_version.group, &peeked.group_version.version, &peeked.kind)
                .ok_or_else(|| Status::internal_error(format!("bootstrap data: unknown kind {}", peeked.kind)))?;
            desired(row, raw.get())
        })
        .collect()
}

fn desired(row: &'static Resource, json: &str) -> Result<Desired, Status> {
    let obj = oarlock_registry::index::decode(json.as_bytes(), row.ty)
        .map_err(|e| Status::internal_error(format!("bootstrap data: {e}")))?;
    let repair = match row.plural {
        "clusterroles" | "roles" => Repair::AddItems("rules"),
        "clusterrolebindings" | "rolebindings" => Repair::AddItems("subjects"),
        _ => Repair::CreateOnly,
    };
    Ok(Desired { resource: row, obj, repair })
}

/// Builds the binding of a ClusterRole to one user.
fn bound(name: &str, role: &str, user: &str) -> Result<Desired, Status> {
    let binding = serde_json::json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    });
    rbac("clusterrolebindings", binding, Repair::AddItems("subjects"))
}

fn service_cidr(server: &Server) -> Result<Desired, Status> {
    let (row, mut obj) = made("networking.k8s.io", "v1", "servicecidrs", "", "kubernetes")?;
    let range = server.config().service_cidr.to_string();
    obj.set_at(&["spec", "cidrs"], [range].into_iter().collect::<Value>());
    Ok(Desired { resource: row, obj, repair: Repair::CreateOnly })
}

/// Builds the ConfigMap that tells upstream's cleaner of unused token Secrets since when use has been tracked (KEP-2799). This server accepts no such
/// tokens, so none is in use.
fn token_tracking() -> Result<Desired, Status> {
    let (row, mut obj) =
        made("", "v1", "configmaps", "kube-system", "kube-apiserver-legacy-service-account-token-tracking")?;
    let today = clock::wall().strftime("%Y-%m-%d").to_string();
    obj.set_at(&["data", "since"], today);
    Ok(Desired { resource: row, obj, repair: Repair::CreateOnly })
}

/// Builds the ConfigMap `kube-system/extension-apiserver-authentication`, from which aggregated servers learn which certificate authorities to trust.
fn authentication(server: &Server) -> Result<Desired, Status> {
    let (row, mut obj) = made("", "v1", "configmaps", "kube-system", "extension-apiserver-authentication")?;
    let config = server.config();
    for (key, value) in [
        ("client-ca-file", config.client_ca_pem.as_str()),
        ("requestheader-allowed-names", "[\"front-proxy-client\"]"),
        ("requestheader-client-ca-file", config.front_proxy_ca_pem.as_str()),
        ("requestheader-extra-headers-prefix", "[\"X-Remote-Extra-\"]"),
        ("requestheader-group-headers", "[\"X-Remote-Group\"]"),
        ("requestheader-uid-headers", "[\"X-Remote-Uid\"]"),
        ("requestheader-username-headers", "[\"X-Remote-User\"]"),
    ] {
        obj.set_at(&["data", key], value);
    }
    Ok(Desired { resource: row, obj, repair: Repair::Replace(&["data"]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_controller_of_upstream_may_write_under_a_claim_and_no_other_account() {
        let controllers = controllers(&recorded().unwrap());
        for account in ["deployment-controller", "generic-garbage-collector", "node-controller", "service-controller"] {
            assert!(controllers.contains(account), "{account} of {controllers:?}");
        }
        for account in ["kube-dns", "kube-scheduler", "default"] {
            assert!(!controllers.contains(account), "{account}");
        }
    }
}
