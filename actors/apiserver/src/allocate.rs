//! Addresses and ports of Services, decided by compares in the commit that writes the Service: an IPAddress object per cluster IP, one
//! RangeAllocation for node ports. Process memory decides nothing, so any number of servers agree.

mod cluster_ip;
mod families;
mod node_port;

use std::time::Duration;

use oarlock_admission::turns::Turn;
use oarlock_meta::Status;
use oarlock_schema::Obj;
use oarlock_storage::Append;

use crate::server::Server;
use crate::target::Target;

fn is_service(target: &Target<'_>) -> bool {
    target.resource().group.is_empty() && target.resource().plural == "services"
}

/// How long a request waits for its turn; without one it tries its luck.
const PATIENCE: Duration = Duration::from_secs(10);

/// The turn at the one allocation of node ports, for a change of a Service that has some or wants some. Hold it over the commit.
pub(crate) async fn turn(server: &Server, target: &Target<'_>, new: Option<&Obj>, old: Option<&Obj>) -> Option<Turn> {
    let concerned = is_service(target) && [new, old].into_iter().flatten().any(node_port::concerns);
    if concerned { server.turns().take(node_port::NAME, PATIENCE).await } else { None }
}

/// Gives a new Service its addresses; returns what must be committed with it.
///
/// # Errors
/// 422 for an address or port that is taken or out of range, 500 when the range is full.
pub(crate) fn on_create(
    server: &Server,
    target: &Target<'_>,
    obj: &mut Obj,
    dry_run: bool,
) -> Result<Vec<Append>, Status> {
    if !is_service(target) {
        return Ok(Vec::new());
    }
    let mut together = cluster_ip::assign(server, target, obj, None, dry_run)?;
    together.extend(node_port::assign(server, target, obj, None)?);
    Ok(together)
}

/// Gives or takes addresses as a Service's type and ports change.
///
/// # Errors
/// As [`on_create`].
pub(crate) fn on_update(server: &Server, target: &Target<'_>, new: &mut Obj, old: &Obj) -> Result<Vec<Append>, Status> {
    if !is_service(target) || target.subresource == "status" {
        return Ok(Vec::new());
    }
    let mut together = cluster_ip::assign(server, target, new, Some(old), false)?;
    together.extend(node_port::assign(server, target, new, Some(old))?);
    Ok(together)
}

/// Takes back what a deleted Service had.
#[must_use]
pub(crate) fn on_delete(server: &Server, target: &Target<'_>, old: &Obj) -> Vec<Append> {
    if !is_service(target) {
        return Vec::new();
    }
    let mut together = cluster_ip::release(server, old);
    together.extend(node_port::release(server, old));
    together
}
