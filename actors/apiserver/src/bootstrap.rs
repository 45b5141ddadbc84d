//! Creates and repairs the objects that every cluster has before `/readyz` reports ok.
//!
//! These are namespaces, RBAC, flow control, priority classes, the `kubernetes` Service, the authentication ConfigMap and this server's Lease. The
//! apiserver writes them itself, as `system:apiserver`.

mod cloud;
mod desired;
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

/// The actor that creates and repairs the bootstrap objects.
pub static BOOTSTRAP: ActorKind =
    ActorKind { name: "apiserver.bootstrap", phase: Phase::Announce, ..ActorKind::DEFAULT };

/// Interval between two renewals of the identity Lease (upstream: 10 s). Every renewal also repairs the other objects.
const REPAIR_EVERY: Duration = Duration::from_secs(10);

/// Interval between two attempts while the store is unreachable.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// Creates all bootstrap objects, marks the server as bootstrapped, then repairs the objects until the actor is stopped.
///
/// # Errors
/// When an object cannot be created; the actor is then restarted. An unreachable store is no error: the attempt is repeated.
pub async fn run(ctx: LoopCtx, server: Server) -> Result<(), Failure> {
    let user = UserInfo::new("system:apiserver", [MASTERS]);
    let acting_as = |agent| Client::new(Arc::new(InProcess::new(server.clone(), user.clone(), agent)));
    let client = acting_as("kube-apiserver/oarlock");
    // Upstream's flow control writes under a field manager of its own, by which it recognizes its objects.
    let flow_control = acting_as("api-priority-and-fairness-config-producer-v1/oarlock");
    loop {
        let pause = match ctx.protected(ensure_all(&server, &client, &flow_control)).await {
            Ok(()) => {
                server.state().set_bootstrapped();
                REPAIR_EVERY
            }
            Err(status) if matches!(status.code, 503 | 504) => {
                tracing::warn!(%status, "the store is unreachable: bootstrap objects are not repaired");
                RETRY_EVERY
            }
            Err(status) => return Err(status.into()),
        };
        ctx.heartbeat();
        if !ctx.sleep(pause).await {
            return ctx.protected(leave_endpoints(&server, &client)).await;
        }
    }
}

/// Creates or repairs all bootstrap objects.
async fn ensure_all(server: &Server, client: &Client, flow_control: &Client) -> Result<(), Status> {
    let objects = objects::all(server)?;
    let (first, rest): (Vec<_>, Vec<_>) = objects.into_iter().partition(|o| o.resource.plural == "namespaces");
    let (flow, rest): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|o| o.resource.group == "flowcontrol.apiserver.k8s.io");
    reconcile::ensure(client, first).await?;
    reconcile::ensure(client, vec![kubernetes::lease(server)?]).await?;
    // The Lease written above is now in the View, so the endpoints include this server.
    let rest = rest.into_iter().chain(kubernetes::service(server)?).collect();
    reconcile::ensure(flow_control, flow).await?;
    reconcile::ensure(client, rest).await?;
    delete_expired_leases(server, client).await
}

/// Deletes the Leases of servers that have not renewed for an hour (upstream: `apiserverleasegc`).
async fn delete_expired_leases(server: &Server, client: &Client) -> Result<(), Status> {
    for expired in kubernetes::expired_leases(server) {
        let (resource, namespace, name) = (expired.resource, expired.obj.namespace(), expired.obj.name());
        let options = DeleteOptions {
            uid: Some(expired.obj.meta().uid().into()),
            resource_version: Some(expired.revision),
            ..DeleteOptions::default()
        };
        match client.delete(resource, namespace, name, options).await {
            Ok(_) => tracing::info!(name, "deleted the expired Lease of another server"),
            // Another server deleted the Lease first, or its holder has renewed it.
            Err(status) if status.is_not_found() || status.is_conflict() => {}
            Err(status) => return Err(status),
        }
    }
    Ok(())
}

/// Deletes this server's Lease and removes the server from the endpoints, at an orderly shutdown.
async fn leave_endpoints(server: &Server, client: &Client) -> Result<(), Failure> {
    let lease = kubernetes::lease(server)?;
    let (namespace, name) = (lease.obj.namespace(), lease.obj.name());
    let deleted = client.delete(lease.resource, namespace, name, DeleteOptions::default()).await;
    if let Err(status) = deleted
        && !status.is_not_found()
    {
        tracing::warn!(%status, "could not delete this server's Lease");
    }
    // The last server removes its address too: the endpoints then point nowhere.
    Ok(reconcile::ensure(client, kubernetes::service(server)?).await?)
}
