//! Builds the pods of a DaemonSet (upstream `CreatePodTemplate`, `ReplaceDaemonSetPodNodeNameNodeAffinity`).

use oarlock_informer::ObjMeta;
use oarlock_meta::Status;
use oarlock_pods::Effect;
use oarlock_pods::daemon::tolerated_taints;
use oarlock_schema::views::{View, apps_v1, core_v1};
use oarlock_schema::{Obj, Resource, Value};
use oarlock_seeded_bug::seeded_bug;
use oarlock_workloads::revision::DAEMON_HASH_LABEL;

use super::pods::TEMPLATE_GENERATION;
use crate::pod_template;
use crate::project::FORMER_FAILURES;
use crate::write::node;

/// The node affinity by which the scheduler binds a pod to the node that the controller has chosen.
const REQUIRED: [&str; 4] = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];

/// Returns the pod that is made of a whole DaemonSet's template for any node, with the hash of the template's revision and the number of the template.
///
/// # Errors
/// 500 when `whole` is no DaemonSet.
pub(super) fn pod(
    resource: &'static Resource,
    set: (&Resource, &ObjMeta),
    whole: &Obj,
    (hash, template_count): (&str, Option<i64>),
) -> Result<Obj, Status> {
    let view: apps_v1::DaemonSet<'_> =
        whole.view().ok_or_else(|| Status::internal_error("the answer is no DaemonSet"))?;
    let template = view.spec().template();
    let mut pod = pod_template::pod(resource, template, set);
    pod.set_at(&["metadata", "labels", DAEMON_HASH_LABEL], hash);
    if let Some(count) = template_count {
        pod.set_at(&["metadata", "labels", TEMPLATE_GENERATION], count.to_string());
    }
    let own = template.spec().tolerations().values();
    let mut tolerations = own.to_vec();
    for (key, effect) in tolerated_taints(template.spec().host_network()) {
        tolerate(&mut tolerations, key, effect);
    }
    pod.set_at(&["spec", "tolerations"], Value::from_iter(tolerations));
    Ok(pod)
}

/// Adds a toleration for ever, in place of one that differs in nothing but its seconds (upstream `AddOrUpdateTolerationInPodSpec`).
fn tolerate(tolerations: &mut Vec<Value>, key: &str, effect: Effect) {
    let fields = [("key", Value::from(key)), ("operator", "Exists".into()), ("effect", effect.as_str().into())];
    let new = Value::Struct(node(core_v1::Toleration::TYPE, fields));
    let text =
        |toleration: &Value, field: &str| toleration.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_same =
        |one: &Value| ["key", "operator", "value", "effect"].iter().all(|field| text(one, field) == text(&new, field));
    let mut is_known = false;
    for one in tolerations.iter_mut().filter(|one| is_same(one)) {
        one.clone_from(&new);
        is_known = true;
    }
    if !is_known {
        tolerations.push(new);
    }
}

/// Returns the pod for a node, with the number of the node's pods that failed one after the other before this pod. The pin takes the place of what the template
/// requires of nodes: the chosen node fulfils that, and terms are alternatives.
pub(super) fn pinned(pod: &Obj, name: &str, former_failures: i64) -> Obj {
    let mut pod = pod.clone();
    let requirement = node(
        core_v1::NodeSelectorRequirement::TYPE,
        [("key", "metadata.name".into()), ("operator", "In".into()), ("values", Value::from_iter([name]))],
    );
    let term = node(core_v1::NodeSelectorTerm::TYPE, [("matchFields", Value::from_iter([requirement]))]);
    let required = node(core_v1::NodeSelector::TYPE, [("nodeSelectorTerms", Value::from_iter([term]))]);
    if !seeded_bug!("daemon_pod_unpinned") {
        pod.set_at(&REQUIRED, required);
    }
    if former_failures > 0 {
        pod.set_at(&["metadata", "annotations", FORMER_FAILURES], former_failures.to_string());
    }
    pod
}
