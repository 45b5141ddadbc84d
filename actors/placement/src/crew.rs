//! The state that the placement actors of a process share, with the requests that more than one of them makes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::{Client, RawReply, RawRequest, decode};
use oarlock_informer::{Cache, Selection, SharedInformers};
use oarlock_mesh::Unit;
use oarlock_meta::{LabelSelector, MicroTime, Revision, Status};
use oarlock_runtime::{Failure, LoopCtx, Watched, clock};
use oarlock_schema::{Resource, Str};
use serde_json::json;

use crate::view::{AssignmentView, LeaseView, NAMESPACE, ROLE};

/// The pause between two attempts to reach an API server.
const DISCOVERY_RETRY: Duration = Duration::from_secs(1);
/// The time between two warnings of an actor that waits for its caches.
const SYNC_WARN_INTERVAL: Duration = Duration::from_secs(10);

/// The state that the placement actors of a process share.
pub(crate) struct Crew {
    pub(crate) client: Client,
    pub(crate) informers: SharedInformers,
    pub(crate) role: &'static str,
    pub(crate) me: Str,
    pub(crate) units: Vec<Unit>,
    pub(crate) outside: Vec<Unit>,
    /// Whether this process sends heartbeats on the bus.
    pub(crate) speaks: bool,
    pub(crate) leases: &'static Resource,
    pub(crate) assignments: &'static Resource,
    /// Members that are silent on the bus.
    pub(crate) silent: Arc<Watched<Arc<BTreeSet<Str>>>>,
}

impl Crew {
    /// Whether the server has the Assignment resource; waits until a server answers. `false` also when the actor is asked to stop.
    pub(crate) async fn is_served(&self, ctx: &LoopCtx) -> bool {
        loop {
            // Discovery is readable by every user; a list of Assignments could be forbidden whether they exist or not.
            let path = format!("/apis/{}", self.assignments.group_version());
            match ctx.or_stop(self.client.raw(RawRequest::get(path, self.client.timeout()))).await {
                None => return false,
                Some(Ok(RawReply { code: 200, .. })) => return true,
                Some(Ok(RawReply { code: 404, .. })) => return false,
                Some(Ok(RawReply { code, .. })) => tracing::info!(actor = ctx.name(), code, "waits for the API server"),
                Some(Err(status)) => tracing::warn!(actor = ctx.name(), %status, "waits for the API server"),
            }
            if !ctx.sleep(DISCOVERY_RETRY).await {
                return false;
            }
        }
    }

    /// Assigns a unit to a member if the Assignment is still at `epoch` (`None`: does not exist). Returns the new epoch.
    ///
    /// # Errors
    /// 409 when the Assignment has changed; else the server's Status.
    pub(crate) async fn assign(&self, unit: &str, to: &str, epoch: Option<Revision>) -> Result<Revision, Status> {
        let resource = self.assignments;
        let now = MicroTime::from_unix_micros(clock::wall().as_microsecond()).to_string();
        let Some(epoch) = epoch else {
            let spec = json!({"holderIdentity": to, "acquireTime": now});
            let object = json!({"metadata": {"name": unit}, "spec": spec}).to_string();
            return Ok(self.client.create(resource, decode(resource.ty, object.as_bytes())?).await?.revision);
        };
        let mut object = self.client.get(resource, "", unit).await?.obj()?;
        let transitions = object.at(&["spec", "transitions"]).and_then(|n| n.as_int()).unwrap_or(0);
        object.set_at(&["spec", "holderIdentity"], to);
        object.set_at(&["spec", "acquireTime"], now);
        object.set_at(&["spec", "transitions"], transitions.saturating_add(1));
        if let Some(mut meta) = object.meta_mut() {
            meta.set_resource_version(epoch.to_string());
        }
        Ok(self.client.update(resource, object).await?.revision)
    }

    /// Returns the caches of the role's Leases and of all Assignments.
    ///
    /// # Errors
    /// When the informers cannot be started.
    pub(crate) async fn caches(
        &self,
    ) -> Result<(Arc<Cache<LeaseView>>, Arc<Cache<AssignmentView>>), oarlock_informer::Error> {
        let labels = LabelSelector::from_labels([(ROLE, self.role)]);
        let of_role = Selection { labels, ..Selection::namespace(NAMESPACE) };
        Ok((self.informers.select(of_role).await?, self.informers.all().await?))
    }

    /// Waits until the caches are synced; `false` when the actor is asked to stop first.
    pub(crate) async fn synced(&self, ctx: &LoopCtx) -> bool {
        loop {
            match ctx.or_stop(self.informers.synced(clock::after(SYNC_WARN_INTERVAL))).await {
                None => return false,
                Some(Ok(())) => return true,
                Some(Err(error)) => tracing::warn!(actor = ctx.name(), %error, "waits for its caches"),
            }
            ctx.heartbeat();
        }
    }
}

/// Waits until the actor is asked to stop.
pub(crate) async fn stopped(ctx: &LoopCtx) -> Result<(), Failure> {
    ctx.or_stop(std::future::pending::<()>()).await;
    Ok(())
}
