//! The API writes of the job controller.

use std::collections::BTreeSet;

use oarlock_client::{DeleteOptions, Object};
use oarlock_informer::Item;
use oarlock_meta::{Status, Time, Uid};
use oarlock_schema::views::{View, batch_v1};
use oarlock_schema::{Obj, Value};
use serde_json::json;

use super::Jobs;
use super::account::{Open, Outcome, SuspendChange};
use super::plan::{New, Plan};
use super::snapshot::{Pod, Snapshot};
use super::template;
use crate::project::{Job, JobState, TRACKING};
use crate::write;

impl Jobs {
    /// Adopts and releases pods. Adoption adds the tracking finalizer, release removes it.
    pub(super) async fn settle(&self, job: &Item<Job>, adopt: &[Pod], release: &[Pod]) -> Result<(), Status> {
        if !adopt.is_empty() {
            // The cache may not show the owner's deletion yet, so the API server is asked before pods are adopted.
            write::current(&self.env.client, self.job, &job.meta).await?;
        }
        let taken = adopt.iter().map(|pod| {
            let owner = write::owner(self.job, &job.meta);
            let metadata = json!({"ownerReferences": [owner], "finalizers": [TRACKING], "uid": pod.meta.uid.as_str()});
            (pod, json!({"metadata": metadata}))
        });
        let left = release.iter().map(|pod| {
            let owner = json!({"$patch": "delete", "uid": job.meta.uid.as_str()});
            let uid = pod.meta.uid.as_str();
            let finalizers = [TRACKING];
            let metadata =
                json!({"ownerReferences": [owner], "$deleteFromPrimitiveList/finalizers": finalizers, "uid": uid});
            (pod, json!({"metadata": metadata}))
        });
        let patches: Vec<_> = taken.chain(left).collect();
        let calls =
            patches.iter().map(|(pod, patch)| write::patch_metadata(&self.env.client, self.pod, &pod.meta, patch));
        for answer in write::all(calls).await {
            match answer {
                Ok(object) => self.own.wrote(job.key(), &self.pods, object.revision),
                Err(status) if status.is_not_found() => {}
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }

    /// Deletes and creates pods; returns the outcome and the first failure.
    pub(super) async fn perform(&self, job: &Item<Job>, plan: &Plan<'_>) -> (Outcome, Option<Status>) {
        let (mut outcome, mut failure) = (Outcome::default(), None);
        let answers =
            write::all(plan.delete.iter().map(|pod| async move { (*pod, self.delete(job, pod, plan.release).await) }))
                .await;
        for (pod, answer) in answers {
            match answer {
                Ok(()) => {
                    outcome.deleted += 1;
                    outcome.deleted_ready += i64::from(pod.value.ready);
                }
                Err(status) => {
                    failure.get_or_insert(status);
                }
            }
        }
        if !plan.create.is_empty() {
            let (created, refusal) = self.create(job, plan).await;
            outcome.created = created;
            failure = failure.or(refusal);
        }
        (outcome, failure)
    }

    /// Deletes a pod that the Job does not need any more.
    async fn delete(&self, job: &Item<Job>, pod: &Pod, release: bool) -> Result<(), Status> {
        if release && !self.release(job, pod).await? {
            return Ok(());
        }
        let about = write::about(self.job, &job.meta);
        let only = DeleteOptions::uid(pod.meta.uid.0.clone());
        match self.env.client.delete(self.pod, pod.meta.namespace(), pod.meta.name(), only).await {
            Ok(_) => {
                self.own.deleted(job.key(), &self.pods, pod.key().clone(), pod.meta.uid.clone());
                self.env.recorder.normal(&about, "SuccessfulDelete", format!("Deleted pod: {}", pod.meta.name()));
                Ok(())
            }
            Err(status) if status.is_not_found() => Ok(()),
            Err(status) => {
                self.env.recorder.warning(&about, "FailedDelete", format!("Error deleting: {}", status.message));
                Err(status)
            }
        }
    }

    /// Removes the tracking finalizer from a pod; returns whether the pod still exists.
    async fn release(&self, job: &Item<Job>, pod: &Pod) -> Result<bool, Status> {
        let uid = &pod.meta.uid;
        let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING], "uid": uid.as_str()}});
        match write::patch_metadata(&self.env.client, self.pod, &pod.meta, &patch).await {
            Ok(object) => {
                self.memory.release(job.key(), uid, Some(object.revision));
                self.own.wrote(job.key(), &self.pods, object.revision);
                Ok(true)
            }
            Err(status) if status.is_not_found() => {
                self.memory.release(job.key(), uid, None);
                Ok(false)
            }
            Err(status) => Err(status),
        }
    }

    /// Creates pods in growing batches; returns the number of created pods and the first failure.
    async fn create(&self, job: &Item<Job>, plan: &Plan<'_>) -> (i64, Option<Status>) {
        let (client, about) = (&self.env.client, write::about(self.job, &job.meta));
        let pods = match write::current(client, self.job, &job.meta).await {
            Ok(whole) => {
                let pod = |new: &New| template::pod((self.job, self.pod), job, &whole, *new);
                plan.create.iter().map(pod).collect::<Result<Vec<Obj>, Status>>()
            }
            Err(status) => Err(status),
        };
        let pods = match pods {
            Ok(pods) => pods,
            Err(status) => return (0, Some(status)),
        };
        let (mut created, mut failure) = (0, None);
        for answer in self.creates.create(&job.meta, &pods.iter().collect::<Vec<_>>()).await {
            match answer {
                Ok(object) => {
                    created += 1;
                    self.own.wrote(job.key(), &self.pods, object.revision);
                    self.env.recorder.normal(&about, "SuccessfulCreate", format!("Created pod: {}", object.name()));
                }
                // Pods cannot be created in a namespace that is being deleted; the Job is deleted with the namespace.
                Err(status) if status.cause("NamespaceTerminating").is_some() => {}
                Err(status) => {
                    self.env.recorder.warning(&about, "FailedCreate", format!("Error creating: {}", status.message));
                    failure.get_or_insert(status);
                }
            }
        }
        (created, failure)
    }

    /// Writes the status, removes the finalizers of the pods entered in it, and writes the resulting counts. Returns whether the Job is finished.
    pub(super) async fn keep_books(
        &self,
        snapshot: &Snapshot<'_>,
        mut open: Open<'_>,
        now: Time,
    ) -> Result<bool, Status> {
        let job = snapshot.job;
        let mut written = None;
        if open.status != job.value.status {
            written = self.report(job, None, &open.status).await?;
            if written.is_none() {
                return Ok(true);
            }
            if let Some(suspend_change) = open.suspend_change {
                let (reason, message) = match suspend_change {
                    SuspendChange::Suspended => ("Suspended", "Job suspended"),
                    SuspendChange::Resumed => ("Resumed", "Job resumed"),
                };
                self.env.recorder.normal(&write::about(self.job, &job.meta), reason, message);
            }
        }
        self.memory.entered(job, &open.status, snapshot.backoff);
        let entered = open.status.clone();
        let (mut released, mut failure) = (BTreeSet::new(), None);
        let calls = open.release.iter().map(|pod| async move { (*pod, self.release(job, pod).await) });
        for (pod, answer) in write::all(calls).await {
            match answer {
                Ok(_) => {
                    released.insert(pod.meta.uid.clone());
                }
                Err(status) => {
                    failure.get_or_insert(status);
                }
            }
        }
        let finished = open.close(snapshot, &released, now);
        if open.status != entered && self.report(job, written, &open.status).await?.is_some() && finished {
            self.send_events(job, &open);
        }
        failure.map_or(Ok(finished), Err)
    }

    /// Replaces the cached status, or the status of the last write; `None` if the Job is deleted.
    async fn report(&self, job: &Item<Job>, last: Option<Object>, status: &JobState) -> Result<Option<Object>, Status> {
        let change = |object: &mut Obj| state(object, status);
        let written = match last {
            Some(last) => write::change_status(&self.env, self.job, last.obj()?, change).await,
            None => write::update_status(&self.env, self.job, &job.meta, change).await,
        };
        match written {
            Ok(object) => {
                self.own.wrote(job.key(), &self.jobs, object.revision);
                Ok(Some(object))
            }
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Sends the Events about a Job's end, suspension or resumption.
    fn send_events(&self, job: &Item<Job>, open: &Open<'_>) {
        let (recorder, about) = (&self.env.recorder, write::about(self.job, &job.meta));
        let Some(verdict) = &open.verdict else { return };
        if !verdict.success {
            recorder.warning(&about, &verdict.reason, verdict.message.as_str());
            return;
        }
        if job.value.completions.is_some_and(|completions| open.status.succeeded > completions) {
            let message = "Too many succeeded pods running after completion count reached";
            recorder.warning(&about, "TooManySucceededPods", message);
        }
        recorder.normal(&about, "Completed", "Job completed");
    }
}

fn state(object: &mut Obj, status: &JobState) {
    let time = |at: Option<Time>| at.map_or(Value::Null, |at| Value::from(at.to_string()));
    let uids = |uids: &[Uid]| Value::from_iter(uids.iter().map(|uid| Value::from(uid.as_str())));
    let uncounted = [("succeeded", uids(&status.uncounted_succeeded)), ("failed", uids(&status.uncounted_failed))];
    let conditions = status.conditions.iter().map(|one| one.write(batch_v1::JobCondition::TYPE));
    for (name, value) in [
        ("active", Value::from(status.active)),
        ("ready", Value::from(status.ready.unwrap_or(0))),
        ("terminating", Value::from(status.terminating.unwrap_or(0))),
        ("succeeded", Value::from(status.succeeded)),
        ("failed", Value::from(status.failed)),
        ("startTime", time(status.started)),
        ("completionTime", time(status.completed)),
        ("completedIndexes", Value::from(status.completed_indexes.clone())),
        ("failedIndexes", status.failed_indexes.clone().map_or(Value::Null, Value::from)),
        ("uncountedTerminatedPods", Value::Struct(write::node(batch_v1::UncountedTerminatedPods::TYPE, uncounted))),
        ("conditions", Value::from_iter(conditions)),
    ] {
        object.set_at(&["status", name], value);
    }
}
