//! Printers of role bindings.

use oarlock_schema::Value;
use oarlock_schema::views::List;
use oarlock_schema::views::meta_v1::ObjectMeta;
use oarlock_schema::views::rbac_v1::{ClusterRoleBinding, RoleBinding, RoleRef, Subject};

use super::{Now, cells};

pub(super) fn role_binding(obj: RoleBinding<'_>, now: Now) -> Vec<Value> {
    binding(obj.metadata(), obj.role_ref(), obj.subjects(), now)
}

pub(super) fn cluster_role_binding(obj: ClusterRoleBinding<'_>, now: Now) -> Vec<Value> {
    binding(obj.metadata(), obj.role_ref(), obj.subjects(), now)
}

fn binding(meta: ObjectMeta<'_>, role: RoleRef<'_>, subjects: List<'_, Subject<'_>>, now: Now) -> Vec<Value> {
    let named = |kind: &str| {
        let names = subjects.iter().filter(|s| s.kind() == kind).map(|s| match kind {
            "ServiceAccount" => format!("{}/{}", s.namespace(), s.name()),
            _ => s.name().to_owned(),
        });
        names.collect::<Vec<_>>().join(", ")
    };
    cells![
        meta.name(),
        format!("{}/{}", role.kind(), role.name()),
        now.since(meta.creation_timestamp()),
        named("User"),
        named("Group"),
        named("ServiceAccount"),
    ]
}
