//! Pods: start Pending with a QoS class, wait for their kubelet when deleted.

use oarlock_schema::views::core_v1::{Container, Pod, PodMut};
use oarlock_schema::{Obj, Resource, Struct, Value, type_named};

use crate::kind::{Grace, Strategy};
use crate::prepare::{self, Endpoint};

/// Strategy of pods.
#[derive(Debug)]
pub struct PodStrategy;

impl Strategy for PodStrategy {
    fn prepare_create(&self, resource: &Resource, obj: &mut Obj) {
        prepare::reset_for_create(resource, obj);
        let qos = obj.view::<Pod<'_>>().map_or("BestEffort", qos_class);
        let gated = obj.view::<Pod<'_>>().is_some_and(|p| !p.spec().scheduling_gates().is_empty());
        let mut pod = PodMut::new(obj);
        let mut status = pod.status_mut();
        status.set_phase("Pending").set_qos_class(qos);
        if gated {
            status.conditions_mut().extend(scheduling_gated());
        }
    }

    fn prepare_update(&self, resource: &Resource, endpoint: Endpoint<'_>, new: &mut Obj, old: &Obj) {
        prepare::reset_for_update(resource, endpoint, new, old);
        match endpoint {
            "ephemeralcontainers" => only(new, old, |spec, asked| take(spec, asked, "ephemeralContainers")),
            "resize" => only(new, old, resized),
            _ => {}
        }
        if endpoint == "status"
            && let Some(stored) = old.view::<Pod<'_>>()
            && !stored.status().qos_class().is_empty()
        {
            // The class is decided once, at creation.
            let class = stored.status().qos_class();
            PodMut::new(new).status_mut().set_qos_class(class);
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
