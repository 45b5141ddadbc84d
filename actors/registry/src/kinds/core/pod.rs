//! Pods: start Pending with a QoS class; a deleted pod waits for its kubelet.

mod resize;

use std::collections::{HashMap, VecDeque};

use oarlock_meta::ErrorList;
use oarlock_pods::{QosClass, qos, termination};
use oarlock_schema::views::core_v1::{Pod, PodMut};
use oarlock_schema::{Obj, Struct, Value, type_named};

use self::resize::resized;
use crate::fields;
use crate::kind::{Grace, Request, Strategy};

/// Strategy of pods.
#[derive(Debug)]
pub struct PodStrategy;

impl Strategy for PodStrategy {
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        fields::reset_for_create(request.resource, obj);
        oarlock_apis::core::label_keys::merge(obj);
        let class = obj.view::<Pod<'_>>().map_or(QosClass::BestEffort, |pod| qos::computed(pod.spec()));
        let gated = obj.view::<Pod<'_>>().is_some_and(|p| !p.spec().scheduling_gates().is_empty());
        let mut pod = PodMut::new(obj);
        let mut status = pod.status_mut();
        status.set_phase("Pending").set_qos_class(class.as_str());
        if gated {
            status.conditions_mut().extend(scheduling_gated(request.now));
        }
    }

    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        fields::reset_for_update(request.resource, request.endpoint, new, old);
        match request.endpoint {
            "ephemeralcontainers" => replace_spec(new, old, |spec, asked| take(spec, asked, "ephemeralContainers")),
            "resize" => replace_spec(new, old, resized),
            "status" => {
                oarlock_apis::core::pod_status::pair_addresses(new);
                keep_status(new, old);
            }
            _ => {}
        }
        if matches!(request.endpoint, "ephemeralcontainers" | "resize") {
            fields::restore_metadata(new, old);
        }
    }

    fn validate(&self, request: &Request<'_>, new: &Obj, old: Option<&Obj>, errors: &mut ErrorList) {
        if let Some(old) = old.filter(|_| request.endpoint == "ephemeralcontainers") {
            return super::ephemeral_containers::validate(new, old, errors);
        }
        let Some(old) = old.filter(|_| request.endpoint == "resize").and_then(Obj::view::<Pod<'_>>) else { return };
        let Some(new) = new.view::<Pod<'_>>() else { return };
        resize::validate(new, old, errors);
    }

    fn grace(&self, obj: &Obj, requested: Option<i64>) -> Grace {
        let Some(pod) = obj.view::<Pod<'_>>() else { return Grace::NotGraceful };
        let never_ran = pod.spec().node_name().is_empty();
        if never_ran || termination::has_ended(pod.status()) {
            return Grace::Seconds(0);
        }
        let seconds = requested.or(pod.spec().termination_grace_period_seconds()).unwrap_or(0);
        Grace::Seconds(if seconds < 0 { 1 } else { seconds })
    }
}

/// Restores status fields that a writer may leave out: the QoS class, which is decided once at creation, and the observed generations of the status
/// and its conditions.
fn keep_status(new: &mut Obj, old: &Obj) {
    let (Some(Value::Struct(now)), Some(Value::Struct(before))) = (new.get_mut("status"), old.get("status")) else {
        return;
    };
    let empty = |node: &Struct, field: &str| {
        node.get(field).is_none_or(|v| v.is_null() || v.as_int() == Some(0) || v.as_str() == Some(""))
    };
    for field in ["qosClass", "observedGeneration"] {
        if empty(now, field) {
            take(now, before, field);
        }
    }
    // Old and new conditions of the same type are paired in order.
    fn of_type(condition: &Struct) -> &str {
        condition.get("type").and_then(Value::as_str).unwrap_or_default()
    }
    let mut stored: HashMap<&str, VecDeque<&Value>> = HashMap::new();
    for was in before.get("conditions").map_or(&[][..], Value::items) {
        stored.entry(was.as_struct().map_or("", of_type)).or_default().push_back(was);
    }
    let Some(Value::List(conditions)) = now.get_mut("conditions") else { return };
    for condition in conditions.iter_mut().filter_map(Value::as_struct_mut) {
        let was = stored.get_mut(of_type(condition)).and_then(VecDeque::pop_front);
        if let Some(Value::Struct(was)) = was
            && empty(condition, "observedGeneration")
        {
            take(condition, was, "observedGeneration");
        }
    }
}

/// Restores the stored object except for what `change` copies from the requested spec.
fn replace_spec(new: &mut Obj, old: &Obj, change: impl FnOnce(&mut Struct, &Struct)) {
    let Some(asked) = new.get("spec").and_then(Value::as_struct).cloned() else { return };
    let metadata = new.get("metadata").cloned();
    *new = old.clone();
    if let Some(metadata) = metadata {
        new.set_name("metadata", metadata);
    }
    if let Some(spec) = new.get_mut("spec").and_then(Value::as_struct_mut) {
        change(spec, &asked);
    }
}

fn take(to: &mut Struct, from: &Struct, field: &str) {
    match from.get(field) {
        Some(value) => {
            to.set_name(field, value.clone());
        }
        None => {
            to.remove_name(field);
        }
    }
}

/// Returns the condition of a pod with closed scheduling gates: PodScheduled is false (KEP-3521).
fn scheduling_gated(now: &str) -> Option<Value> {
    let mut condition = Struct::zero(type_named("core/v1.PodCondition")?);
    condition.set_name("type", "PodScheduled");
    condition.set_name("status", "False");
    condition.set_name("reason", "SchedulingGated");
    condition.set_name("message", "Scheduling is blocked due to non-empty scheduling gates");
    condition.set_name("lastTransitionTime", now);
    Some(Value::Struct(condition))
}
