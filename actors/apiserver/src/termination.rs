//! Graceful shutdown of a server: clients that can use another server lose no request. Upstream's order and flags:
//!
//! 1. **Announce** (phase `announce`): `/readyz` fails and the server leaves the endpoints of Service `kubernetes`. For `--shutdown-delay-duration`
//!    the server still accepts connections and requests, so that load balancers can notice.
//! 2. **Refuse** (phase `ingress`, only with `--shutdown-send-retry-after`): new requests, on new and old connections, are answered with 429 and
//!    `Retry-After` until all requests in flight are done. Watches end here, each after its last event, spread over
//!    `--shutdown-watch-termination-grace-period`.
//! 3. **Close** (phase `ingress`): the socket closes when the last connection in the accept backlog has been taken and no new one gets in. Each HTTP/2 connection gets a
//!    GOAWAY, each HTTP/1.1 connection ends after its request. Running requests have [`Config::request_timeout`](crate::Config::request_timeout) to
//!    finish.
//!
//! Then the request pipeline and the store stop, as in every process.

use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, clock};
use oarlock_seeded_bug::seeded_bug;

use crate::server::Server;

/// The actor of step 1, the announcement.
pub static ANNOUNCER: ActorKind =
    ActorKind { name: "apiserver.announcer", phase: Phase::Announce, ..ActorKind::DEFAULT };

/// Waits for the shutdown to begin and makes the server unready.
///
/// # Errors
/// None.
pub async fn run(ctx: LoopCtx, server: Server) -> Result<(), Failure> {
    ctx.protected(ctx.cancelled()).await;
    if !seeded_bug!("ready_while_stopping") {
        server.state().set_stopping();
    }
    // After a fatal failure the server has nothing to serve with, so waiting is useless.
    if ctx.system().fatal().is_none() {
        ctx.protected(clock::sleep(server.config().termination.delay)).await;
    }
    Ok(())
}
