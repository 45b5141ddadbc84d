//! Starts the placement of a process: its member, follower, presence and coordinator actors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use oarlock_bus::Bus;
use oarlock_client::{Client, RawReply, RawRequest, decode};
use oarlock_informer::{Cache, Notice, Selection, SharedInformers};
use oarlock_mesh::{Holder, Placement, Unit};
use oarlock_meta::{LabelSelector, MicroTime, Revision, Status};
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, System, Watched, clock};
use oarlock_schema::{Resource, Str, resource};
use serde_json::json;

use crate::view::{AssignmentView, LeaseView, NAMESPACE, ROLE};
use crate::{coordinator, member, metrics, presence};

/// The actor kind of followers of the Assignments.
pub(crate) static FOLLOWER: ActorKind =
    ActorKind { name: "placement.follower", phase: Phase::Informers, ..ActorKind::DEFAULT };

/// The pause between two attempts to reach an API server.
const DISCOVERY_RETRY: Duration = Duration::from_secs(1);
/// The time between two warnings of an actor that waits for its caches.
const SYNC_WARN_INTERVAL: Duration = Duration::from_secs(10);
/// The most changed keys that wait for a subscriber.
const MAX_PENDING_CHANGES: usize = 1024;

/// The role, units and identity of a process that takes part in placement.
#[derive(Clone, Debug)]
pub struct Options {
    /// The process's role, such as `controllers`; the members of one role share its units.
    pub role: &'static str,
    /// The units of the role; must be the same for all members.
    pub units: Vec<Unit>,
    /// The units whose work has effects outside of the API: such a unit moves only when its holder has certainly stopped.
    pub outside: Vec<Unit>,
    /// The process's unique [name](oarlock_mesh::member_name).
    pub name: String,
    /// The bus on which members exchange heartbeats; without a bus only Leases show which members are alive.
    pub bus: Option<Bus>,
}

/// Why placement could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The schema lacks a resource.
    #[error("schema")]
    Schema(#[from] Status),
    /// The runtime refused an actor.
    #[error("placement actor")]
    Spawn(#[from] oarlock_runtime::Error),
}

/// The state that the placement actors of a process share.
pub(crate) struct Crew {
    pub(crate) client: Client,
    informers: SharedInformers,
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

/// Makes this process a member of its role and returns its placement, which holds no unit at first. `client` is the role's identity
/// (`system:kube-controller-manager`, `system:kube-scheduler`). If the server has no Assignments (upstream's), the process holds every unit, and the role
/// must have only one process.
///
/// # Errors
/// [`Error`].
pub fn start(system: &System, client: Client, options: Options) -> BoxFuture<'_, Result<Placement, Error>> {
    Box::pin(join(system, client, options))
}

async fn join(system: &System, client: Client, options: Options) -> Result<Placement, Error> {
    let find = |group, plural| {
        resource(group, "v1", plural).ok_or_else(|| Status::internal_error(format!("the schema has no {plural}")))
    };
    let crew = Arc::new(Crew {
        informers: SharedInformers::new(system.clone(), client.clone(), "placement"),
        client,
        role: options.role,
        me: options.name.into(),
        units: options.units,
        outside: options.outside,
        speaks: options.bus.is_some(),
        leases: find("coordination.k8s.io", "leases")?,
        assignments: find("oarlock.dev", "assignments")?,
        silent: Arc::default(),
    });
    tracing::info!(role = crew.role, member = crew.me.as_str(), "joins the crew");
    let (holder, placement) = Placement::shared();
    let (one, two, three) = (crew.clone(), crew.clone(), crew);
    let standing = holder.clone();
    system.spawn_loop(&FOLLOWER, options.role, move |ctx| follow(ctx, one.clone(), holder.clone())).await?;
    system
        .spawn_loop(&member::MEMBER, options.role, move |ctx| member::run(ctx, two.clone(), standing.clone()))
        .await?;
    if let Some(bus) = options.bus {
        let hearer = three.clone();
        let run = move |ctx| presence::run(ctx, hearer.clone(), bus.clone());
        system.spawn_loop(&presence::PRESENCE, options.role, run).await?;
    }
    system.spawn_loop(&coordinator::COORDINATOR, options.role, move |ctx| coordinator::run(ctx, three.clone())).await?;
    Ok(placement)
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

/// Keeps the process's placement equal to the Assignments.
async fn follow(ctx: LoopCtx, crew: Arc<Crew>, holder: Holder) -> Result<(), Failure> {
    if !crew.is_served(&ctx).await {
        if !ctx.is_stopping() {
            tracing::warn!(role = crew.role, "the API server knows no Assignments: run only one process of this role");
            holder.set_everything();
        }
        return stopped(&ctx).await;
    }
    let (_, assignments) = crew.caches().await?;
    let mut changes = assignments.subscribe(MAX_PENDING_CHANGES);
    if !crew.synced(&ctx).await {
        return Ok(());
    }
    loop {
        let of_role = |name: &str| crew.units.iter().find(|unit| unit.as_str() == name).cloned();
        let (mut held, mut held_by_any) = (BTreeMap::new(), BTreeMap::new());
        for assignment in assignments.list() {
            let Some(unit) = of_role(assignment.meta.name()) else { continue };
            if assignment.value.holder == crew.me {
                held.insert(unit.clone(), assignment.meta.revision);
            }
            held_by_any.insert(unit, assignment.meta.revision);
        }
        ctx.publish(&held.iter().map(|(unit, epoch)| (unit.as_str(), epoch.get())).collect::<BTreeMap<_, _>>());
        metrics::held(crew.role, &crew.units, &held);
        holder.set_among(held, held_by_any);
        match ctx.or_stop(changes.next()).await {
            None => return Ok(()),
            Some(Notice::Resync | Notice::Changes(_)) => {}
        }
    }
}
