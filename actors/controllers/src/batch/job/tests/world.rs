//! A simulated cluster of one Job, its pods, and a kubelet. Every write may be the last one before the controller restarts.

use std::collections::BTreeSet;
use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_meta::{Revision, Time, Uid};

use super::super::account::{Outcome, open};
use super::super::memory::Memory;
use super::super::plan::{New, plan};
use super::super::snapshot::{Pod, Snapshot};
use super::{details, end, pod};
use crate::project::{Job, Phase, PodView};

/// The error that stops the controller after a write.
#[derive(Debug)]
pub(super) struct Crash;

/// A simulated cluster of one Job, its pods, and a kubelet.
pub(super) struct World {
    pub(super) job: Item<Job>,
    pub(super) pods: Vec<Pod>,
    pub(super) now: Time,
    pub(super) made: usize,
    /// The number of writes until the controller is stopped.
    pub(super) writes_left: usize,
    revision: u64,
    memory: Memory,
}

impl World {
    pub(super) fn new(job: Item<Job>) -> Self {
        let now = job.value.status.started.unwrap();
        let memory = Memory::default();
        Self { job, pods: Vec::new(), now, made: 0, writes_left: usize::MAX, revision: 1, memory }
    }

    fn write(&mut self) -> Result<Revision, Crash> {
        self.writes_left = self.writes_left.checked_sub(1).ok_or(Crash)?;
        self.revision += 1;
        Ok(Revision(self.revision))
    }

    /// Restarts the controller, which loses its memory.
    pub(super) fn restart(&mut self) {
        (self.memory, self.writes_left) = (Memory::default(), usize::MAX);
    }

    /// Changes a pod; removes the pod if it has ended, is being deleted and has no finalizer.
    pub(super) fn change(&mut self, uid: &Uid, at: Revision, change: impl FnOnce(&mut Item<PodView>)) {
        let Some(place) = self.pods.iter().position(|pod| pod.meta.uid == *uid) else { return };
        let mut pod = Item::clone(&self.pods[place]);
        change(&mut pod);
        pod.meta.revision = at;
        let gone = pod.meta.deleting() && pod.meta.finalizers.is_empty() && pod.value.terminal();
        if gone {
            self.pods.remove(place);
        } else {
            self.pods[place] = Arc::new(pod);
        }
    }

    fn make(&mut self, new: New, at: Revision) {
        let created = self.now;
        self.made += 1;
        self.pods.push(pod(&format!("pod-{:03}", self.made), |pod| {
            (pod.meta.created, pod.meta.revision) = (Some(created), at);
            let details = details(pod);
            details.index = new.index;
            (details.failures, details.ignored) = new.failures.unwrap_or_default();
        }));
    }

    /// Lets the kubelet and users change pods.
    pub(super) fn run(&mut self, change: impl Fn(&mut Item<PodView>, Time)) {
        let (uids, now): (Vec<Uid>, Time) = (self.pods.iter().map(|pod| pod.meta.uid.clone()).collect(), self.now);
        for uid in uids {
            self.revision += 1;
            self.change(&uid, Revision(self.revision), |pod| change(pod, now));
        }
    }

    /// Runs one reconcile, with the same steps as `Jobs::sync`.
    pub(super) fn reconcile(&mut self) -> Result<(), Crash> {
        let (job, pods, now) = (self.job.clone(), self.pods.clone(), self.now);
        let released = self.memory.released(job.key(), &pods);
        let snapshot = Snapshot::at(&job, &pods, &released, self.memory.record(&job), now);
        let plan = plan(&snapshot, now);
        let mut outcome = Outcome::default();
        for pod in &plan.delete {
            if plan.release {
                self.release(&pod.meta.uid)?;
            }
            let at = self.write()?;
            self.change(&pod.meta.uid, at, |pod| pod.meta.deletion = Some(now));
            outcome.deleted += 1;
            outcome.deleted_ready += i64::from(pod.value.ready);
        }
        for new in &plan.create {
            let at = self.write()?;
            self.make(*new, at);
            outcome.created += 1;
        }
        let mut open = open(&snapshot, &plan, outcome, now);
        self.report(&open.status)?;
        self.memory.entered(&job, &open.status, snapshot.backoff);
        let mut gone = BTreeSet::new();
        for pod in open.release.clone() {
            self.release(&pod.meta.uid)?;
            gone.insert(pod.meta.uid.clone());
        }
        open.close(&snapshot, &gone, now);
        self.report(&open.status)
    }

    fn report(&mut self, status: &crate::project::JobState) -> Result<(), Crash> {
        if *status != self.job.value.status {
            self.write()?;
            self.job.value.status = status.clone();
        }
        Ok(())
    }

    fn release(&mut self, uid: &Uid) -> Result<(), Crash> {
        let at = self.write()?;
        self.change(uid, at, |pod| pod.meta.finalizers = Box::default());
        self.memory.release(&self.job.meta.key, uid, Some(at));
        Ok(())
    }

    /// Reconciles and advances the time until the Job is finished.
    pub(super) fn live(&mut self, mut step: impl FnMut(&mut Self)) {
        for _ in 0..500 {
            if self.reconcile().is_err() {
                self.restart();
            }
            if self.job.value.status.finished().is_some() {
                return;
            }
            self.now = Time::from_unix(self.now.unix() + 1);
            step(self);
        }
        panic!("not finished: {:?}", self.job.value.status);
    }

    /// The number of pods with the tracking finalizer.
    pub(super) fn finalizers(&self) -> usize {
        self.pods.iter().filter(|pod| !pod.meta.finalizers.is_empty()).count()
    }
}

/// A kubelet: pods end a second after their creation, and fail if `fails` returns true for their number; pods being deleted end.
pub(super) fn kubelet(world: &mut World, fails: impl Fn(usize) -> bool) {
    world.run(|pod, now| {
        let number: usize = pod.meta.name().trim_start_matches("pod-").parse().unwrap();
        let age = now.unix() - pod.meta.created.unwrap().unix();
        if pod.value.phase == Phase::Running && (pod.meta.deleting() || age > 0) {
            let phase = if pod.meta.deleting() || fails(number) { Phase::Failed } else { Phase::Succeeded };
            end(pod, phase, now.unix());
        }
    });
}
