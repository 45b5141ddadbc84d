//! Tests with random sequences of events: the state always equals the one built from scratch, the oracle accepts every
//! placement, and the oracle agrees with every refusal.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::arbiter::{Arbiter, Constraint};
use crate::cluster::Cluster;
use crate::column::NodeIx;
use crate::engine::Decision;
use crate::framework::Call;
use crate::intern::Sym;
use crate::labels::Labels;
use crate::model::{NodeInfo, PodInfo, Uid};
use crate::shard::Proposal;
use crate::testing::oracle::Oracle;
use crate::testing::{World, roll};

const NODE_PARTS: [&str; 9] = [
    "label:zone=1",
    "label:zone=2",
    "label:zone=3",
    "label:disk=ssd",
    "taint:k=v:NoSchedule",
    "taint:s=v:PreferNoSchedule",
    "cordoned",
    "image:img=300Mi",
    "gpu=2",
];

const POD_PARTS: [&str; 22] = [
    "cpu=500m memory=256Mi",
    "cpu=1",
    "memory=1Gi",
    "gpu=1",
    "select:disk=ssd",
    "need:zone~1|2",
    "prefer:3:zone=2",
    "prefer:2:disk",
    "tolerate:k",
    "tolerate:s=v",
    "port:80",
    "port:80@10.0.0.1",
    "near:zone/app=a",
    "near:zone/app=a near:host/app~a|b",
    "apart:host/app=a",
    "apart:zone/app=b/@team=one",
    "like:5:zone/app=a",
    "like:-7:host/app=b",
    "spread:zone/1/app=a",
    "spread:host/2/app~a|b spread:zone/2/app/2/taints",
    "softspread:zone/1/app=a softspread:host/1/app",
    "image:img",
];

struct Story {
    world: World,
    seed: u64,
    nodes: BTreeMap<String, String>,
    namespaces: BTreeMap<Sym, Labels>,
    bound: Vec<String>,
    pending: Vec<(String, String)>,
    nominated: Vec<Arc<PodInfo>>,
    preemptions: usize,
    next: u32,
}

impl Story {
    fn new(seed: u64) -> Self {
        Self {
            world: World::new(&[]),
            seed,
            nodes: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            bound: Vec::new(),
            pending: Vec::new(),
            nominated: Vec::new(),
            preemptions: 0,
            next: 0,
        }
    }

    fn roll(&mut self, below: u32) -> u32 {
        roll(&mut self.seed, below)
    }

    fn pick(&mut self, parts: &[&str], chance: u32) -> String {
        let mut text = String::new();
        for part in parts {
            // One value per label and one claim per port, so that the oracle and the builders agree.
            let taken = part
                .split_once('=')
                .is_some_and(|(key, _)| (key.starts_with("label:") || key.starts_with("port:")) && text.contains(key));
            if self.roll(chance) == 0 && !taken && !(part.starts_with("port:") && text.contains("port:")) {
                text.push(' ');
                text.push_str(part);
            }
        }
        text
    }

    fn node_event(&mut self) {
        let name = format!("n{}", self.roll(7));
        if self.roll(5) == 0 {
            self.nodes.remove(&name);
            let symbol = self.world.cluster().names.intern(&name);
            self.world.engine.on_node_gone(symbol, self.world.now);
            return;
        }
        let extra = self.pick(&NODE_PARTS, 3);
        let text = format!("cpu={} memory={}Gi pods={}{extra}", 2 + self.roll(4), 2 + self.roll(4), 3 + self.roll(6));
        self.world.node(&name, &text);
        self.nodes.insert(name, text);
    }

    fn pod_text(&mut self) -> String {
        let app = ["label:app=a", "label:app=b", ""][self.roll(3) as usize];
        let namespace = ["ns=red", "ns=blue"][self.roll(2) as usize];
        format!("{namespace} {app}{}", self.pick(&POD_PARTS, 7))
    }

