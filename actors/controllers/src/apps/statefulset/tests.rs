//! Tests of the plan of a StatefulSet, mostly tables. A plan is shown as text: stages are separated by `|`, `+3` creates the pod of ordinal 3 from the
//! set's template and `+3@old` from the current revision, `-web-3` deletes a pod.

mod claims;
mod lives;
mod objects;
mod order;
mod rolls;

use std::sync::Arc;

use oarlock_informer::{Item, Key, ObjMeta, OwnerRef};
use oarlock_meta::{Time, Uid};

use super::claims::{ClaimWork, Owner};
use super::members::{POD_NAME, Pod, REVISION};
use super::plan::{Action, Plan, PodRevision, plan};
use super::snapshot::{Claim, Names, Snapshot};
use crate::project::{Amount, Phase, PodView, Replacement, StatefulSet};

const NOW: Time = Time::from_unix(10_000);

fn set(replicas: i64, change: impl FnOnce(&mut Item<StatefulSet>)) -> Item<StatefulSet> {
    let replacement = Replacement::Rolling { partition: Some(0), unavailable: Amount::Count(1) };
    let value = StatefulSet { replicas, replacement, ..StatefulSet::default() };
    let meta = ObjMeta { key: Key::new("ns", "web"), uid: Uid::from("set"), generation: 3, ..ObjMeta::default() };
    let mut item = Item { meta, value };
    change(&mut item);
    item
}

/// Makes a pod of the update revision that runs and is ready.
fn pod(name: &str, change: impl FnOnce(&mut Item<PodView>)) -> Pod {
    let value =
        PodView { phase: Phase::Running, ready: true, ready_since: Some(Time::from_unix(1_000)), ..PodView::default() };
    let meta = ObjMeta {
        key: Key::new("ns", name),
        uid: Uid::from(name),
        labels: Box::new([(REVISION.into(), "web-new".into()), (POD_NAME.into(), name.into())]),
        ..ObjMeta::default()
    };
    let mut item = Item { meta, value };
    change(&mut item);
    Arc::new(item)
}

/// Makes a pod in a state: `ok`, `old` (of the current revision), `pending`, `unready`, `fresh` (ready for ten seconds), `failed`, `succeeded`, `going`
/// (being deleted), or several of them.
fn pod_that(name: &str, states: &str) -> Pod {
    pod(name, |pod| {
        for state in states.split(' ') {
            match state {
                "ok" => {}
                "old" => relabel(pod, "web-old"),
                "older" => relabel(pod, "web-older"),
                "pending" => (pod.value.phase, pod.value.ready) = (Phase::Pending, false),
                "unready" => pod.value.ready = false,
                "fresh" => pod.value.ready_since = Some(Time::from_unix(9_990)),
                "failed" => (pod.value.phase, pod.value.ready) = (Phase::Failed, false),
                "succeeded" => (pod.value.phase, pod.value.ready) = (Phase::Succeeded, false),
                "going" => pod.meta.deletion = Some(NOW),
                other => panic!("no state {other}"),
            }
        }
    })
}

fn relabel(pod: &mut Item<PodView>, revision: &str) {
    for (key, value) in &mut pod.meta.labels {
        if key == REVISION {
            *value = revision.into();
        }
    }
}

/// Makes pods of `0: ok, 1: pending`.
fn pods(text: &str) -> Vec<Pod> {
    let named = text.split(", ").filter_map(|one| one.split_once(": "));
    named.map(|(ordinal, states)| pod_that(&format!("web-{ordinal}"), states)).collect()
}

/// The kind, the name and the uid of an owner, and whether the owner is the controller.
type Reference<'a> = (&'a str, &'a str, &'a str, bool);

fn claim(name: &str, owners: &[Reference<'_>]) -> Claim {
    let owner = |(kind, name, uid, controller): &Reference<'_>| OwnerRef {
        api_version: if *kind == "Pod" { "v1".into() } else { "apps/v1".into() },
        kind: (*kind).into(),
        name: (*name).into(),
        uid: Uid::from(*uid),
        controller: *controller,
        block_deletion: true,
    };
    let meta = ObjMeta { key: Key::new("ns", name), owners: owners.iter().map(owner).collect(), ..ObjMeta::default() };
    Arc::new(Item { meta, value: () })
}

fn names() -> Names {
    Names { current: "web-old".into(), update: "web-new".into(), collisions: 0 }
}

/// Plans with claims, and with or without the gate of `maxUnavailable`.
fn planned_with(set: &Item<StatefulSet>, pods: &[Pod], claims: &[Claim], counts_unavailable: bool) -> Plan {
    plan(&Snapshot {
        set,
        pods,
        names: &names(),
        claim: &|name| claims.iter().find(|claim| claim.meta.name() == name).cloned(),
        counts_unavailable,
        now: NOW,
    })
}

fn planned(set: &Item<StatefulSet>, pods: &[Pod]) -> Plan {
    planned_with(set, pods, &[], true)
}

fn shown(plan: &Plan) -> String {
    let stages = plan.stages.iter().map(|stage| stage.iter().map(shown_action).collect::<Vec<_>>().join(" "));
    stages.collect::<Vec<_>>().join(" | ")
}

fn shown_action(action: &Action) -> String {
    match action {
        Action::Create { ordinal, revision, claims } => {
            let of = if *revision == PodRevision::Current { "@old" } else { "" };
            format!("+{ordinal}{of}{}", shown_claims(claims))
        }
        Action::Claims { ordinal, claims, .. } => format!("claims-{ordinal}{}", shown_claims(claims)),
        Action::Repair { ordinal, identity, storage, claims, .. } => {
            let (identity, storage) =
                (if *identity { "(labels)" } else { "" }, if *storage { "(volumes)" } else { "" });
            format!("repair-{ordinal}{identity}{storage}{}", shown_claims(claims))
        }
        Action::Delete { pod, .. } => format!("-{}", pod.meta.name()),
    }
}

/// Shows `[new 0 1, deleted data-web-0, data-web-0 of Set, conflict data-web-0]`.
fn shown_claims(claims: &ClaimWork) -> String {
    let mut parts = Vec::new();
    if !claims.missing.is_empty() {
        parts.push(format!("new {}", claims.missing.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")));
    }
    parts.extend(claims.deleted.iter().map(|name| format!("deleted {name}")));
    for (claim, owner) in &claims.owners {
        let owner = match owner {
            Some(Owner::Set) => "the set",
            Some(Owner::Pod) => "the pod",
            None => "nobody",
        };
        parts.push(format!("{} of {owner}", claim.meta.name()));
    }
    parts.extend(claims.conflicts.iter().map(|name| format!("conflict {name}")));
    if parts.is_empty() { String::new() } else { format!("[{}]", parts.join(", ")) }
}
