//! Creates pods from the templates of workloads (upstream `controller.GetPodFromTemplate`).

use oarlock_informer::ObjMeta;
use oarlock_schema::views::{View, core_v1, meta_v1};
use oarlock_schema::{Obj, Resource, Value};

use crate::write::owner_node;

/// Returns a pod of a template, with a generated name that begins with the owner's.
pub(crate) fn pod(
    resource: &'static Resource,
    template: core_v1::PodTemplateSpec<'_>,
    (kind, owner): (&Resource, &ObjMeta),
) -> Obj {
    let mut pod = Obj::new(resource.ty);
    if let Some(spec) = template.spec().node() {
        pod.set_name("spec", spec.clone());
    }
    let from = template.metadata();
    for name in ["labels", "annotations", "finalizers"] {
        if let Some(value) = from.node().and_then(|node| node.get(name)) {
            pod.set_at(&["metadata", name], value.clone());
        }
    }
    pod.set_at(&["metadata", "namespace"], owner.namespace());
    pod.set_at(&["metadata", "generateName"], format!("{}-", owner.name()));
    let owner = owner_node(meta_v1::OwnerReference::TYPE, kind, owner);
    pod.set_at(&["metadata", "ownerReferences"], Value::from_iter([owner]));
    pod
}
