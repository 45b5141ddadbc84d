//! What is there when readyz says ok, made and kept in repair by the apiserver itself (as `system:apiserver`): namespaces, RBAC, flow
//! control, priority classes, the `kubernetes` Service, the authentication ConfigMap, this server's Lease.

mod objects;
mod reconcile;

use std::time::Duration;

use oarlock_auth::UserInfo;
use oarlock_auth::user::MASTERS;
use oarlock_client::Client;
use oarlock_meta::Status;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase};
use std::sync::Arc;

use crate::in_process::InProcess;
use crate::server::Server;

/// The row of the bootstrapper.
pub static BOOTSTRAP: ActorKind =
    ActorKind { name: "apiserver.bootstrap", phase: Phase::Pipeline, ..ActorKind::DEFAULT };

/// The identity Lease is renewed this often (upstream: 10 s), and with it everything is looked after.
const REPAIR_EVERY: Duration = Duration::from_secs(10);

/// Makes everything, says that the server is ready, then repairs until the actor is stopped.
///
/// # Errors
/// When something cannot be made; the actor is then restarted.
pub async fn run(ctx: LoopCtx, server: Server) -> Result<(), Failure> {
    let user = UserInfo::new("system:apiserver", [MASTERS]);
    let client = Client::new(Arc::new(InProcess::new(server.clone(), user, "kube-apiserver/oarlock")));
    loop {
        ctx.protected(everything(&server, &client)).await?;
        server.state().set_bootstrapped();
        ctx.heartbeat();
        if !ctx.sleep(REPAIR_EVERY).await {
            return Ok(());
        }
    }
}

async fn everything(server: &Server, client: &Client) -> Result<(), Status> {
    let objects = objects::all(server)?;
    let (first, rest): (Vec<_>, Vec<_>) = objects.into_iter().partition(|o| o.resource.plural == "namespaces");
    reconcile::ensure(client, first).await?;
    reconcile::ensure(client, rest).await
}
