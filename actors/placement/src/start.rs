//! Starts the placement of a process: its member, follower, presence and coordinator actors.

use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_bus::Bus;
use oarlock_client::Client;
use oarlock_informer::SharedInformers;
use oarlock_mesh::{Placement, Unit};
use oarlock_meta::Status;
use oarlock_runtime::System;
use oarlock_schema::resource;

use crate::crew::Crew;
use crate::{coordinator, follower, member, presence};

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
    system
        .spawn_loop(&follower::FOLLOWER, options.role, move |ctx| follower::run(ctx, one.clone(), holder.clone()))
        .await?;
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
