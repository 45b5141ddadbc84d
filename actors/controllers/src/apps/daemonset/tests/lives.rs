//! Simulations of a DaemonSet, its controller, a scheduler and kubelets, with random changes of nodes and templates, failures, creations whose answers are lost,
//! and stops of the controller between any two writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_meta::{Time, Uid};
use oarlock_runtime::Rng;
use oarlock_workloads::revision::DAEMON_HASH_LABEL;

use super::super::actions::{New, Plan};
use super::super::placement::{Placement, placement};
use super::super::plan::plan;
use super::super::pods::{Pod, TEMPLATE_GENERATION};
use super::super::snapshot::Snapshot;
use super::{Node, nodes, pod, rolling, set};
use crate::project::{Amount, DaemonSet, DaemonUpdate, Phase, PodView};

/// The turns in which nodes and the set are changed and pods fail.
const TURMOIL: usize = 150;
/// The turns after which every set must be at rest.
const CALM: usize = 2_000;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

struct World {
    set: Item<DaemonSet>,
    nodes: BTreeMap<&'static str, Node>,
    pods: Vec<Pod>,
    template: i64,
    now: i64,
    made: usize,
    rng: Rng,
}

impl World {
    fn new(seed: u64, update: DaemonUpdate) -> Self {
        let set = set(|set| (set.value.min_ready, set.value.update) = (2, update));
        let mut world = Self {
            set,
            nodes: NAMES.iter().map(|name| (*name, nodes(name).remove(0))).collect(),
            pods: Vec::new(),
            template: 1,
            now: 1_000,
            made: 0,
            rng: Rng::seeded(seed),
        };
        world.renew(0);
        world
    }

    /// Gives the set another template.
    fn renew(&mut self, by: i64) {
        self.template += by;
        self.set.value.template_count = Some(self.template);
    }

    fn look<T>(&self, read: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        let nodes: Vec<Node> = self.nodes.values().cloned().collect();
        let hash = self.template.to_string();
        read(&Snapshot::of(&self.set, &hash, (&nodes, &self.pods), Time::from_unix(self.now)))
    }

    /// The number of nodes with an available pod that is not being deleted.
    fn available(&self) -> usize {
        let has = |snapshot: &Snapshot<'_>, node: &&str| {
            snapshot.on(node).iter().any(|pod| snapshot.is_available(pod) && !pod.meta.deleting())
        };
        self.look(|snapshot| NAMES.iter().filter(|node| has(snapshot, node)).count())
    }

    /// The pods on a node that have not ended and are not being deleted.
    fn live(&self, node: &str) -> Vec<&Pod> {
        let lives = |pod: &&Pod| pod.value.target_node() == node && !pod.value.terminal() && !pod.meta.deleting();
        self.pods.iter().filter(lives).collect()
    }

    /// Plans and takes at most `writes` actions in their order; returns whether nothing was to be done. In turmoil the answer to a creation may be lost, so
    /// that the creation is repeated, and the failed pods are not deleted.
    fn reconcile(&mut self, mut writes: usize, in_turmoil: bool) -> bool {
        let (creates, mut deletes) = self.look(|snapshot| {
            let Plan { create, delete, .. } = plan(snapshot);
            let create: Vec<(String, i64, Vec<Uid>)> = create
                .iter()
                .map(|New { node, former_failures, replaces }| {
                    ((*node).to_owned(), *former_failures, replaces.iter().map(|pod| pod.meta.uid.clone()).collect())
                })
                .collect();
            (create, delete.iter().map(|removal| removal.pod.meta.uid.clone()).collect::<Vec<Uid>>())
        });
        let is_calm = creates.is_empty() && deletes.is_empty();
        for (node, former_failures, replaces) in creates {
            if writes == 0 {
                return false;
            }
            writes -= 1;
            self.create(&node, former_failures);
            if in_turmoil && self.rng.chance(1, 6) {
                self.create(&node, former_failures);
            } else {
                deletes.extend(replaces);
            }
        }
        for uid in deletes.into_iter().take(writes) {
            let now = Time::from_unix(self.now);
            self.change(&uid, |pod| pod.meta.deletion = Some(now));
            // The API server deletes a pod at once that has ended or was never bound.
            self.pods.retain(|pod| pod.meta.uid != uid || !(pod.value.terminal() || pod.value.node.is_empty()));
        }
        is_calm
    }

    fn create(&mut self, node: &str, former_failures: i64) {
        self.made += 1;
        let (now, template) = (Time::from_unix(self.now), self.template.to_string());
        let name = format!("{node}{}", self.made);
        self.pods.push(pod(&name, node, |pod| {
            pod.meta.created = Some(now);
            pod.meta.labels = [
                (DAEMON_HASH_LABEL.into(), template.as_str().into()),
                (TEMPLATE_GENERATION.into(), template.as_str().into()),
            ]
            .into();
            let value = &mut pod.value;
            (value.node, value.phase, value.ready, value.ready_since) = ("".into(), Phase::Pending, false, None);
            value.daemon.as_mut().unwrap().former_failures = former_failures;
        }));
    }

    fn change(&mut self, uid: &Uid, change: impl FnOnce(&mut Item<PodView>)) {
        if let Some(pod) = self.pods.iter_mut().find(|pod| pod.meta.uid == *uid) {
            let mut next = Item::clone(pod);
            change(&mut next);
            *pod = Arc::new(next);
        }
    }

    /// Lets the scheduler or a kubelet advance one pod: an unbound one is bound, a deleted one ends, a pending one runs, a running one becomes ready or, in
    /// turmoil, fails. Pods of nodes that do not exist are deleted, as the pod garbage collector does.
    fn advance(&mut self, in_turmoil: bool) {
        let Some(pod) = self.rng.pick(&self.pods).cloned() else { return };
        let node = pod.value.target_node().to_owned();
        let is_lost = !self.nodes.contains_key(node.as_str());
        let is_bound = !pod.value.node.is_empty();
        if pod.meta.deleting() || is_lost {
            self.pods.retain(|other| other.meta.uid != pod.meta.uid || !is_bound);
            return;
        }
        let (now, fails) = (Time::from_unix(self.now), in_turmoil && self.rng.chance(1, 6));
        self.change(&pod.meta.uid, |pod| match pod.value.phase {
            _ if !is_bound => pod.value.node = node.as_str().into(),
            Phase::Pending | Phase::Running if fails => (pod.value.phase, pod.value.ready) = (Phase::Failed, false),
            Phase::Pending => pod.value.phase = Phase::Running,
            Phase::Running if !pod.value.ready => (pod.value.ready, pod.value.ready_since) = (true, Some(now)),
            _ => {}
        });
    }

    /// Lets a user change the template, the strategy, or a node.
    fn user(&mut self) {
        let name = *self.rng.pick(&NAMES).unwrap();
        match self.rng.below(6) {
            0 => self.renew(1),
            1 => self.set.value.update = DaemonUpdate::OnDelete,
            2 => self.set.value.update = in_place(1 + i64::try_from(self.rng.below(3)).unwrap()),
            3 => self.set.value.update = surging(1 + i64::try_from(self.rng.below(3)).unwrap()),
            4 => {
                let taints = ["", ": x:NoSchedule", ": x:NoExecute"];
                let text = format!("{name}{}", self.rng.pick(&taints).unwrap());
                self.nodes.insert(name, nodes(&text).remove(0));
            }
            _ => {
                self.nodes.remove(name);
            }
        }
    }
}