    fn step(&mut self) {
        match self.roll(14) {
            0 | 1 => self.node_event(),
            7 => {
                // A waiting nominated pod appears or disappears.
                if self.nominated.len() > 3 {
                    let at = self.roll(self.nominated.len() as u32) as usize;
                    let uid = self.nominated.swap_remove(at).uid.clone();
                    self.world.engine.on_pod_gone(&uid, self.world.now);
                }
                self.next += 1;
                let (name, node) = (format!("w{}", self.next), self.roll(8));
                let text = format!("{} priority={} nominated=n{node}", self.pod_text(), self.roll(4));
                self.nominated.push(self.world.pod(&name, &text));
                self.world.engine.queue.remove(&format!("uid-{name}"));
            }
            2 => {
                // Another scheduler binds a pod, to a node that may not exist.
                self.next += 1;
                let (name, node) = (format!("f{}", self.next), self.roll(8));
                let text = self.pod_text();
                self.world.pod(&name, &format!("{text} node=n{node}"));
                self.bound.push(format!("uid-{name}"));
            }
            3 => {
                if !self.bound.is_empty() {
                    let at = self.roll(self.bound.len() as u32) as usize;
                    let uid = self.bound.swap_remove(at);
                    self.world.engine.on_pod_gone(&uid, self.world.now);
                }
            }
            4 => {
                let namespace = ["red", "blue"][self.roll(2) as usize];
                let value = ["one", "two"][self.roll(2) as usize];
                let names = &mut self.world.cluster().names;
                let symbol = names.intern(namespace);
                let labels = Labels::new(vec![(names.intern("team"), names.intern(value))]);
                self.namespaces.insert(symbol, labels.clone());
                self.world.cluster().set_namespace(symbol, Some(labels));
            }
            5 => {
                // A bound pod starts terminating, or its labels change.
                if !self.bound.is_empty() {
                    let at = self.roll(self.bound.len() as u32) as usize;
                    let uid = self.bound[at].clone();
                    let Some(placed) = self.world.cluster().placed(&uid) else { return };
                    let mut info = (*placed.info).clone();
                    info.node = Some(placed.node);
                    info.version += 1;
                    if self.roll(2) == 0 {
                        info.terminating = true;
                    } else {
                        let names = &mut self.world.cluster().names;
                        let mut spec = (*info.spec).clone();
                        spec.labels = Labels::new(vec![(names.intern("app"), names.intern("b"))]);
                        info.spec = Arc::new(spec);
                    }
                    self.world.engine.on_pod(Arc::new(info), true, self.world.now);
                }
            }
            6 => {
                let namespace = ["red", "blue"][self.roll(2) as usize];
                let selected = self.roll(3);
                let names = &mut self.world.cluster().names;
                let (namespace, name) = (names.intern(namespace), names.intern("svc"));
                let labels = ["a", "b"].get(selected as usize);
                let labels = labels.map(|app| Labels::new(vec![(names.intern("app"), names.intern(app))]));
                self.world.cluster().owners.set_service(namespace, name, labels);
            }
            _ => {
                self.next += 1;
                let name = format!("p{}", self.next);
                let text = format!("{} priority={}", self.pod_text(), self.roll(4));
                self.world.pod(&name, &text);
                self.pending.push((name, text));
                self.decide();
            }
        }
    }

    /// Returns the constraint that a pod would violate by the oracle's rules, with the nominated pods of the same or higher priority on the node or without them.
    fn violation(&mut self, pod: &PodInfo, node: NodeIx) -> Option<String> {
        let name = self.world.cluster().nodes.name(node);
        let (cluster, namespaces) = (&mut self.world.engine.cluster, &self.namespaces);
        let violates = |cluster: &Cluster| {
            let info = cluster.nodes.info(node).unwrap();
            Oracle::new(cluster, namespaces).violation(&pod.spec, info).map(|broken| format!("{broken:?}"))
        };
        let comes_first = |other: &&Arc<PodInfo>| {
            other.nominated == Some(name) && other.priority >= pod.priority && other.uid != pod.uid
        };
        let expected: Vec<_> = self.nominated.iter().filter(comes_first).cloned().collect();
        expected.iter().for_each(|other| assert!(cluster.assume(other, node)));
        let crowded = violates(cluster);
        expected.iter().for_each(|other| drop(cluster.forget(&other.uid)));
        crowded.or_else(|| violates(cluster))
    }

