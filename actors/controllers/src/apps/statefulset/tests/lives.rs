//! Simulations of a StatefulSet, its controller and a kubelet, with random scales, updates and failures, and stops of the controller between any two writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_meta::{Time, Uid};
use oarlock_runtime::Rng;

use super::super::members::{self, POD_NAME, Pod, REVISION, is_available, pod_name};
use super::super::plan::{Action, PodRevision, plan};
use super::super::snapshot::{Names, Snapshot};
use super::super::status::complete;
use super::{pod, set};
use crate::project::{Amount, Phase, Replacement, StatefulSet};

/// The turns in which a set is changed and pods fail.
const TURMOIL: usize = 120;
/// The turns after which every set must be at rest.
const CALM: usize = 1_000;

struct World {
    set: Item<StatefulSet>,
    pods: BTreeMap<i64, Pod>,
    /// The number of the template, and of the revision before the last complete update.
    template: u64,
    current: u64,
    now: i64,
    made: u64,
    rng: Rng,
}

impl World {
    fn new(seed: u64, parallel: bool) -> Self {
        let set = set(3, |set| {
            set.value.parallel = parallel;
            set.value.min_ready = 2;
        });
        Self { set, pods: BTreeMap::new(), template: 1, current: 1, now: 1_000, made: 0, rng: Rng::seeded(seed) }
    }

    fn names(&self) -> Names {
        let name = |number: u64| format!("web-{number}").into();
        Names { current: name(self.current), update: name(self.template), collisions: 0 }
    }

    fn available(&self) -> usize {
        let now = Time::from_unix(self.now);
        self.pods.values().filter(|pod| is_available(pod, 2, now)).count()
    }

    /// Plans and takes at most `writes` actions; returns whether nothing was to be done.
    fn reconcile(&mut self, mut writes: usize) -> bool {
        let (names, pods) = (self.names(), self.pods.values().cloned().collect::<Vec<_>>());
        let snapshot = Snapshot {
            set: &self.set,
            pods: &pods,
            names: &names,
            claim: &|_| None,
            counts_unavailable: true,
            now: Time::from_unix(self.now),
        };
        let mut plan = plan(&snapshot);
        let is_calm = plan.stages.is_empty();
        for action in plan.stages.iter().flatten() {
            if writes == 0 {
                return false;
            }
            writes -= 1;
            self.take(action);
        }
        complete(&mut plan.status, &self.set.value);
        if plan.status.current_revision == names.update {
            self.current = self.template;
        }
        self.set.value.status = plan.status;
        is_calm
    }

    fn take(&mut self, action: &Action) {
        match action {
            Action::Create { ordinal, revision: of, .. } => {
                assert!(!self.pods.contains_key(ordinal), "a second pod of ordinal {ordinal}");
                if !self.set.value.parallel {
                    let now = Time::from_unix(self.now);
                    let before = members::ordinals(&self.set.value).start..*ordinal;
                    let waits =
                        before.clone().all(|one| self.pods.get(&one).is_some_and(|pod| is_available(pod, 2, now)));
                    assert!(waits, "ordinal {ordinal} before all of {before:?} are available");
                }
                let names = self.names();
                let revision = if *of == PodRevision::Current { names.current } else { names.update };
                self.made += 1;
                let uid = Uid::from(format!("uid-{}", self.made).as_str());
                let name = pod_name("web", *ordinal);
                self.pods.insert(
                    *ordinal,
                    pod(&name, |pod| {
                        pod.meta.uid = uid;
                        pod.meta.labels = [(REVISION.into(), revision), (POD_NAME.into(), name.clone().into())].into();
                        (pod.value.phase, pod.value.ready, pod.value.ready_since) = (Phase::Pending, false, None);
                    }),
                );
            }
            Action::Delete { pod, .. } => {
                let now = Time::from_unix(self.now);
                let ordinal = members::ordinal("web", pod.meta.name()).unwrap();
                self.change(ordinal, |pod| pod.meta.deletion = Some(now));
            }
            Action::Claims { .. } | Action::Repair { .. } => panic!("nothing to repair: {action:?}"),
        }
    }

