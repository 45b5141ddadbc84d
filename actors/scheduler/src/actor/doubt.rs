//! What became of a binding whose answer is lost.
//!
//! The write may still be on its way: that the pod has no node proves nothing. But of all bindings of a pod one succeeds at most, so the same one is
//! made again until an answer leaves no doubt, and the room is kept meanwhile. A claim that is refused leaves none either: nothing more arrives under
//! it, and who decides next waits for caches that show what had arrived.
//!
//! Where no try is answered so, no more are made. What was sent has its time to arrive, and then the pod tells.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use oarlock_client::{Client, Fence, fence};
use oarlock_informer::Project;
use oarlock_meta::Status;
use oarlock_runtime::clock;
use oarlock_runtime::kind::Backoff;
use parking_lot::Mutex;

use crate::model::PodInfo;
use crate::project::PodView;

use super::condition::pods;
use super::{Set, namespace, text};

/// How often it is made again.
const MAX_TRIES: u32 = 10;
/// The pauses before.
const RETRY_BACKOFF: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(5) };
/// After so long nothing that was sent is written any more: three times what servers give a request by default, here and upstream.
const REQUEST_EXPIRY: Duration = Duration::from_secs(180);

/// What a pod shows of its binding to a node.
enum Shown {
    Bound,
    /// It has another node, is being deleted or is no more: whatever arrives is refused.
    Never,
    NotYet,
}

/// Ends when it is certain whether the pod is bound to the node; an error says that it is not and will not be, by what was sent until now.
pub(super) async fn settle(client: &Client, pod: &PodInfo, node: &str, mut last: Status) -> Result<(), Status> {
    tracing::info!(pod = &*pod.name, node, status = %last, "binding of unknown outcome, made again");
    for tried in 1..=MAX_TRIES {
        clock::sleep(RETRY_BACKOFF.pause(tried)).await;
        match client.bind(&namespace(pod), &pod.name, &pod.uid, node).await {
            Ok(()) => return Ok(()),
            Err(status) if status.is_stale_owner() => return Err(status),
            Err(status) => last = status,
        }
        match show(client, pod, node).await {
            Ok(Shown::Bound) => return Ok(()),
            Ok(Shown::Never) => return Err(last),
            Ok(Shown::NotYet) | Err(_) => {}
        }
    }
    tracing::warn!(pod = &*pod.name, node, status = %last, "binding of unknown outcome, its room is kept");
    clock::sleep(REQUEST_EXPIRY).await;
    loop {
        match show(client, pod, node).await {
            Ok(Shown::Bound) => return Ok(()),
            Ok(Shown::Never | Shown::NotYet) => return Err(last),
            Err(status) => tracing::warn!(pod = &*pod.name, node, %status, "what became of a binding is not to be had"),
        }
        clock::sleep(RETRY_BACKOFF.max).await;
    }
}

async fn show(client: &Client, pod: &PodInfo, node: &str) -> Result<Shown, Status> {
    let Some(found) = client.find(pods()?, &namespace(pod), &pod.name).await? else { return Ok(Shown::Never) };
    let found = PodView::project(&found.obj()?).info;
    Ok(match found.node {
        _ if found.uid != pod.uid => Shown::Never,
        Some(other) if *text(other) == *node => Shown::Bound,
        None if !found.terminating => Shown::NotYet,
        _ => Shown::Never,
    })
}

/// Bindings that an incarnation has left open, for the one that comes after it.
#[derive(Default)]
pub(super) struct OpenBindings(Mutex<Vec<Binding>>);

#[derive(Clone)]
struct Binding {
    pod: Arc<PodInfo>,
    node: Arc<str>,
    fence: Option<Fence>,
}

impl OpenBindings {
    /// Ends when it is certain of each whether it was made.
    pub(super) async fn settle(&self, client: &Client) {
        let open = self.0.lock().clone();
        let each = open.iter().map(|Binding { pod, node, fence }| {
            let last = Status::timeout("whoever waited has failed", 0);
            fence::scope(fence.clone(), settle(client, pod, node, last))
        });
        for (binding, settled) in open.iter().zip(join_all(each).await) {
            tracing::info!(
                pod = &*binding.pod.name,
                node = &*binding.node,
                ?settled,
                "outcome of an open binding determined"
            );
        }
        self.0.lock().clear();
    }
}

/// A binding under way. Whoever drops it before its end leaves it open.
pub(super) struct BindingGuard {
    set: Arc<Set>,
    binding: Option<Binding>,
}

impl BindingGuard {
    pub(super) fn new(set: &Arc<Set>, pod: &Arc<PodInfo>, node: &Arc<str>, fence: Option<&Fence>) -> Self {
        let binding = Binding { pod: Arc::clone(pod), node: Arc::clone(node), fence: fence.cloned() };
        Self { set: Arc::clone(set), binding: Some(binding) }
    }

    /// It is certain what became of it.
    pub(super) fn close(mut self) {
        self.binding = None;
    }
}

impl Drop for BindingGuard {
    fn drop(&mut self) {
        self.set.open_bindings.0.lock().extend(self.binding.take());
    }
}