    /// Checks that the pod fits once its victims are deleted, and that every victim has a lower priority.
    fn preempted(&mut self, pod: &Arc<PodInfo>, node: &str, calls: &[Call]) {
        let name = self.world.cluster().names.intern(node);
        let node = self.world.cluster().nodes.find(name).unwrap();
        let leaving: Vec<Uid> = self.world.cluster().nominations.victims_of(&pod.uid).to_vec();
        assert!(!leaving.is_empty() && calls.first() == Some(&Call::Nominate), "{calls:?}");
        let away: Vec<_> = leaving.iter().map(|uid| self.world.cluster().remove_pod(uid).unwrap()).collect();
        let broken = self.violation(pod, node);
        assert_eq!(broken, None, "{} on {node:?} without {leaving:?}", pod.name);
        for victim in away {
            assert!(victim.priority < pod.priority);
            let info = PodInfo { node: Some(name), ..(*victim).clone() };
            self.world.cluster().set_pod(Arc::new(info));
        }
        self.preemptions += 1;
        self.world.engine.withdraw(&pod.uid, self.world.now);
        self.world.engine.queue.remove(&pod.uid);
    }

    fn decide(&mut self) {
        let Some(decision) = self.world.step() else { return };
        let (Decision::Bind { popped, .. }
        | Decision::Propose { popped, .. }
        | Decision::Preempt { popped, .. }
        | Decision::ProposePreemption { popped, .. }
        | Decision::Unschedulable { popped, .. }
        | Decision::Postponed { popped, .. }
        | Decision::Skipped { popped }) = &decision;
        let uid = popped.pod.uid.to_string();
        let pod = Arc::clone(&popped.pod);
        let spec = Arc::clone(&pod.spec);
        // The oracle judges the state before the placement.
        let forgotten = matches!(decision, Decision::Bind { .. });
        let placed = if forgotten { self.world.cluster().forget(&uid) } else { None };
        let mut nodes: Vec<NodeIx> = self.world.cluster().nodes.live.iter().collect();
        nodes.retain(|node| self.violation(&pod, *node).is_none());
        let fitting: Vec<Sym> = nodes.iter().map(|node| self.world.engine.cluster.nodes.name(*node)).collect();
        let names: Vec<(String, i64)> = {
            let oracle = Oracle::new(&self.world.engine.cluster, &self.namespaces);
            let feasible: Vec<&NodeInfo> =
                oracle.nodes.iter().map(|node| &**node).filter(|node| fitting.contains(&node.name)).collect();
            let cluster = &self.world.engine.cluster;
            let default = cluster.owners.default_selector(&spec, &cluster.names);
            let totals = oracle.totals(&spec, &feasible, default.as_ref());
            feasible.iter().zip(totals).map(|(node, total)| (oracle.names.text(node.name).to_string(), total)).collect()
        };
        match &decision {
            Decision::Bind { node, .. } => {
                let best = names.iter().map(|(_, total)| *total).max();
                let chosen = names.iter().find(|(name, _)| **name == **node).map(|(_, total)| *total);
                assert_eq!(chosen, best, "pod {uid} on {node}: {names:?}\n{spec:?}");
                let node = self.world.cluster().names.intern(node);
                let slot = self.world.cluster().nodes.find(node).unwrap();
                let pod = placed.unwrap();
                assert!(self.world.cluster().assume(&pod, slot));
                self.settle(&pod, node);
            }
            Decision::Unschedulable { message, .. } => {
                assert_eq!(names, Vec::new(), "pod {uid} could be placed: {message}\n{spec:?}");
            }
            Decision::Preempt { node, calls, .. } => {
                assert_eq!(names, Vec::new(), "pod {uid} could be placed\n{spec:?}");
                self.preempted(&pod, node, calls);
            }
            other => panic!("{other:?}"),
        }
    }

