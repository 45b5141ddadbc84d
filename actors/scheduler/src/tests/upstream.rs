//! Compares decisions with those of a live kube-scheduler 1.35, recorded by `tests/upstream/record.py`: the node that
//! kube-scheduler chose must be among the engine's highest scores, and every refusal must have the same text.

use std::sync::Arc;

use oarlock_client::decode;
use oarlock_informer::Project;
use oarlock_schema::{Obj, resource};
use serde_json::Value;

use crate::engine::{Authority, Decision, Engine};
use crate::intern::Interner;
use crate::model::PodInfo;
use crate::project::{BudgetView, NamespaceView, NodeView, PodView, ServiceView};
use crate::queue::Stamp;
use crate::shard::Shard;
use crate::table::PLUGINS;

const RECORDED: &str = include_str!("../../tests/upstream/v1.35.jsonl");
/// Nodes full of pods of lower priority (`record.py --preemption`).
const PREEMPTIONS: &str = include_str!("../../tests/upstream/v1.35-preemption.jsonl");

fn object(plural: &str, value: &Value) -> Obj {
    let group = if plural == "poddisruptionbudgets" { "policy" } else { "" };
    decode(resource(group, "v1", plural).unwrap().ty, &serde_json::to_vec(value).unwrap()).unwrap()
}

fn symbol(value: &Value, field: &str) -> crate::intern::Sym {
    Interner::process().intern(value["metadata"][field].as_str().unwrap_or_default())
}

struct Replay {
    engine: Engine,
    scenario: String,
    chosen: usize,
    refused: usize,
    alone: usize,
    preempted: usize,
    victims: usize,
}

impl Replay {
    fn pod(&mut self, pod: &Value, line: &Value) {
        let info = PodView::project(&object("pods", pod)).info;
        let name = format!("{} {}", self.scenario, info.name);
        let cluster = &mut self.engine.cluster;
        let totals = Shard::new(PLUGINS).totals(cluster, &info);
        let named = |node| cluster.names.text(cluster.nodes.name(node)).to_string();
        if let Some(node) = line["node"].as_str() {
            let best = totals.iter().map(|(_, total)| *total).max();
            let found = totals.iter().find(|(slot, _)| named(*slot) == node).map(|(_, total)| *total);
            let all: Vec<(String, i32)> = totals.iter().map(|(slot, total)| (named(*slot), *total)).collect();
            assert_eq!(found, best, "{name}: upstream chose {node} of {all:?}\n{pod}");
            self.chosen += 1;
            self.alone += usize::from(totals.iter().filter(|(_, total)| Some(*total) == best).count() == 1);
            let bound = PodInfo { node: Some(Interner::process().intern(node)), ..(*info).clone() };
            self.engine.on_pod(Arc::new(bound), true, Stamp(0));
            return;
        }
        self.engine.on_pod(Arc::clone(&info), true, Stamp(0));
        let decision = self.engine.next(Authority::Local(()), Stamp(0), &mut |_| 0);
        if let Some(nominated) = line["nominated"].as_str() {
            let Some(Decision::Preempt { node, unfit, .. }) = decision else {
                panic!("{name}: {decision:?}, upstream: {line}")
            };
            let mut victims = self.engine.cluster.nominations.victims_of(&info.uid).to_vec();
            victims.sort();
            let wanted: Vec<&str> =
                line["preempted"].as_array().unwrap().iter().map(|uid| uid.as_str().unwrap()).collect();
            let found: Vec<&str> = victims.iter().map(|uid| &**uid).collect();
            assert_eq!(
                (&*node, found, Some(&*unfit.message)),
                (nominated, wanted, line["said"].as_str()),
                "{name}\n{pod}"
            );
            self.preempted += 1;
            self.victims += victims.len();
            self.engine.withdraw(&info.uid, Stamp(0));
            self.engine.on_pod_gone(&info.uid, Stamp(0));
            return;
        }
        let Some(Decision::Unschedulable { message, .. }) = decision else {
            panic!("{name}: {decision:?}, upstream: {line}")
        };
        assert_eq!(Some(&*message), line["refused"].as_str(), "{name}");
        self.engine.on_pod_gone(&info.uid, Stamp(0));
        self.refused += 1;
    }
}

fn replay(recorded: &str) -> Replay {
    let (engine, scenario) = (Engine::for_process(PLUGINS), String::new());
    let mut replay = Replay { engine, scenario, chosen: 0, refused: 0, alone: 0, preempted: 0, victims: 0 };
    for line in recorded.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if !line["scenario"].is_null() {
            replay.engine = Engine::for_process(PLUGINS);
            replay.scenario = format!("scenario {}", line["scenario"]);
        }
        if let namespace @ Value::Object(_) = &line["namespace"] {
            let view = NamespaceView::project(&object("namespaces", namespace));
            replay.engine.cluster.set_namespace(symbol(namespace, "name"), Some(view.0));
        }
        if let node @ Value::Object(_) = &line["node"] {
            replay.engine.on_node(NodeView::project(&object("nodes", node)).0, Stamp(0));
        }
        if let service @ Value::Object(_) = &line["service"] {
            let view = ServiceView::project(&object("services", service));
            let (namespace, name) = (symbol(service, "namespace"), symbol(service, "name"));
            replay.engine.cluster.owners.set_service(namespace, name, view.0);
        }
        if let budget @ Value::Object(_) = &line["budget"] {
            let view = BudgetView::project(&object("poddisruptionbudgets", budget));
            let (namespace, name) = (symbol(budget, "namespace"), symbol(budget, "name"));
            replay.engine.cluster.budgets.set(namespace, name, Some(view.0));
        }
        if let placed @ Value::Object(_) = &line["placed"] {
            replay.engine.on_pod(PodView::project(&object("pods", placed)).info, true, Stamp(0));
        }
        if let Some(uid) = line["gone"].as_str() {
            replay.engine.on_pod_gone(uid, Stamp(0));
        }
        if let pod @ Value::Object(_) = &line["pod"] {
            replay.pod(pod, &line);
        }
    }
    replay
}

#[test]
fn preemptions_are_those_of_a_live_kube_scheduler() {
    let Replay { chosen, refused, preempted, victims, .. } = replay(PREEMPTIONS);
    assert!(
        chosen > 10 && refused > 20 && preempted > 100 && victims > preempted + 50,
        "{chosen} chosen, {refused} refused, {victims} victims of {preempted}"
    );
}

#[test]
fn decisions_and_texts_are_those_of_a_live_kube_scheduler() {
    let Replay { chosen, refused, alone, .. } = replay(RECORDED);
    assert!(chosen > 250 && refused > 50 && alone > 200, "{chosen} chosen, {refused} refused, {alone} without a tie");
}
