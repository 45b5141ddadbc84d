//! job-controller: runs the pods of a Job until enough of them have succeeded (upstream `pkg/controller/job`).
//!
//! A reconcile takes a snapshot (`snapshot.rs`), plans, writes, and then counts ended pods; `account.rs` explains how every pod is counted exactly once.

mod account;
mod act;
mod backoff;
mod conditions;
mod indexes;
mod memory;
mod orphans;
mod plan;
mod policy;
mod rank;
mod snapshot;
mod template;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_informer::{Cache, Change, Index, Item, Key, OwnWrites, Project, Reconcile, Requeue};
use oarlock_runtime::Failure;
use oarlock_schema::Resource;

use crate::controller_ref::{Candidates, Claims, claim};
use crate::error::Error;
use crate::harness::{Concurrency, Env, Row, Spread, must};
use crate::pod_create::PodCreates;
use crate::project::{Job, Mode, PodView};

use crate::write;
use memory::Memory;
use snapshot::Snapshot;

pub(crate) const ROW: Row = Row {
    name: "job-controller",
    aliases: &["job"],
    account: "job-controller",
    component: "job-controller",
    workers: Concurrency::flag("concurrent-job-syncs", 16),
    spread: Spread::Key,
    why: "a Job's pods are decided on its own",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

struct Jobs {
    env: Env,
    jobs: Arc<Cache<Job>>,
    pods: Arc<Cache<PodView>>,
    candidates: Candidates<PodView>,
    tracked: Index<PodView>,
    creates: PodCreates,
    memory: Memory,
    own: Arc<OwnWrites>,
    job: &'static Resource,
    pod: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let jobs = env.informers.all::<Job>().await?;
    let pods = env.informers.all::<PodView>().await?;
    let own = Arc::new(OwnWrites::default());
    let pod = must(PodView::RESOURCE)?;
    let this = Jobs {
        candidates: Candidates::of(&pods),
        tracked: orphans::index(&pods),
        creates: PodCreates::new(&env.client, pod, &pods, &jobs),
        memory: Memory::default(),
        own: own.clone(),
        job: must(Job::RESOURCE)?,
        pod,
        jobs: jobs.clone(),
        pods: pods.clone(),
        env: env.clone(),
    };
    let known = jobs.clone();
    let controller = env
        .shell
        .controller(this)
        .reconciles(&jobs)
        .owns(&pods, "Job")
        .watches(&pods, move |change, enqueue| wanted_by(&known, change, enqueue))
        .own_writes(&own);
    env.shell.spawn(controller).await
}

/// Enqueues the keys that a pod without a controller concerns: Jobs that might adopt the pod, and the key that removes its finalizer if it has one.
fn wanted_by(jobs: &Cache<Job>, change: &Change<PodView>, enqueue: &mut dyn FnMut(Key)) {
    let Some(pod) = change.new.as_ref().filter(|pod| pod.meta.controller().is_none()) else { return };
    if orphans::carries(pod) {
        enqueue(orphans::key(pod.meta.namespace()));
    }
    if pod.meta.deleting() {
        return;
    }
    for job in jobs.in_namespace(pod.meta.namespace()) {
        if job.value.selector.as_ref().is_some_and(|selector| selector.matches(&*pod.meta.labels)) {
            enqueue(job.key().clone());
        }
    }
}

#[async_trait]
impl Reconcile for Jobs {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(job) = self.jobs.get(key) else {
            self.own.forget(key);
            self.memory.forget(key);
            return self.orphans(key, None).await;
        };
        if job.value.status.finished().is_some() && !job.value.external {
            self.memory.forget(key);
            return self.orphans(key, None).await;
        }
        // An earlier Job may have had the same name.
        self.orphans(key, Some(&job.meta.uid)).await?;
        if job.value.external {
            return Ok(Requeue::No);
        }
        if job.value.mode == Mode::Unknown {
            let message = "Skipped Job sync because completion mode is unknown";
            self.env.recorder.warning(&write::about(self.job, &job.meta), "UnknownCompletionMode", message);
            return Ok(Requeue::No);
        }
        self.sync(&job).await
    }
}

impl Jobs {
    async fn sync(&self, job: &Item<Job>) -> Result<Requeue, Failure> {
        let candidates = self.candidates.get(&job.meta);
        let Claims { mine, adopt, release } = claim(&job.meta, job.value.selector.as_ref(), candidates);
        if !adopt.is_empty() || !release.is_empty() {
            self.settle(job, &adopt, &release).await?;
            // The key is reconciled again when the cache shows the pods' new owners.
            return Ok(Requeue::After(Duration::ZERO));
        }
        self.memory.sweep(|key| self.jobs.get(key).is_some_and(|job| job.value.status.finished().is_none()));
        let now = write::now();
        let released = self.memory.released(job.key(), &mine);
        let snapshot = Snapshot::at(job, &mine, &released, self.memory.record(job), now);
        let plan = plan::plan(&snapshot, now);
        let (outcome, failure) = self.perform(job, &plan).await;
        let open = account::open(&snapshot, &plan, outcome, now);
        let finished = self.keep_books(&snapshot, open, now).await?;
        match failure {
            Some(status) => Err(status.into()),
            None if finished => Ok(Requeue::No),
            None => Ok(plan.again.map_or(Requeue::No, |again| Requeue::After(again.max(Duration::from_secs(1))))),
        }
    }
}