    /// Lets the binding fail, or succeed with the API's confirmation.
    fn settle(&mut self, pod: &Arc<PodInfo>, node: Sym) {
        let now = self.world.now;
        let name = self.world.cluster().names.text(node).to_string();
        match self.roll(4) {
            0 => self.world.engine.unbound(pod, &name, now),
            outcome => {
                self.world.engine.bound(pod);
                self.bound.push(pod.uid.to_string());
                if outcome > 1 {
                    let mut info = (**pod).clone();
                    info.node = Some(node);
                    info.version += 1;
                    self.world.engine.on_pod(Arc::new(info), true, now);
                }
            }
        }
        self.world.engine.queue.remove(&pod.uid);
    }

    fn rebuilt(&self) -> Cluster {
        let old = &self.world.engine.cluster;
        let mut fresh = Cluster::with_names(old.names.clone());
        for (name, labels) in &self.namespaces {
            fresh.set_namespace(*name, Some(labels.clone()));
        }
        fresh.owners = old.owners.clone();
        for node in old.nodes.live.iter().filter_map(|node| old.nodes.info(node)) {
            fresh.set_node((**node).clone());
        }
        for pod in old.all_pods() {
            let mut info = (*pod.info).clone();
            info.node = Some(pod.node);
            fresh.set_pod(Arc::new(info));
        }
        for spec in old.pinned() {
            fresh.pin(&spec);
        }
        fresh
    }
}

#[test]
fn incremental_state_equals_the_state_built_from_scratch() {
    let mut preemptions = 0;
    for seed in 0..60 {
        let mut story = Story::new(seed);
        for _ in 0..4 {
            story.node_event();
        }
        for step in 0..150 {
            story.step();
            if step % 15 == 14 {
                story.world.cluster().refresh_all();
                let (found, wanted) = (story.world.engine.cluster.dump(), story.rebuilt().dump());
                for (key, value) in &wanted {
                    assert_eq!(found.get(key), Some(value), "seed {seed} step {step}: {key}");
                }
                assert_eq!(found.len(), wanted.len(), "seed {seed} step {step}");
            }
        }
        assert!(story.pending.len() > 20, "the history places pods");
        preemptions += story.preemptions;
    }
    assert!(preemptions > 100, "{preemptions} preemptions");
}

/// A faulty shard proposes arbitrary nodes: the arbiter accepts exactly the proposals that the oracle allows.
#[test]
fn the_arbiter_accepts_exactly_what_the_oracle_allows() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 100..140 {
        let mut story = Story::new(seed);
        let mut arbiter = Arbiter::default();
        for _ in 0..120 {
            story.step();
            let text = story.pod_text();
            story.next += 1;
            let pod =
                Arc::new(crate::testing::pod(&mut story.world.cluster().names, &format!("a{}", story.next), &text));
            let nodes: Vec<_> = story.world.cluster().nodes.live.iter().collect();
            if nodes.is_empty() {
                continue;
            }
            let node = nodes[story.roll(nodes.len() as u32) as usize];
            let wanted = story.violation(&pod, node);
            let proposal = Proposal { pod: Arc::clone(&pod), node, seen: 0 };
            let found = arbiter.decide(story.world.cluster(), &proposal);
            assert_eq!(found.is_ok(), wanted.is_none(), "seed {seed}: {found:?} but {wanted:?} for {text}");
            if found.is_ok() {
                let again = arbiter.decide(story.world.cluster(), &proposal);
                assert_eq!(again.map_err(|refusal| refusal.constraint), Err(Constraint::Unplaced));
                story.bound.push(pod.uid.to_string());
            }
        }
        accepted += arbiter.accepted;
        refused += arbiter.refused.values().sum::<u64>();
    }
    assert!(accepted > 300 && refused > 1_000, "{accepted} accepted, {refused} refused");
}
