//! Reports results to users: Events, and the `PodScheduled` condition of waiting pods.
//!
//! A condition is written only if it differs from the pod's current one, in bounded number at a time; of several
//! texts about one pod only the last one is written. The write carries the claim under which the pod was scheduled, so
//! that a process that has lost the pod's shard cannot write. The API server itself writes the condition of pods that are
//! held by scheduling gates, when they are created.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use oarlock_client::{Client, Fence, fence};
use oarlock_informer::{Cache, ObjectRef, Recorder};
use oarlock_mesh::Claim;
use oarlock_meta::Status;
use oarlock_runtime::{Failure, LoopCtx, TaskError};
use oarlock_seeded_bug::seeded_bug;

use crate::model::{PodInfo, Uid};
use crate::project::PodView;
use crate::texts;

use super::condition::Condition;
use super::duties::Duties;
use super::names::namespace;

/// Bound of concurrent condition writes.
const MAX_WRITES: usize = 32;

/// Why a condition was not written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    /// The API refused the write.
    #[error(transparent)]
    Refused(#[from] Status),
    /// The task of the write ended without a result.
    #[error(transparent)]
    Task(#[from] TaskError),
}

/// The result of one condition write.
pub(super) struct Written {
    pod: Arc<PodInfo>,
    result: Result<(), WriteError>,
    /// The claim under which the condition was written.
    fence: Option<Fence>,
}

/// Writer of Events and `PodScheduled` conditions.
pub(super) struct Reporter {
    client: Client,
    recorder: Recorder,
    pods: Arc<Cache<PodView>>,
    order: VecDeque<Uid>,
    waiting: BTreeMap<Uid, Condition>,
    writes: FuturesUnordered<BoxFuture<'static, Written>>,
}

/// Returns the reference to a pod that Events carry.
pub(super) fn about(pod: &PodInfo) -> ObjectRef {
    ObjectRef {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: (*namespace(pod)).into(),
        name: (*pod.name).into(),
        uid: (*pod.uid).into(),
        resource_version: pod.version.to_string().into(),
        field_path: Default::default(),
    }
}

impl Reporter {
    /// Returns a writer that compares new conditions with those in the cache `pods`.
    pub(super) fn new(client: Client, recorder: Recorder, pods: Arc<Cache<PodView>>) -> Self {
        let (order, waiting, writes) = (VecDeque::new(), BTreeMap::new(), FuturesUnordered::new());
        Self { client, recorder, pods, order, waiting, writes }
    }

    /// Reports that this process has bound a pod.
    pub(super) fn bound(&mut self, pod: &PodInfo, node: &str) {
        self.waiting.remove(&pod.uid);
        let text = format!("Successfully assigned {}/{} to {node}", namespace(pod), pod.name);
        self.recorder.normal(&about(pod), "Scheduled", text);
    }

    /// Drops a pod's pending condition because another process has bound the pod and reports so.
    pub(super) fn settled(&mut self, pod: &PodInfo) {
        self.waiting.remove(&pod.uid);
    }

    /// Reports that no node fits a pod. `denominated` also clears the pod's nomination.
    pub(super) fn unschedulable(&mut self, claim: &Claim, pod: &Arc<PodInfo>, message: String, denominated: bool) {
        self.failure(claim, pod, ("Unschedulable", message), denominated);
    }

    /// Reports that an attempt failed for a reason other than the pod's constraints.
    pub(super) fn failed(&mut self, claim: &Claim, pod: &Arc<PodInfo>, message: String) {
        self.failure(claim, pod, ("SchedulerError", message), false);
    }

    /// Reports that a pod was skipped because it is being deleted.
    pub(super) fn skipped(&mut self, claim: &Claim, pod: &PodInfo) {
        self.waiting.remove(&pod.uid);
        if pod.terminating {
            let text = format!("skip schedule deleting pod: {}/{}", namespace(pod), pod.name);
            self.recorder.under(claim.fence.clone()).warning(&about(pod), "FailedScheduling", text);
        }
    }

    fn failure(
        &mut self,
        claim: &Claim,
        pod: &Arc<PodInfo>,
        (reason, message): (&'static str, String),
        denominated: bool,
    ) {
        self.recorder.under(claim.fence.clone()).warning(&about(pod), "FailedScheduling", texts::note(&message));
        let condition = Condition { pod: Arc::clone(pod), claim: claim.clone(), reason, message, denominated };
        match self.waiting.get_mut(&pod.uid) {
            // A pending request to clear the nomination must not be lost with the replaced condition.
            Some(waiting) => *waiting = Condition { denominated: denominated || waiting.denominated, ..condition },
            None => {
                self.waiting.insert(Arc::clone(&pod.uid), condition);
                self.order.push_back(Arc::clone(&pod.uid));
            }
        }
    }

    /// Starts the next condition writes, except those whose claims this process has lost.
    pub(super) fn send(&mut self, ctx: &LoopCtx, duties: &Duties) -> Result<(), Failure> {
        while let Some(Some(written)) = self.writes.next().now_or_never() {
            written.done(duties);
        }
        while self.writes.len() < MAX_WRITES {
            let Some(uid) = self.order.pop_front() else { break };
            let Some(condition) = self.waiting.remove(&uid) else { continue };
            if !duties.holds(&condition.claim) {
                continue;
            }
            let pod = Arc::clone(&condition.pod);
            let known = self.pods.named(&namespace(&pod), &pod.name);
            let Some(patch) = known.and_then(|known| condition.patch(&known.value)) else { continue };
            let fence = if seeded_bug!("told_without_claim") { None } else { condition.claim.fence.clone() };
            let client = self.client.clone();
            let write = async move { condition.say(&client, patch).await };
            let task = ctx.spawn("condition", fence::scope(fence.clone(), write))?;
            self.writes.push(
                async move {
                    let result = task.await.map_err(WriteError::from);
                    Written { pod, result: result.and_then(|written| Ok(written?)), fence }
                }
                .boxed(),
            );
        }
        Ok(())
    }

    /// Waits until a write has ended; waits forever while no write is in progress. Cancel safe.
    pub(super) async fn progress(&mut self) -> Written {
        match self.writes.next().await {
            Some(written) => written,
            None => std::future::pending().await,
        }
    }
}

impl Written {
    /// Logs a failure, and reports a lost claim to `duties`.
    pub(super) fn done(self, duties: &Duties) {
        let Err(error) = self.result else { return };
        // The next attempt, here or by the shard's new holder, writes the condition again.
        tracing::info!(pod = &*self.pod.name, %error, "condition of a waiting pod not written");
        if let (WriteError::Refused(status), Some(fence)) = (&error, &self.fence)
            && status.is_stale_owner()
        {
            duties.lost(fence);
        }
    }
}
