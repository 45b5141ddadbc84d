//! Updates of the authorizers from the store's objects: roles and bindings go to RBAC; pods, volumes, attachments and slices to the Node authorizer.
//! Other kinds are ignored.

mod node;
mod rbac;
#[cfg(test)]
mod tests;

use oarlock_schema::views::{core_v1, resource_v1, storage_v1};
use oarlock_schema::{Obj, Resource};

pub use node::{pod_refs, volume_refs};
pub use rbac::{binding, policy_rules, role_ref};

use crate::authorizers::Authorizers;
use crate::authorizers::rbac::Change;

impl Authorizers {
    /// Records objects that were created or updated, or that exist at the start of the server. RBAC objects are published together, so the initial
    /// load should be one call.
    pub fn observe<'a>(&self, objects: impl IntoIterator<Item = &'a Obj>) {
        let mut changes = Vec::new();
        for object in objects {
            match rbac::upserted(object) {
                Some(change) => changes.push(change),
                None => self.observe_related(object),
            }
        }
        if !changes.is_empty() {
            self.rbac().apply(changes);
        }
    }

    /// Records the deletion of an object of this resource.
    pub fn forget(&self, resource: &Resource, namespace: &str, name: &str) {
        match resource.plural {
            "roles" | "clusterroles" => {
                self.rbac().apply([Change::RoleGone { namespace: namespace.into(), name: name.into() }]);
            }
            "rolebindings" | "clusterrolebindings" => {
                self.rbac().apply([Change::BindingGone { namespace: namespace.into(), name: name.into() }]);
            }
            "pods" => self.node().delete_pod(namespace, name),
            "persistentvolumes" => self.node().delete_volume(name),
            "volumeattachments" => self.node().delete_attachment(name),
            "resourceslices" => self.node().delete_slice(name),
            _ => {}
        }
    }

    fn observe_related(&self, object: &Obj) {
        if let Some(pod) = object.view::<core_v1::Pod<'_>>() {
            self.node().upsert_pod(pod_refs(pod));
        } else if let Some(volume) = object.view::<core_v1::PersistentVolume<'_>>() {
            let (claim, secrets) = volume_refs(volume);
            self.node().upsert_volume(object.name(), claim, secrets);
        } else if let Some(attachment) = object.view::<storage_v1::VolumeAttachment<'_>>() {
            self.node().upsert_attachment(object.name(), attachment.spec().node_name());
        } else if let Some(slice) = object.view::<resource_v1::ResourceSlice<'_>>() {
            self.node().upsert_slice(object.name(), slice.spec().node_name().unwrap_or(""));
        }
    }
}
