//! Pods: start Pending with a QoS class, wait for their kubelet when deleted.

mod resize;

use std::collections::{BTreeMap, HashMap, VecDeque};

use oarlock_meta::{ErrorList, Quantity};
use oarlock_schema::views::core_v1::{Pod, PodMut, ResourceRequirements};
use oarlock_schema::{Obj, Struct, Value, type_named};

use self::resize::resized;
use crate::kind::{Grace, Request, Strategy};
use crate::prepare;

/// Strategy of pods.
#[derive(Debug)]
pub struct PodStrategy;

impl Strategy for PodStrategy {
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        prepare::reset_for_create(request.resource, obj);
        oarlock_apis::core::label_keys::merge(obj);
        let qos = obj.view::<Pod<'_>>().map_or("BestEffort", qos_class);
        let gated = obj.view::<Pod<'_>>().is_some_and(|p| !p.spec().scheduling_gates().is_empty());
        let mut pod = PodMut::new(obj);
        let mut status = pod.status_mut();
        status.set_phase("Pending").set_qos_class(qos);
        if gated {
            status.conditions_mut().extend(scheduling_gated(request.now));
        }
    }

    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        prepare::reset_for_update(request, new, old);
        match request.endpoint {
            "ephemeralcontainers" => only(new, old, |spec, asked| take(spec, asked, "ephemeralContainers")),
            "resize" => only(new, old, resized),
            "status" => {
                oarlock_apis::core::pod_status::pair_addresses(new);
                keep_status(new, old);
            }
            _ => {}
        }
        if matches!(request.endpoint, "ephemeralcontainers" | "resize") {
            prepare::restore_metadata(new, old);
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
    // Old and new conditions of the same type are paired in their order.
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

/// Until its gates are open a pod says why it is not scheduled (KEP-3521).
fn scheduling_gated(now: &str) -> Option<Value> {
    let mut condition = Struct::zero(type_named("core/v1.PodCondition")?);
    condition.set_name("type", "PodScheduled");
    condition.set_name("status", "False");
    condition.set_name("reason", "SchedulingGated");
    condition.set_name("message", "Scheduling is blocked due to non-empty scheduling gates");
    condition.set_name("lastTransitionTime", now);
    Some(Value::Struct(condition))
}

/// Quality of service: Guaranteed when cpu and memory are limited in all containers and the requests equal the limits in total, BestEffort when nothing is
/// requested or limited, else Burstable. Pod-level resources, where there are any, count instead of the containers' (upstream `ComputePodQOS`, KEP-2837).
#[must_use]
pub fn qos_class(pod: Pod<'_>) -> &'static str {
    let spec = pod.spec();
    let (mut requests, mut limits, mut all_limited) = (Compute::default(), Compute::default(), true);
    let mut count = |resources: ResourceRequirements<'_>| {
        add(&mut requests, resources.requests().iter());
        all_limited &= add(&mut limits, resources.limits().iter()) == 2;
    };
    match spec.resources() {
        Some(own) => count(own),
        None => spec.containers().iter().chain(spec.init_containers().iter()).for_each(|c| count(c.resources())),
    }
    match (requests.is_empty() && limits.is_empty(), all_limited && requests == limits) {
        (true, _) => "BestEffort",
        (false, true) => "Guaranteed",
        (false, false) => "Burstable",
    }
}

/// Amounts of cpu and memory.
type Compute = BTreeMap<&'static str, Quantity>;

/// Adds the amounts that are more than nothing; returns how many there are.
fn add<'a>(sum: &mut Compute, amounts: impl Iterator<Item = (&'a str, &'a str)>) -> usize {
    let mut count = 0;
    for (name, text) in amounts {
        let Some(known) = ["cpu", "memory"].into_iter().find(|known| *known == name) else { continue };
        let Some(amount) = Quantity::parse(text).ok().filter(|amount| amount.signum() > 0) else { continue };
        count += 1;
        let total = sum.get(known).map_or_else(|| amount.clone(), |before| before.plus(&amount));
        sum.insert(known, total);
    }
    count
}

#[cfg(test)]
mod tests {
    use oarlock_codec::{Mode, json};
    use oarlock_schema::resource;

    use super::*;

    fn class(spec: &str) -> &'static str {
        let text = format!(r#"{{"spec":{spec}}}"#);
        let pod = json::decode(text.as_bytes(), resource("", "v1", "pods").unwrap().ty, Mode::Strict).unwrap().value;
        qos_class(pod.view::<Pod<'_>>().unwrap())
    }

    /// Each row was asked of upstream.
    #[test]
    fn the_class_follows_what_the_pod_says_as_a_whole_before_its_containers() {
        let both = r#"{"cpu":"1","memory":"1Gi"}"#;
        let own = |resources: &str, container: &str| {
            class(&format!(r#"{{"resources":{resources},"containers":[{{"resources":{container}}}]}}"#))
        };
        assert_eq!(
            own(&format!(r#"{{"limits":{both},"requests":{both}}}"#), r#"{"requests":{"cpu":"10m"}}"#),
            "Guaranteed"
        );
        assert_eq!(own(r#"{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}"#, "{}"), "Burstable");
        assert_eq!(own(r#"{"requests":{"cpu":"1"}}"#, "{}"), "Burstable");
        assert_eq!(own("{}", r#"{"requests":{"cpu":"10m"}}"#), "BestEffort");
        let plain = |container: &str| class(&format!(r#"{{"containers":[{{"resources":{container}}}]}}"#));
        let same = r#"{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1000m","memory":"1024Mi"}}"#;
        assert_eq!(plain(same), "Guaranteed");
        assert_eq!(plain(r#"{"requests":{"cpu":"0.0","memory":"0Mi"}}"#), "BestEffort");
        assert_eq!(plain(r#"{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1"}}"#), "Burstable");
        let beside = format!(r#"{{"containers":[{{"resources":{same}}}],"initContainers":[{{}}]}}"#);
        assert_eq!(class(&beside), "Burstable");
    }
}
