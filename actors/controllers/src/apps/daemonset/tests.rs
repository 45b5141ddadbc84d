//! Tests of the plan of a DaemonSet, mostly tables. Nodes and pods are written as text, and a plan is shown as text: `+a` creates a pod on node `a`, `+a(2)` one
//! after two failures, `+a(2)<a1` one in place of the failed pod `a1`; `-a1` deletes a pod, with `!` if the pod has failed and `.` if it has succeeded.

mod failures;
mod history;
mod lives;
mod nodes;
mod objects;
mod rolls;
mod surge;

use std::sync::Arc;

use oarlock_informer::{Item, Key, ObjMeta};
use oarlock_meta::{Time, Uid};
use oarlock_pods::daemon::tolerated_taints;
use oarlock_pods::{Effect, Toleration};
use oarlock_schema::Str;
use oarlock_workloads::revision::DAEMON_HASH_LABEL;

use super::actions::{Plan, Removal, Why};
use super::plan::plan;
use super::pods::{Pod, TEMPLATE_GENERATION};
use super::snapshot::Snapshot;
use crate::project::{Amount, DaemonPod, DaemonSet, DaemonUpdate, NodeView, Phase, PodView, Taint};

const NOW: Time = Time::from_unix(10_000);
const HASH: &str = "new";

type Node = Arc<Item<NodeView>>;

/// Makes a set whose pods have the tolerations that every daemon pod has.
fn set(change: impl FnOnce(&mut Item<DaemonSet>)) -> Item<DaemonSet> {
    let tolerations: Vec<Toleration<Str>> = tolerated_taints(false)
        .map(|(key, effect)| Toleration { key: key.into(), value: "".into(), exists: true, effect: Some(effect) })
        .collect();
    let value = DaemonSet { tolerations: tolerations.into(), template_count: Some(7), ..DaemonSet::default() };
    let meta = ObjMeta { key: Key::new("ns", "log"), uid: Uid::from("set"), generation: 3, ..ObjMeta::default() };
    let mut item = Item { meta, value };
    change(&mut item);
    item
}

fn rolling(unavailable: Amount, surge: Amount) -> DaemonUpdate {
    DaemonUpdate::Rolling { unavailable, surge }
}

/// Makes nodes of `a, b: x:NoSchedule y:NoExecute`. Each has its own name as label `name`.
fn nodes(text: &str) -> Vec<Node> {
    let node = |one: &str| {
        let (name, taints) = one.split_once(": ").unwrap_or((one, ""));
        let taint = |taint: &str| {
            let (key, effect) = taint.split_once(':').unwrap();
            Taint { key: key.into(), value: "".into(), effect: effect.into(), added: None }
        };
        let taints = taints.split(' ').filter(|taint| !taint.is_empty()).map(taint).collect();
        let labels: Box<[(Str, Str)]> = Box::new([("name".into(), name.into())]);
        let meta = ObjMeta { key: Key::new("", name), uid: Uid::from(name), labels, ..ObjMeta::default() };
        Arc::new(Item { meta, value: NodeView { taints, ..NodeView::default() } })
    };
    text.split(", ").filter(|one| !one.is_empty()).map(node).collect()
}

/// Makes a pod of the set's template that is bound to the node `node`, runs and is ready.
fn pod(name: &str, node: &str, change: impl FnOnce(&mut Item<PodView>)) -> Pod {
    let value = PodView {
        node: node.into(),
        phase: Phase::Running,
        ready: true,
        ready_since: Some(Time::from_unix(1_000)),
        daemon: Some(Box::new(DaemonPod { pinned: node.into(), former_failures: 0 })),
        ..PodView::default()
    };
    let meta = ObjMeta {
        key: Key::new("ns", name),
        uid: Uid::from(name),
        created: Some(Time::from_unix(900)),
        labels: Box::new([(DAEMON_HASH_LABEL.into(), HASH.into()), (TEMPLATE_GENERATION.into(), "6".into())]),
        ..ObjMeta::default()
    };
    let mut item = Item { meta, value };
    change(&mut item);
    Arc::new(item)
}

