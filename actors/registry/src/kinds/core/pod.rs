//! Pods: start Pending with a QoS class, wait for their kubelet when deleted.

use std::collections::{HashMap, VecDeque};

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::core_v1::{Container, Pod, PodMut};
use oarlock_schema::{Obj, Struct, Value, type_named};

use crate::kind::{Grace, Request, Strategy};
use crate::prepare;

/// Strategy of pods.
#[derive(Debug)]
pub struct PodStrategy;

impl Strategy for PodStrategy {
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        prepare::reset_for_create(request.resource, obj);
        let qos = obj.view::<Pod<'_>>().map_or("BestEffort", qos_class);
        let gated = obj.view::<Pod<'_>>().is_some_and(|p| !p.spec().scheduling_gates().is_empty());
        let mut pod = PodMut::new(obj);
        let mut status = pod.status_mut();
        status.set_phase("Pending").set_qos_class(qos);
        if gated {
            status.conditions_mut().extend(scheduling_gated());
        }
    }

    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        prepare::reset_for_update(request, new, old);
        match request.endpoint {
            "ephemeralcontainers" => only(new, old, |spec, asked| take(spec, asked, "ephemeralContainers")),
            "resize" => only(new, old, resized),
            "status" => keep_status(new, old),
            _ => {}
        }
    }

    fn validate(&self, request: &Request<'_>, new: &Obj, old: Option<&Obj>, errors: &mut ErrorList) {
        let Some(old) = old.filter(|_| request.endpoint == "resize").and_then(Obj::view::<Pod<'_>>) else { return };
        let Some(new) = new.view::<Pod<'_>>() else { return };
        let at = Path::new("spec");
        if qos_class(new) != old.status().qos_class() {
            let text = "Pod QOS Class may not change as a result of resizing";
            errors.push(FieldError::invalid(&at, old.status().qos_class(), text));
        }
        // A kubelet that can resize reports what running containers have.
        let mut running = old.status().container_statuses().iter().filter(|c| c.state().running().is_some());
        if running.next().is_some_and(|c| c.resources().is_none()) {
            errors.push(FieldError::forbidden(&at, "Pod running on node without support for resize"));
        }
    }

    fn grace(&self, obj: &Obj, requested: Option<i64>) -> Grace {
        let Some(pod) = obj.view::<Pod<'_>>() else { return Grace::NotGraceful };
        let never_ran = pod.spec().node_name().is_empty();
        let over = matches!(pod.status().phase(), "Succeeded" | "Failed");
        if never_ran || over {
            return Grace::Seconds(0);
        }
        let seconds = requested.or(pod.spec().termination_grace_period_seconds()).unwrap_or(0);
        Grace::Seconds(if seconds < 0 { 1 } else { seconds })
    }
}

/// What writers of a status who know nothing of it would lose: the class, which is decided once, at creation, and the generations that
/// status and conditions were observed at.
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
    // Conditions of one type pair in their order.
    let mut stored: HashMap<Option<String>, VecDeque<&Value>> = HashMap::new();
    for was in before.get("conditions").map_or(&[][..], Value::items) {
        stored.entry(was.get("type").and_then(Value::as_str).map(str::to_owned)).or_default().push_back(was);
    }
    let Some(Value::List(conditions)) = now.get_mut("conditions") else { return };
    for condition in conditions.iter_mut().filter_map(Value::as_struct_mut) {
        let kind = condition.get("type").and_then(Value::as_str).map(str::to_owned);
        let was = stored.get_mut(&kind).and_then(VecDeque::pop_front);
        if let Some(Value::Struct(was)) = was
            && empty(condition, "observedGeneration")
        {
            take(condition, was, "observedGeneration");
        }
    }
}

/// Everything as stored, but for what `change` takes over from the asked spec.
fn only(new: &mut Obj, old: &Obj, change: impl FnOnce(&mut Struct, &Struct)) {
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

/// In-place resize changes containers' resources and resize policies, matched by name (KEP-1287).
fn resized(spec: &mut Struct, asked: &Struct) {
    for list in ["containers", "initContainers"] {
        let wanted = asked.get(list).map_or(&[][..], Value::items);
        let Some(Value::List(containers)) = spec.get_mut(list) else { continue };
        for container in containers.iter_mut().filter_map(Value::as_struct_mut) {
            let same = |w: &&Struct| w.get("name") == container.get("name");
            if let Some(wish) = wanted.iter().filter_map(Value::as_struct).find(same) {
                take(container, wish, "resources");
                take(container, wish, "resizePolicy");
            }
        }
    }
}

/// Until its gates are open a pod says why it is not scheduled (KEP-3521).
fn scheduling_gated() -> Option<Value> {
    let mut condition = Struct::zero(type_named("core/v1.PodCondition")?);
    condition.set_name("type", "PodScheduled");
    condition.set_name("status", "False");
    condition.set_name("reason", "SchedulingGated");
    condition.set_name("message", "Scheduling is blocked due to non-empty scheduling gates");
    Some(Value::Struct(condition))
}

/// Quality of service: Guaranteed when every container limits cpu and memory and requests just that, BestEffort when
/// none says anything, else Burstable (kubernetes.io: configure quality of service for pods).
#[must_use]
pub fn qos_class(pod: Pod<'_>) -> &'static str {
    let spec = pod.spec();
    let containers = || spec.init_containers().iter().chain(spec.containers().iter());
    let relevant = |name: &str| matches!(name, "cpu" | "memory");
    let says_nothing = |c: Container<'_>| {
        let r = c.resources();
        !r.limits().iter().chain(r.requests().iter()).any(|(name, amount)| relevant(name) && !is_zero(amount))
    };
    if containers().all(says_nothing) {
        return "BestEffort";
    }
    let guaranteed = |c: Container<'_>| {
        let r = c.resources();
        ["cpu", "memory"].iter().all(|name| {
            let limit = r.limits().get(name).filter(|q| !is_zero(q));
            limit.is_some() && r.requests().get(name).is_none_or(|request| Some(request) == limit)
        })
    };
    if containers().all(guaranteed) { "Guaranteed" } else { "Burstable" }
}

fn is_zero(quantity: &str) -> bool {
    quantity.is_empty() || quantity == "0"
}
