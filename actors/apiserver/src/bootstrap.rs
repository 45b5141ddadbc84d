//! What is there when readyz says ok, made and kept in repair by the apiserver itself (as `system:apiserver`): namespaces, RBAC, flow
//! control, priority classes, the `kubernetes` Service, the authentication ConfigMap, this server's Lease.

mod cloud;
mod kubernetes;
mod mesh;
mod objects;
mod reconcile;

use std::time::Duration;

use oarlock_auth::UserInfo;
use oarlock_auth::user::MASTERS;
use oarlock_client::{Client, DeleteOptions};
use oarlock_meta::Status;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase};
use std::sync::Arc;

use crate::in_process::InProcess;
use crate::server::Server;

/// The row of the bootstrapper.
pub static BOOTSTRAP: ActorKind =
    ActorKind { name: "apiserver.bootstrap", phase: Phase::Announce, ..ActorKind::DEFAULT };

/// The identity Lease is renewed this often (upstream: 10 s), and with it everything is looked after.
const REPAIR_EVERY: Duration = Duration::from_secs(10);

/// While the store is out of reach.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// Makes everything, says that the server is ready, then repairs until the actor is stopped.
///
/// # Errors
/// When something cannot be made; the actor is then restarted. A store that is out of reach is no such thing: it is asked again.
pub async fn run(ctx: LoopCtx, server: Server) -> Result<(), Failure> {
    let user = UserInfo::new("system:apiserver", [MASTERS]);
    let acting_as = |agent| Client::new(Arc::new(InProcess::new(server.clone(), user.clone(), agent)));
    let client = acting_as("kube-apiserver/oarlock");
    // Upstream's flow control writes under a name of its own, by which it finds its objects again.
    let flow_control = acting_as("api-priority-and-fairness-config-producer-v1/oarlock");
    loop {
        let pause = match ctx.protected(everything(&server, &client, &flow_control)).await {
            Ok(()) => {
                server.state().set_bootstrapped();
                REPAIR_EVERY
            }
            Err(status) if matches!(status.code, 503 | 504) => {
                tracing::warn!(%status, "the store is out of reach: nothing is repaired");
                RETRY_EVERY
            }
            Err(status) => return Err(status.into()),
        };
        ctx.heartbeat();
        if !ctx.sleep(pause).await {
            return ctx.protected(leave(&server, &client)).await;
        }
    }
}

async fn everything(server: &Server, client: &Client, flow_control: &Client) -> Result<(), Status> {
    let objects = objects::all(server)?;
    let (first, rest): (Vec<_>, Vec<_>) = objects.into_iter().partition(|o| o.resource.plural == "namespaces");
    let (flow, rest): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|o| o.resource.group == "flowcontrol.apiserver.k8s.io");
    reconcile::ensure(client, first).await?;
    reconcile::ensure(client, vec![kubernetes::lease(server)?]).await?;
    // This server is now among those that it finds.
    let rest = rest.into_iter().chain(kubernetes::service(server)?).collect();
    reconcile::ensure(flow_control, flow).await?;
    reconcile::ensure(client, rest).await?;
    bury(server, client).await
}

/// Takes away the Leases of servers that have long been gone (upstream: `apiserverleasegc`).
async fn bury(server: &Server, client: &Client) -> Result<(), Status> {
    for dead in kubernetes::dead(server) {
        let (resource, namespace, name) = (dead.resource, dead.obj.namespace(), dead.obj.name());
        let options = DeleteOptions {
            uid: Some(dead.obj.meta().uid().into()),
            resource_version: Some(dead.revision),
            ..DeleteOptions::default()
        };
        match client.delete(resource, namespace, name, options).await {
            Ok(_) => tracing::info!(name, "the Lease of a server that is gone is deleted"),
            // Another server was faster, or it is back.
            Err(status) if status.is_not_found() || status.is_conflict() => {}
            Err(status) => return Err(status),
        }
    }
    Ok(())
}

/// Takes this server off the endpoints: it ends in order.
async fn leave(server: &Server, client: &Client) -> Result<(), Failure> {
    let lease = kubernetes::lease(server)?;
    let (namespace, name) = (lease.obj.namespace(), lease.obj.name());
    let gone = client.delete(lease.resource, namespace, name, DeleteOptions::default()).await;
    if let Err(status) = gone
        && !status.is_not_found()
    {
        tracing::warn!(%status, "this server's Lease is left behind");
    }
    // The last one leaves nothing that points elsewhere.
    Ok(reconcile::ensure(client, kubernetes::service(server)?).await?)
}