/// Changes a pod by words: `old` (of an earlier template), `numbered` (of the set's template by its number alone), `unbound`, `pending`, `unready`, `fresh`
/// (ready for ten seconds), `failed`, `succeeded`, `going` (being deleted), `younger` (than others), `age=3` (in seconds), `failures=2` (before it).
fn become_so(pod: &mut Item<PodView>, word: &str) {
    let relabel = |pod: &mut Item<PodView>, label: &str, value: &str| {
        pod.meta.labels.iter_mut().filter(|(key, _)| key == label).for_each(|(_, old)| *old = value.into());
    };
    match word.split_once('=').unwrap_or((word, "")) {
        ("ok", _) => {}
        ("old", _) => relabel(pod, DAEMON_HASH_LABEL, "old"),
        ("numbered", _) => {
            relabel(pod, DAEMON_HASH_LABEL, "old");
            relabel(pod, TEMPLATE_GENERATION, "7");
        }
        ("unbound", _) => (pod.value.node, pod.value.phase, pod.value.ready) = ("".into(), Phase::Pending, false),
        ("pending", _) => (pod.value.phase, pod.value.ready) = (Phase::Pending, false),
        ("unready", _) => pod.value.ready = false,
        ("fresh", _) => pod.value.ready_since = Some(Time::from_unix(9_990)),
        ("failed", _) => (pod.value.phase, pod.value.ready) = (Phase::Failed, false),
        ("succeeded", _) => (pod.value.phase, pod.value.ready) = (Phase::Succeeded, false),
        ("going", _) => pod.meta.deletion = Some(NOW),
        ("younger", _) => pod.meta.created = Some(Time::from_unix(950)),
        ("age", age) => pod.meta.created = Some(Time::from_unix(NOW.unix() - age.parse::<i64>().unwrap())),
        ("failures", count) => pod.value.daemon.as_mut().unwrap().former_failures = count.parse().unwrap(),
        (other, _) => panic!("no state {other}"),
    }
}

/// Makes pods of `a1: ok, a2: failed age=3`; the first letter names the node.
fn pods(text: &str) -> Vec<Pod> {
    let named = text.split(", ").filter_map(|one| one.split_once(": "));
    named
        .map(|(name, words)| pod(name, &name[..1], |pod| words.split(' ').for_each(|word| become_so(pod, word))))
        .collect()
}

fn planned(set: &Item<DaemonSet>, on: &str, present: &str) -> String {
    let (nodes, pods) = (nodes(on), pods(present));
    shown(&plan(&Snapshot::of(set, HASH, (&nodes, &pods), NOW)))
}

fn waits(set: &Item<DaemonSet>, on: &str, present: &str) -> Option<u64> {
    let (nodes, pods) = (nodes(on), pods(present));
    plan(&Snapshot::of(set, HASH, (&nodes, &pods), NOW)).again.map(|wait| wait.as_secs())
}

fn shown(plan: &Plan<'_>) -> String {
    let created = plan.create.iter().map(|new| {
        let failures = if new.former_failures > 0 { format!("({})", new.former_failures) } else { String::new() };
        let replaced: String = new.replaces.iter().map(|pod| format!("<{}", pod.meta.name())).collect();
        format!("+{}{failures}{replaced}", new.node)
    });
    let deleted = plan.delete.iter().map(|Removal { pod, why }| {
        let mark = match why {
            Why::Failed => "!",
            Why::Succeeded => ".",
            Why::Surplus | Why::Outdated => "",
        };
        format!("-{}{mark}", pod.meta.name())
    });
    created.chain(deleted).collect::<Vec<_>>().join(" ")
}

/// A toleration of every taint with this key.
fn tolerates(key: &str, effect: Option<Effect>) -> Toleration<Str> {
    Toleration { key: key.into(), value: "".into(), exists: true, effect }
}
