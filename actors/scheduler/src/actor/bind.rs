//! One binding or preemption: the writes of a decision, as a gated task.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use oarlock_client::{Client, Fence, fence};
use oarlock_informer::Recorder;
use oarlock_mesh::Claim;
use oarlock_meta::Status;
use oarlock_runtime::LoopCtx;
use oarlock_seeded_bug::seeded_bug;

use crate::engine::Unfit;
use crate::framework::Call;
use crate::model::PodInfo;
use crate::queue::Popped;

use super::doubt::BindingGuard;
use super::hearing::Slot;
use super::{Set, doubt, evict, namespace};

const BIND: &str = "running Bind plugin \"DefaultBinder\"";
const PREEMPT: &str = "preemption";

/// Why a binding or preemption failed.
#[derive(Debug)]
pub(super) struct Unbound {
    /// What users are told.
    pub(super) text: String,
    /// The pod was nominated all the same, at this revision of it; some victims may be leaving.
    pub(super) nominated: Option<u64>,
    /// The pod is no more, so there is nobody to tell.
    pub(super) unreported: bool,
    /// Somebody else decides now: the claim that was refused.
    pub(super) stale: Option<Fence>,
}

/// On whose behalf it is made.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// Of this process's own queue, to be bound.
    Own(Popped),
    /// Of this process's own queue; it fits nowhere, and others have to leave for it.
    OwnPreemption(Unfit),
    /// Of a proposal; the verdict goes there.
    Proposed(Slot),
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// The pod is bound.
    Bound,
    /// Others were told to leave for it; its revision with the nomination.
    Nominated(u64),
}

/// What came of a binding.
#[derive(Debug)]
pub(super) struct Outcome {
    /// On whose behalf.
    pub(super) origin: Origin,
    /// The pod.
    pub(super) pod: Arc<PodInfo>,
    /// The node.
    pub(super) node: Arc<str>,
    /// What is done, or why it failed.
    pub(super) result: Result<Done, Unbound>,
}

/// Starts the writes. The future ends with their outcome, unless the incarnation is over.
pub(super) fn start(
    ctx: &LoopCtx,
    set: &Arc<Set>,
    claim: &Claim,
    (origin, pod, node): (Origin, Arc<PodInfo>, Arc<str>),
    calls: Vec<Call>,
) -> BoxFuture<'static, Outcome> {
    let (claimed, own) = (claim.fence.clone(), ctx.clone());
    let binds = calls.iter().any(|call| matches!(call, Call::Bind));
    let open = binds.then(|| BindingGuard::new(set, &pod, &node, claimed.as_ref()));
    let task = {
        let (set, own, pod, node) = (Arc::clone(set), ctx.clone(), Arc::clone(&pod), Arc::clone(&node));
        let writes = async move { perform(&own, (&set.client, &set.recorder), &pod, &node, &calls).await };
        ctx.spawn("bind", fence::scope(claimed.clone(), writes))
    };
    async move {
        let result = match task {
            Ok(task) => match task.await {
                Ok(Ok(done)) => Ok(done),
                // What was cut short may be bound yet, so nothing is given back.
                _ if own.is_stopping() => return std::future::pending().await,
                Ok(Err((step, status, nominated))) => Err(Unbound {
                    text: format!("{step}: {status}"),
                    nominated,
                    unreported: status.is_not_found(),
                    stale: claimed.filter(|_| status.is_stale_owner()),
                }),
                Err(error) => Err(Unbound { text: error.to_string(), nominated: None, unreported: false, stale: None }),
            },
            Err(closed) => Err(Unbound { text: closed.to_string(), nominated: None, unreported: true, stale: None }),
        };
        if let Some(open) = open {
            open.close();
        }
        Outcome { origin, pod, node, result }
    }
    .boxed()
}

/// Performs the calls in order; an error says at which step, and at which revision the pod was nominated before.
async fn perform(
    ctx: &LoopCtx,
    (client, recorder): (&Client, &Recorder),
    pod: &PodInfo,
    node: &str,
    calls: &[Call],
) -> Result<Done, (&'static str, Status, Option<u64>)> {
    let mut nominated = None;
    for call in calls {
        let done = match call {
            Call::Bind => bind(ctx, client, pod, node).await.map_err(|status| (BIND, status)),
            Call::Nominate => {
                let written = evict::nominate(client, pod, node).await;
                written.map(|revision| nominated = Some(revision)).map_err(|status| (PREEMPT, status))
            }
            Call::Denominate(others) => {
                evict::denominate(client, others, node).await;
                Ok(())
            }
            Call::Evict(victims) => {
                let evicted = evict::evict((client, recorder), pod, node, victims).await;
                evicted.map_err(|status| (PREEMPT, status))
            }
        };
        done.map_err(|(step, status)| (step, status, nominated))?;
    }
    Ok(nominated.map_or(Done::Bound, Done::Nominated))
}

async fn bind(ctx: &LoopCtx, client: &Client, pod: &PodInfo, node: &str) -> Result<(), Status> {
    match client.bind(&namespace(pod), &pod.name, &pod.uid, node).await {
        Err(status) if status.code >= 500 && !seeded_bug!("room_given_back_on_lost_answer") => {
            tokio::select! {
                biased;
                () = ctx.cancelled() => Err(status),
                settled = doubt::settle(client, pod, node, status.clone()).boxed() => settled,
            }
        }
        result => result,
    }
}
