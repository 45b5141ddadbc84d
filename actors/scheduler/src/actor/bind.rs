//! Performs the writes of one binding or preemption as a gated task.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use oarlock_client::{Client, fence};
use oarlock_informer::Recorder;
use oarlock_mesh::Claim;
use oarlock_meta::Status;
use oarlock_runtime::{LoopCtx, clock};
use oarlock_seeded_bug::seeded_bug;

use crate::framework::Call;
use crate::model::PodInfo;

use super::doubt::BindingGuard;
use super::names::namespace;
use super::outcome::{Done, Origin, Outcome, Unbound};
use super::set::Set;
use super::{doubt, evict, spans};

const BIND: &str = "running Bind plugin \"DefaultBinder\"";
const PREEMPT: &str = "preemption";
/// Bound of the time that all writes of one preemption may take together. After it the failure is reported and the pod is scheduled again, as after every failed
/// preemption. Twice the time that the client waits for one answer, so that one lost answer does not end a preemption.
pub const PREEMPTION_DEADLINE: Duration = Duration::from_secs(60);

/// Starts the writes. The returned future yields their outcome, or never completes if the incarnation is stopped meanwhile.
pub(super) fn start(
    ctx: &LoopCtx,
    set: &Arc<Set>,
    claim: &Claim,
    (origin, pod, node): (Origin, Arc<PodInfo>, Arc<str>),
    calls: Vec<Call>,
) -> BoxFuture<'static, Outcome> {
    let (claimed, own) = (claim.fence.clone(), ctx.clone());
    let binds = calls.iter().any(|call| matches!(call, Call::Bind));
    let open = binds.then(|| BindingGuard::new(&set.open_bindings, &pod, &node, claimed.as_ref()));
    let (began, bind_began) = (if binds { spans::begin() } else { None }, clock::now());
    let shared = Arc::clone(set);
    let task = {
        let (set, own, pod, node) = (Arc::clone(set), ctx.clone(), Arc::clone(&pod), Arc::clone(&node));
        let writes = async move { perform(&own, (&set.client, &set.recorder), &pod, &node, &calls).await };
        ctx.spawn("bind", fence::scope(claimed.clone(), writes))
    };
    async move {
        let result = match task {
            Ok(task) => match task.await {
                Ok(Ok(done)) => Ok(done),
                // An interrupted binding may still take effect, so the pod's room stays reserved.
                _ if own.is_stopping() => {
                    spans::interrupted(&pod, &node, began);
                    return std::future::pending().await;
                }
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
        if binds {
            shared.metrics.bind(result.is_ok(), bind_began.elapsed());
        }
        spans::bound(&pod, &node, began, &result);
        Outcome { origin, pod, node, result }
    }
    .boxed()
}

/// Performs the calls in order. An error names the failed step, and the pod's revision if its nomination was written before.
async fn perform(
    ctx: &LoopCtx,
    (client, recorder): (&Client, &Recorder),
    pod: &PodInfo,
    node: &str,
    calls: &[Call],
) -> Result<Done, (&'static str, Status, Option<u64>)> {
    let (mut nominated, deadline) = (None, clock::after(PREEMPTION_DEADLINE));
    for call in calls {
        let done = if matches!(call, Call::Bind) {
            bind(ctx, client, pod, node).await.map_err(|status| (BIND, status))
        } else {
            let writes = preempt((client, recorder), pod, node, call, &mut nominated);
            let late = |_| Err(Status::timeout("no answer to the writes of the preemption", 0));
            clock::timeout_at(deadline, writes).await.unwrap_or_else(late).map_err(|status| (PREEMPT, status))
        };
        done.map_err(|(step, status)| (step, status, nominated))?;
    }
    Ok(nominated.map_or(Done::Bound, Done::Nominated))
}

/// Performs a call of a preemption; sets `nominated` to the pod's revision with its nomination.
async fn preempt(
    (client, recorder): (&Client, &Recorder),
    pod: &PodInfo,
    node: &str,
    call: &Call,
    nominated: &mut Option<u64>,
) -> Result<(), Status> {
    match call {
        Call::Bind => {}
        Call::Nominate => *nominated = Some(evict::nominate(client, pod, node).await?),
        Call::Denominate(others) => evict::denominate(client, others, node).await,
        Call::Evict(victims) => evict::evict((client, recorder), pod, node, victims).await?,
    }
    Ok(())
}

async fn bind(ctx: &LoopCtx, client: &Client, pod: &PodInfo, node: &str) -> Result<(), Status> {
    match client.bind(&namespace(pod), &pod.name, &pod.uid, node).await {
        Err(status) if status.has_unknown_outcome() && !seeded_bug!("room_given_back_on_lost_answer") => {
            tokio::select! {
                biased;
                () = ctx.cancelled() => Err(status),
                settled = doubt::settle(client, pod, node, status.clone()).boxed() => settled,
            }
        }
        result => result,
    }
}
