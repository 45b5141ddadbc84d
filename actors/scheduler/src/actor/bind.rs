//! One binding: the writes of a decision, as a gated task.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use oarlock_client::{Client, Fence, fence};
use oarlock_mesh::Claim;
use oarlock_meta::Status;
use oarlock_runtime::LoopCtx;
use oarlock_schema::resource;
use oarlock_schema::views::core_v1::Pod;

use crate::framework::Call;
use crate::model::PodInfo;
use crate::queue::Popped;

use super::hearing::Slot;
use super::namespace;

/// Why a binding failed.
#[derive(Debug)]
pub(super) struct Unbound {
    /// What users are told.
    pub(super) text: String,
    /// The pod is no more, so there is nobody to tell.
    pub(super) gone: bool,
    /// Somebody else decides now: the claim that was refused.
    pub(super) stale: Option<Fence>,
}

/// On whose behalf a binding is made.
#[derive(Clone, Debug)]
pub(super) enum Whose {
    /// Of this process's own queue.
    Own(Popped),
    /// Of a proposal; the verdict goes there.
    Proposed(Slot),
}

/// What came of a binding.
#[derive(Debug)]
pub(super) struct Outcome {
    /// On whose behalf.
    pub(super) whose: Whose,
    /// The pod.
    pub(super) pod: Arc<PodInfo>,
    /// The node.
    pub(super) node: Arc<str>,
    /// Whether it is bound.
    pub(super) result: Result<(), Unbound>,
}

/// Starts the writes. The future ends with their outcome, whatever becomes of the task.
pub(super) fn start(
    ctx: &LoopCtx,
    client: &Client,
    claim: &Claim,
    (whose, pod, node): (Whose, Arc<PodInfo>, Arc<str>),
    calls: Vec<Call>,
) -> BoxFuture<'static, Outcome> {
    let claimed = claim.fence.clone();
    let task = {
        let (client, pod, node) = (client.clone(), Arc::clone(&pod), Arc::clone(&node));
        let writes = async move { perform(&client, &pod, &node, &calls).await };
        ctx.spawn("bind", fence::scope(claimed.clone(), writes))
    };
    async move {
        let result = match task {
            Ok(task) => match task.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(status)) => Err(Unbound {
                    text: format!("running Bind plugin \"DefaultBinder\": {status}"),
                    gone: status.is_not_found(),
                    stale: claimed.filter(|_| status.is_stale_owner()),
                }),
                Err(error) => Err(Unbound { text: error.to_string(), gone: false, stale: None }),
            },
            Err(closed) => Err(Unbound { text: closed.to_string(), gone: true, stale: None }),
        };
        Outcome { whose, pod, node, result }
    }
    .boxed()
}

async fn perform(client: &Client, pod: &PodInfo, node: &str, calls: &[Call]) -> Result<(), Status> {
    for call in calls {
        match call {
            Call::Bind => bind(client, pod, node).await?,
        }
    }
    Ok(())
}

async fn bind(client: &Client, pod: &PodInfo, node: &str) -> Result<(), Status> {
    let namespace = namespace(pod);
    match client.bind(&namespace, &pod.name, &pod.uid, node).await {
        Err(status) if status.code >= 500 => {
            // The server may have done it all the same: the pod tells.
            if is_bound(client, pod, &namespace, node).await { Ok(()) } else { Err(status) }
        }
        result => result,
    }
}

async fn is_bound(client: &Client, pod: &PodInfo, namespace: &str, node: &str) -> bool {
    let Some(pods) = resource("", "v1", "pods") else { return false };
    let Ok(Some(object)) = client.find(pods, namespace, &pod.name).await else { return false };
    let Ok(object) = object.obj() else { return false };
    object
        .view::<Pod<'_>>()
        .is_some_and(|found| found.metadata().uid() == &*pod.uid && found.spec().node_name() == node)
}
