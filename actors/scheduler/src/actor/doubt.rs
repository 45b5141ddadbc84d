//! Determines the outcome of a binding whose answer was lost.
//!
//! The request may still be in flight, so an unbound pod proves nothing. But at most one binding of a pod can succeed. The same binding is therefore sent
//! again until an answer is conclusive, and the pod's room stays reserved meanwhile. A refused claim is conclusive too: the API accepts no further write under
//! that claim, and the next arbiter waits until its caches show all earlier writes.
//!
//! If no attempt gets a conclusive answer, the attempts end. After [`REQUEST_EXPIRY`] no request can be in flight, and the pod itself shows the outcome.

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
use super::names::{namespace, text};

/// Bound of repeated attempts.
const MAX_TRIES: u32 = 10;
/// Pauses before the repeated attempts.
const RETRY_BACKOFF: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(5) };
/// Time after which the server cannot execute a sent request any more: three times the default request timeout of servers, upstream's included.
const REQUEST_EXPIRY: Duration = Duration::from_secs(180);

/// The state of a binding as the pod shows it.
enum Shown {
    Bound,
    /// The pod is bound to another node, terminating or deleted, so every later binding is refused.
    Never,
    NotYet,
}

/// Waits until it is certain whether the pod is bound to the node. An error means that the pod is not bound and that no request sent so far will bind it.
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
            Err(status) => {
                tracing::warn!(pod = &*pod.name, node, %status, "pod of a binding of unknown outcome cannot be read")
            }
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

/// Bindings without a known outcome that one incarnation leaves to the next one.
#[derive(Default)]
pub(super) struct OpenBindings(Mutex<Vec<Binding>>);

#[derive(Clone)]
struct Binding {
    pod: Arc<PodInfo>,
    node: Arc<str>,
    fence: Option<Fence>,
}

impl OpenBindings {
    /// Waits until the outcome of every open binding is certain.
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

/// Guard of a binding in progress. Dropping the guard before [`BindingGuard::close`] adds the binding to [`OpenBindings`].
pub(super) struct BindingGuard {
    open: Arc<OpenBindings>,
    binding: Option<Binding>,
}

impl BindingGuard {
    pub(super) fn new(open: &Arc<OpenBindings>, pod: &Arc<PodInfo>, node: &Arc<str>, fence: Option<&Fence>) -> Self {
        let binding = Binding { pod: Arc::clone(pod), node: Arc::clone(node), fence: fence.cloned() };
        Self { open: Arc::clone(open), binding: Some(binding) }
    }

    /// Ends the guard after the binding's outcome is certain.
    pub(super) fn close(mut self) {
        self.binding = None;
    }
}

impl Drop for BindingGuard {
    fn drop(&mut self) {
        self.open.0.lock().extend(self.binding.take());
    }
}
