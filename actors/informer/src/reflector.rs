//! The reflector: an actor that keeps one cache equal to the apiserver's objects.
//!
//! The reflector asks for a watch that begins with the current objects (KEP-3157), or lists and then watches if the server does not support that.
//! After a failure the watch resumes from the last applied revision. Only a 410 answer makes the reflector start over; the cache is then replaced as
//! a whole, so that objects deleted meanwhile are reported as deleted.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use oarlock_client::{Client, ListOptions};
use oarlock_meta::{Revision, Status};
use oarlock_runtime::kind::{ActorKind, Backoff, Exhausted, OnFailure, OnShutdown, Phase};
use oarlock_runtime::{Failure, LoopCtx, clock, rng};
use oarlock_schema::Resource;
use serde::Serialize;

use crate::cache::Cache;
use crate::project::Project;
use crate::selection::Selection;

mod session;
mod target;
#[cfg(test)]
mod tests;

use session::{End, Session};
pub(crate) use target::Target;

/// Keeps `cache` current inside the caller's own actor, for callers that must not start a second actor (one kubelet of a thousand). Returns when
/// the actor is asked to stop. The reflector's state is published as the actor's state.
///
/// # Errors
/// None today.
pub async fn reflect<T: Project>(
    ctx: LoopCtx,
    client: Client,
    resource: &'static Resource,
    selection: Selection,
    cache: Arc<Cache<T>>,
) -> Result<(), Failure> {
    run(ctx, Arc::new(Source { client, resource, selection }), cache).await
}

/// The actor kind of reflectors.
pub static REFLECTOR: ActorKind = ActorKind {
    name: "informer.reflector",
    on_failure: OnFailure::Restart {
        backoff: Backoff::DEFAULT,
        max: 10,
        within: Duration::from_secs(60),
        then: Exhausted::Escalate,
    },
    on_shutdown: OnShutdown::Finish,
    phase: Phase::Informers,
    ..ActorKind::DEFAULT
};

/// The pauses between failed attempts. (client-go waits up to 30 s; the cache would be stale by that time after the end of an outage.)
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(10) };
/// A session shorter than this is followed by a pause even if the server ended the watch in good order.
const SHORT_SESSION: Duration = Duration::from_secs(1);
/// A session at least this long resets the back-off: the next failure counts as the first.
const LASTING_SESSION: Duration = Duration::from_secs(10);
/// The least `timeoutSeconds` of a watch; the most is twice as long (as client-go), so that watches spread over the servers again.
const WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// The client, resource and selection that a reflector reads.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) client: Client,
    pub(crate) resource: &'static Resource,
    pub(crate) selection: Selection,
}

impl Source {
    fn options(&self) -> ListOptions {
        ListOptions {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            ..ListOptions::default()
        }
    }
}

/// The observable state of a reflector, for operators.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Seen {
    /// The current activity.
    pub(crate) doing: &'static str,
    /// Whether the cache has had its first complete state.
    pub(crate) synced: bool,
    /// The last revision applied.
    pub(crate) revision: u64,
    /// Objects in the cache.
    pub(crate) items: usize,
    /// Watches begun so far.
    pub(crate) watches: u64,
    /// Complete states taken so far; more than one means that a revision had expired.
    pub(crate) states: u64,
    /// Objects that could not be decoded and are missing from the cache.
    pub(crate) unreadable: u64,
    /// Failed attempts since the last successful one.
    pub(crate) failures: u32,
    /// Changes received through the relay from another process, in place of a watch.
    pub(crate) told: u64,
    /// How often the reflector returned from the relay to a watch of its own.
    pub(crate) untold: u64,
    /// Whether the server streams the current objects through the watch.
    pub(crate) watch_list: bool,
    /// The error of the last failed attempt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) last_error: String,
}

/// Runs one incarnation of a reflector until the actor is asked to stop. A new incarnation resumes from the cache's revision.
pub(crate) fn run(
    ctx: LoopCtx,
    source: Arc<Source>,
    cache: Arc<dyn Target>,
) -> BoxFuture<'static, Result<(), Failure>> {
    Box::pin(incarnation(ctx, source, cache))
}

async fn incarnation(ctx: LoopCtx, source: Arc<Source>, cache: Arc<dyn Target>) -> Result<(), Failure> {
    let mut session = Session::new(ctx.clone(), source, cache);
    let (mut failures, mut expired) = (0_u32, 0_u32);
    loop {
        let began = clock::now();
        let Some(end) = ctx.or_stop(session.run()).await else { return Ok(()) };
        let lasted = began.elapsed();
        if lasted >= LASTING_SESSION {
            (failures, expired) = (0, 0);
        }
        failures = failures.saturating_add(1);
        let mut pause = rng::jitter(BACKOFF.pause(failures), 50);
        match end {
            End::Finished if lasted >= SHORT_SESSION => (failures, pause) = (0, Duration::ZERO),
            End::Finished => {}
            End::RelayEnded => {
                session.seen.untold += 1;
                (failures, pause) = (0, Duration::ZERO);
            }
            End::Expired => {
                session.resume = None;
                // A 410 is an answer: the outage during which the revision expired is over.
                expired = expired.saturating_add(1);
                (failures, pause) = (0, rng::jitter(BACKOFF.pause(expired), 50));
            }
            End::Unsupported(status) => {
                tracing::info!(actor = ctx.name(), %status, "server does not stream lists; listing");
                session.seen.watch_list = false;
                (failures, pause) = (0, Duration::ZERO);
            }
            End::Failed(status) => {
                session.seen.last_error = status.to_string();
                pause = pause.max(retry_after(&status));
                tracing::warn!(actor = ctx.name(), %status, failures, ?pause, "watch failed");
            }
        }
        session.seen.failures = failures;
        session.publish(if pause.is_zero() { "reconnecting" } else { "backing off" });
        if !ctx.sleep(pause).await {
            return Ok(());
        }
    }
}

fn retry_after(status: &Status) -> Duration {
    Duration::from_secs(status.retry_after().unwrap_or(0).into())
}

/// Returns the time after which the server is asked to end the watch.
fn watch_time() -> Duration {
    let span = u64::try_from(WATCH_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
    WATCH_TIMEOUT + Duration::from_millis(rng::below(span))
}

/// Returns the Status of a failure that the reflector itself detected.
fn broken(why: &str) -> Status {
    Status::service_unavailable(why)
}

/// Whether the failure of a list-streaming watch means that the server does not support such watches.
fn unsupported(status: &Status) -> bool {
    status.is_invalid()
        || status.is_bad_request()
        || status.is_unsupported_media_type()
        || matches!(status.code, 405 | 406 | 501)
}

/// Whether the revision asked for is too old.
fn expired(status: &Status) -> bool {
    status.is_expired() || status.is_gone()
}

/// Returns the revision from which a watch can resume; `None` before the first complete state.
fn position(cache: &dyn Target) -> Option<Revision> {
    let progress = cache.progress();
    progress.synced.then_some(progress.revision)
}
