//! Builds the pods, claims and revisions of a StatefulSet.

use oarlock_apis::apps::stateful_set::volumes;
use oarlock_informer::{Item, ObjMeta};
use oarlock_meta::Status;
use oarlock_schema::views::{View, apps_v1, meta_v1};
use oarlock_schema::{Map, Obj, Resource, Value};
use oarlock_workloads::revision::HASH_LABEL;

use super::claims::{self, claim_name};
use super::members::{POD_INDEX, POD_NAME, REVISION, pod_name};
use crate::project::StatefulSet;
use crate::{pod_template, write};

/// A StatefulSet's kind and metadata, for owner references.
pub(super) type SetRef<'a> = (&'a Resource, &'a ObjMeta);

/// Returns the typed view of a whole StatefulSet.
pub(super) fn view(whole: &Obj) -> Result<apps_v1::StatefulSet<'_>, Status> {
    whole.view().ok_or_else(|| Status::internal_error("the answer is no StatefulSet"))
}

/// Returns a value of a whole object.
pub(super) fn value<'a>(whole: &'a Obj, path: &[&str]) -> Result<&'a Value, Status> {
    whole.at(path).ok_or_else(|| Status::internal_error(format!("the answer has no {}", path.join("."))))
}

/// Returns the pod of an ordinal, made from the template of a `whole` StatefulSet, and labelled with the revision of that template.
pub(super) fn pod(
    resource: &'static Resource,
    set: SetRef<'_>,
    whole: &Obj,
    (ordinal, revision): (i64, &str),
) -> Result<Obj, Status> {
    let spec = view(whole)?.spec();
    let name = pod_name(set.1.name(), ordinal);
    let mut pod = pod_template::pod(resource, spec.template(), set);
    pod.set_at(&["metadata", "name"], name.as_str());
    pod.set_at(&["metadata", "labels", REVISION], revision);
    // Both are set at the creation only: they are immutable.
    pod.set_at(&["spec", "hostname"], name.as_str());
    pod.set_at(&["spec", "subdomain"], spec.service_name());
    identify(&mut pod, &name, ordinal);
    store(&mut pod, set.1, whole, ordinal)?;
    Ok(pod)
}

/// Sets the labels that identify a pod.
pub(super) fn identify(pod: &mut Obj, name: &str, ordinal: i64) {
    pod.set_at(&["metadata", "labels", POD_NAME], name);
    pod.set_at(&["metadata", "labels", POD_INDEX], ordinal.to_string());
}

/// Sets the volumes of a pod: its claims in place of volumes of the same names.
pub(super) fn store(pod: &mut Obj, set: &ObjMeta, whole: &Obj, ordinal: i64) -> Result<(), Status> {
    let templates = view(whole)?.spec().volume_claim_templates();
    if templates.is_empty() {
        return Ok(());
    }
    let present = pod.at(&["spec", "volumes"]).map_or(&[][..], Value::items);
    let volumes = volumes(templates, present, |template| claim_name(template, set.name(), ordinal));
    pod.set_at(&["spec", "volumes"], volumes);
    Ok(())
}

/// Returns the claim of an ordinal, made from the template at `place`.
pub(super) fn claim(
    set: (&Resource, &Item<StatefulSet>),
    whole: &Obj,
    (place, ordinal): (usize, i64),
) -> Result<Obj, Status> {
    let (kind, set) = set;
    let spec = view(whole)?.spec();
    let template = spec.volume_claim_templates().get(place).and_then(View::node);
    let mut claim = template.cloned().map(Obj::from_root).ok_or_else(|| Status::internal_error("no claim template"))?;
    if let Some(gvk) = claim.ty().gvk {
        claim.set_gvk(gvk);
    }
    let name = claim_name(claim.name(), set.meta.name(), ordinal);
    claim.set_at(&["metadata", "name"], name);
    claim.set_at(&["metadata", "namespace"], set.meta.namespace());
    for (label, value) in spec.selector().into_iter().flat_map(|selector| selector.match_labels().iter()) {
        claim.set_at(&["metadata", "labels", label], value);
    }
    if claims::owner_of_new(&set.value).is_some() {
        let owner = write::owner_node(meta_v1::OwnerReference::TYPE, kind, &set.meta);
        claim.set_at(&["metadata", "ownerReferences"], Value::from_iter([owner]));
    }
    Ok(claim)
}

/// Replaces a set and its pod as owners of a claim by `owner`; other owners stay.
pub(super) fn own(claim: &mut Obj, set: &str, pod: &str, owner: Option<Value>) {
    let is_ours = |reference: &Value| {
        let text = |field| reference.get(field).and_then(Value::as_str).unwrap_or("");
        let [version, kind, name] = ["apiVersion", "kind", "name"].map(text);
        claims::names((version, kind, name), set, pod).is_some()
    };
    let present = claim.at(&["metadata", "ownerReferences"]).map_or(&[][..], Value::items);
    let others: Vec<Value> = present.iter().filter(|reference| !is_ours(reference)).cloned().collect();
    claim.set_at(&["metadata", "ownerReferences"], Value::from_iter(others.into_iter().chain(owner)));
}

/// Returns the revision of a whole StatefulSet's template, without a name.
pub(super) fn revision(
    resource: &'static Resource,
    set: SetRef<'_>,
    whole: &Obj,
    (number, hash, data): (i64, &str, Value),
) -> Obj {
    let mut revision = Obj::new(resource.ty);
    let labels = whole.at(&["spec", "template", "metadata", "labels"]).and_then(Value::as_map).cloned();
    let mut labels: Map = labels.unwrap_or_default();
    labels.insert(HASH_LABEL, hash);
    revision.set_at(&["metadata", "namespace"], set.1.namespace());
    revision.set_at(&["metadata", "labels"], labels);
    if let Some(annotations) = whole.at(&["metadata", "annotations"]) {
        revision.set_at(&["metadata", "annotations"], annotations.clone());
    }
    let owner = write::owner_node(meta_v1::OwnerReference::TYPE, set.0, set.1);
    revision.set_at(&["metadata", "ownerReferences"], Value::from_iter([owner]));
    revision.set_at(&["data"], data);
    revision.set_at(&["revision"], number);
    revision
}