    fn change(&mut self, ordinal: i64, change: impl FnOnce(&mut Item<crate::project::PodView>)) {
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            let mut next = Item::clone(pod);
            change(&mut next);
            *pod = Arc::new(next);
        }
    }

    /// Lets a kubelet advance one pod: a deleted one ends, a pending one runs, a running one becomes ready or, in turmoil, fails.
    fn kubelet(&mut self, in_turmoil: bool) {
        let ordinals: Vec<i64> = self.pods.keys().copied().collect();
        let Some(ordinal) = self.rng.pick(&ordinals).copied() else { return };
        if self.pods[&ordinal].meta.deleting() {
            self.pods.remove(&ordinal);
            return;
        }
        let (now, fails) = (Time::from_unix(self.now), in_turmoil && self.rng.chance(1, 12));
        // Two ended pods that an ordered set has too many wait for one another, as under upstream's controller: somebody has to delete one.
        let is_stuck = !in_turmoil && !members::ordinals(&self.set.value).contains(&ordinal);
        self.change(ordinal, |pod| match pod.value.phase {
            _ if fails => (pod.value.phase, pod.value.ready) = (Phase::Failed, false),
            Phase::Failed if is_stuck => pod.meta.deletion = Some(now),
            Phase::Pending => pod.value.phase = Phase::Running,
            Phase::Running if !pod.value.ready => {
                (pod.value.ready, pod.value.ready_since) = (true, Some(now));
            }
            _ => {}
        });
    }

    /// Lets a user scale or update the set, or change its strategy.
    fn user(&mut self) {
        let value = &mut self.set.value;
        match self.rng.below(4) {
            0 => value.replicas = i64::try_from(self.rng.below(7)).unwrap(),
            1 => value.start = i64::try_from(self.rng.below(3)).unwrap(),
            2 => self.template += 1,
            _ => {
                let partition = Some(i64::try_from(self.rng.below(4)).unwrap());
                let unavailable = Amount::Count(1 + i64::try_from(self.rng.below(3)).unwrap());
                value.replacement = Replacement::Rolling { partition, unavailable };
            }
        }
    }
}

#[test]
fn every_set_comes_to_rest_with_one_pod_for_each_ordinal_whatever_happened() {
    for seed in 0..200 {
        let mut world = World::new(seed, seed % 2 == 1);
        for _ in 0..TURMOIL {
            world.now += 1;
            let writes = usize::try_from(world.rng.below(4)).unwrap();
            world.reconcile(writes);
            world.kubelet(true);
            if world.rng.chance(1, 10) {
                world.user();
            }
        }
        world.set.value.replacement = Replacement::Rolling { partition: Some(0), unavailable: Amount::Count(1) };
        for _ in 0..CALM {
            world.now += 1;
            world.reconcile(usize::MAX);
            world.kubelet(false);
        }
        assert!(world.reconcile(0), "seed {seed}: still at work");
        let ordinals: Vec<i64> = world.pods.keys().copied().collect();
        assert_eq!(ordinals, members::ordinals(&world.set.value).collect::<Vec<_>>(), "seed {seed}");
        let update = world.names().update;
        let has = |pod: &Pod| pod.meta.label(REVISION) == Some(update.as_str());
        assert!(world.pods.values().all(has), "seed {seed}: an old pod is left");
        assert_eq!(world.current, world.template, "seed {seed}: the update is not complete");
    }
}

#[test]
fn an_update_keeps_all_but_the_unavailable_pods() {
    for (parallel, unavailable) in [(false, 1), (false, 3), (true, 1), (true, 2)] {
        let mut world = World::new(7, parallel);
        world.set.value.replicas = 6;
        let replacement = Replacement::Rolling { partition: Some(0), unavailable: Amount::Count(unavailable) };
        world.set.value.replacement = replacement;
        for _ in 0..CALM {
            world.now += 1;
            world.reconcile(usize::MAX);
            world.kubelet(false);
        }
        assert_eq!(world.available(), 6);
        world.template += 1;
        let least = 6 - usize::try_from(unavailable).unwrap();
        for _ in 0..CALM {
            world.now += 1;
            world.reconcile(usize::MAX);
            assert!(world.available() >= least, "{} of {least}, parallel: {parallel}", world.available());
            world.kubelet(false);
        }
        assert_eq!((world.available(), world.current), (6, 2), "parallel: {parallel}");
    }
}
