//! ttl-after-finished-controller: deletes finished Jobs after their time to live (upstream `pkg/controller/ttlafterfinished`).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_client::{DeleteOptions, Propagation};
use oarlock_informer::{Cache, Item, Key, Project, Reconcile, Requeue};
use oarlock_meta::Time;
use oarlock_runtime::Failure;
use oarlock_schema::Resource;

use crate::error::Error;
use crate::harness::{Concurrency, Env, Row, Spread, must};
use crate::project::Job;

use crate::write;

pub(crate) const ROW: Row = Row {
    name: "ttl-after-finished-controller",
    aliases: &["ttl-after-finished"],
    account: "ttl-after-finished-controller",
    component: "ttl-after-finished-controller",
    workers: Concurrency::flag("concurrent-ttl-after-finished-syncs", 4),
    spread: Spread::Key,
    why: "each Job has a time of its own",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

struct Finished {
    env: Env,
    jobs: Arc<Cache<Job>>,
    job: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let jobs = env.informers.all::<Job>().await?;
    let this = Finished { env: env.clone(), jobs: jobs.clone(), job: must(Job::RESOURCE)? };
    let controller = env.shell.controller(this).reconciles(&jobs);
    env.shell.spawn(controller).await
}

/// Returns the remaining time to live of a Job; `None` if unlimited, or if the Job is being deleted.
fn left(job: &Item<Job>, now: Time) -> Option<Duration> {
    if job.meta.deleting() {
        return None;
    }
    let finished = job.value.status.finished()?.transition?;
    let due = finished.unix().saturating_add(job.value.ttl?);
    Some(Duration::from_secs(u64::try_from(due.saturating_sub(now.unix())).unwrap_or(0)))
}

#[async_trait]
impl Reconcile for Finished {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some((job, left)) = self.jobs.get(key).and_then(|job| Some((job.clone(), left(&job, write::now())?)))
        else {
            return Ok(Requeue::No);
        };
        if !left.is_zero() {
            return Ok(Requeue::After(left));
        }
        // Precondition on the revision: a Job whose time to live was extended since is not deleted.
        let options =
            DeleteOptions { resource_version: Some(job.meta.revision), ..DeleteOptions::uid(job.meta.uid.0.clone()) };
        let options = options.propagate(Propagation::Foreground);
        match self.env.client.delete(self.job, job.meta.namespace(), job.meta.name(), options).await {
            Err(status) if !status.is_not_found() => Err(status.into()),
            _ => Ok(Requeue::No),
        }
    }
}

#[cfg(test)]
mod tests {
    use oarlock_informer::ObjMeta;

    use super::*;
    use crate::project::{Condition, JobState};

    fn job(kind: &str, status: &str, ttl: Option<i64>) -> Item<Job> {
        let condition = Condition::new(kind, status, "", "", Time::from_unix(1000));
        let status = JobState { conditions: vec![condition], ..JobState::default() };
        Item { meta: ObjMeta::default(), value: Job { ttl, status, ..Job::default() } }
    }

    #[test]
    fn a_job_goes_so_long_after_its_end() {
        let at = |job: &Item<Job>, seconds| left(job, Time::from_unix(seconds)).map(|left| left.as_secs());
        for kind in ["Complete", "Failed"] {
            let job = job(kind, "True", Some(30));
            assert_eq!(
                [at(&job, 1000), at(&job, 1029), at(&job, 1030), at(&job, 5000)],
                [Some(30), Some(1), Some(0), Some(0)]
            );
        }
    }

    #[test]
    fn others_stay() {
        let now = Time::from_unix(5000);
        let mut going = job("Complete", "True", Some(0));
        going.meta.deletion = Some(now);
        let stay = [
            going,
            job("Complete", "True", None),
            job("Failed", "False", Some(0)),
            job("FailureTarget", "True", Some(0)),
        ];
        assert!(stay.iter().all(|job| left(job, now).is_none()));
    }
}
