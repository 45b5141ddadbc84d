//! Telling users: Events, and the `PodScheduled` condition of pods that wait.
//!
//! A condition is written when it says something new, a few at a time; of several texts about one pod only the
//! last is written. It is written under the claim under which the pod was looked at, so that who has lost the pod's
//! shard says nothing about it. That a pod is held by scheduling gates is said by the apiserver when the pod is created.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use oarlock_client::{Client, Fence, fence};
use oarlock_informer::{Cache, ObjectRef, Recorder};
use oarlock_mesh::Claim;
use oarlock_runtime::{Failure, LoopCtx};
use oarlock_seeded_bug::seeded_bug;

use crate::message;
use crate::model::{PodInfo, Uid};
use crate::project::PodView;

use super::condition::Condition;
use super::duties::Duties;
use super::namespace;

/// Condition writes under way at once.
const MAX_WRITES: usize = 32;

/// A pod whose condition was written, and how that went.
pub(super) struct Written {
    pod: Arc<PodInfo>,
    result: Result<(), String>,
    /// The claim that was refused.
    stale: Option<Fence>,
}

/// Speaks to users.
pub(super) struct Teller {
    client: Client,
    recorder: Recorder,
    pods: Arc<Cache<PodView>>,
    order: VecDeque<Uid>,
    waiting: BTreeMap<Uid, Condition>,
    writes: FuturesUnordered<BoxFuture<'static, Written>>,
}

/// A pod, as Events name it.
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

impl Teller {
    /// A teller that compares with what `pods` say already.
    pub(super) fn new(client: Client, recorder: Recorder, pods: Arc<Cache<PodView>>) -> Self {
        let (order, waiting, writes) = (VecDeque::new(), BTreeMap::new(), FuturesUnordered::new());
        Self { client, recorder, pods, order, waiting, writes }
    }

    /// The pod has its node.
    pub(super) fn bound(&mut self, pod: &PodInfo, node: &str) {
        self.waiting.remove(&pod.uid);
        let text = format!("Successfully assigned {}/{} to {node}", namespace(pod), pod.name);
        self.recorder.normal(&about(pod), "Scheduled", text);
    }

    /// The pod has its node, and another process says so.
    pub(super) fn settled(&mut self, pod: &PodInfo) {
        self.waiting.remove(&pod.uid);
    }

    /// No node fits.
    pub(super) fn unschedulable(&mut self, claim: &Claim, pod: &Arc<PodInfo>, message: String, denominated: bool) {
        self.failure(claim, pod, ("Unschedulable", message), denominated);
    }

    /// The attempt failed for no fault of the pod's.
    pub(super) fn failed(&mut self, claim: &Claim, pod: &Arc<PodInfo>, message: String) {
        self.failure(claim, pod, ("SchedulerError", message), false);
    }

    /// The pod is being deleted.
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
        self.recorder.under(claim.fence.clone()).warning(&about(pod), "FailedScheduling", message::note(&message));
        let condition = Condition { pod: Arc::clone(pod), claim: claim.clone(), reason, message, denominated };
        match self.waiting.get_mut(&pod.uid) {
            // What was to be written and is not is written with it.
            Some(waiting) => *waiting = Condition { denominated: denominated || waiting.denominated, ..condition },
            None => {
                self.waiting.insert(Arc::clone(&pod.uid), condition);
                self.order.push_back(Arc::clone(&pod.uid));
            }
        }
    }

    /// Starts the next writes, of those whose claims stand.
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
                    let (result, stale) = match task.await {
                        Ok(Ok(())) => (Ok(()), false),
                        Ok(Err(status)) => (Err(status.to_string()), status.is_stale_owner()),
                        Err(error) => (Err(error.to_string()), false),
                    };
                    Written { pod, result, stale: fence.filter(|_| stale) }
                }
                .boxed(),
            );
        }
        Ok(())
    }

    /// Waits until a write has ended; for ever while none is under way. Cancel safe.
    pub(super) async fn progress(&mut self) -> Written {
        match self.writes.next().await {
            Some(written) => written,
            None => std::future::pending().await,
        }
    }
}

impl Written {
    /// Takes notice of how it went.
    pub(super) fn done(self, duties: &Duties) {
        if let Err(error) = self.result {
            // The next attempt says it again, or who has the shard now does.
            tracing::info!(pod = &*self.pod.name, error, "condition of a waiting pod not written");
        }
        if let Some(fence) = &self.stale {
            duties.lost(fence);
        }
    }
}