fn in_place(unavailable: i64) -> DaemonUpdate {
    rolling(Amount::Count(unavailable), Amount::Count(0))
}

fn surging(surge: i64) -> DaemonUpdate {
    rolling(Amount::Count(0), Amount::Count(surge))
}

#[test]
fn every_set_comes_to_rest_with_one_pod_on_each_node_whatever_happened() {
    for seed in 0..150 {
        let mut world = World::new(seed, in_place(1));
        for _ in 0..TURMOIL {
            world.now += 1;
            let writes = usize::try_from(world.rng.below(4)).unwrap();
            world.reconcile(writes, true);
            world.advance(true);
            world.advance(true);
            if world.rng.chance(1, 10) {
                world.user();
            }
        }
        world.set.value.update = if seed % 2 == 0 { in_place(1) } else { surging(1) };
        for _ in 0..CALM {
            world.now += 2;
            world.reconcile(usize::MAX, false);
            let most = if world.set.value.surges() { 2 } else { 1 };
            for node in world.nodes.keys() {
                let live = world.live(node).len();
                assert!(live <= most, "seed {seed}: {live} pods run on {node} after a reconcile that was not stopped");
            }
            world.advance(false);
        }
        assert!(world.reconcile(0, false), "seed {seed}: still at work");
        let template = world.template.to_string();
        for node in NAMES {
            let found = world.nodes.get(node).map(|node| placement(&world.set.value, node));
            let live = world.live(node);
            match found {
                Some(Placement::Runs) => {
                    assert_eq!(live.len(), 1, "seed {seed}, node {node}");
                    assert_eq!(
                        live[0].meta.label(DAEMON_HASH_LABEL),
                        Some(template.as_str()),
                        "seed {seed}: an old pod"
                    );
                }
                Some(Placement::Stays) => assert!(live.len() <= 1, "seed {seed}, node {node}"),
                Some(Placement::Excluded) | None => assert!(live.is_empty(), "seed {seed}, node {node}"),
            }
        }
    }
}

#[test]
fn a_roll_keeps_all_but_the_unavailable_pods_and_with_a_surge_all() {
    for (update, least) in [(in_place(1), 5), (in_place(3), 3), (surging(1), 6), (surging(4), 6)] {
        let mut world = World::new(7, update.clone());
        let settle = |world: &mut World, least: usize| {
            for _ in 0..CALM {
                world.now += 1;
                world.reconcile(usize::MAX, false);
                let available = world.available();
                assert!(available >= least, "{available} of {least} by {update:?}");
                world.advance(false);
            }
        };
        settle(&mut world, 0);
        assert_eq!((world.available(), world.made), (6, 6));
        world.renew(1);
        settle(&mut world, least);
        assert_eq!((world.available(), world.made), (6, 12), "{update:?}");
    }
}

#[test]
fn a_daemon_that_always_fails_is_started_ever_more_rarely_although_the_controller_is_stopped_again_and_again() {
    for update in [in_place(1), surging(1)] {
        let mut world = World::new(3, update.clone());
        world.nodes.retain(|name, _| *name == "a");
        for _ in 0..3_600 {
            world.now += 1;
            let writes = usize::try_from(world.rng.below(3)).unwrap();
            world.reconcile(writes, false);
            let uids: Vec<Uid> = world.pods.iter().map(|pod| pod.meta.uid.clone()).collect();
            for uid in uids {
                world.change(&uid, |pod| {
                    (pod.value.node, pod.value.phase, pod.value.ready) = ("a".into(), Phase::Failed, false);
                });
            }
        }
        assert!((8..=16).contains(&world.made), "{} pods in an hour by {update:?}", world.made);
    }
}
