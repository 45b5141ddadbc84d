//! Allocation of the addresses and node ports of Services.
//!
//! The commit that writes the Service also writes an IPAddress object per cluster IP and one RangeAllocation for all node ports, and compares their
//! revisions. Process memory decides nothing, so any number of servers agree.

mod cluster_ip;
mod families;
mod node_port;

use std::time::Duration;

use oarlock_admission::RequestContext;
use oarlock_admission::turns::QueueGuard;
use oarlock_meta::Status;
use oarlock_schema::Obj;
use oarlock_storage::Append;

use crate::server::Server;
use crate::target::Target;

/// Whether a request is about Services, whose addresses and ports are allocated.
pub(crate) fn is_service(target: &Target<'_>) -> bool {
    target.resource().group.is_empty() && target.resource().plural == "services"
}

/// How long a request waits for its turn at the node port allocation. After that it commits without a turn and may lose the compare.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for the turn at the allocation of node ports, for a change of a Service that has node ports or asks for some. The caller holds the turn over
/// the commit. A dry run commits nothing and needs no turn.
pub(crate) async fn turn(
    server: &Server,
    target: &Target<'_>,
    context: &RequestContext,
    new: Option<&Obj>,
    old: Option<&Obj>,
) -> Option<QueueGuard> {
    let concerned = is_service(target) && [new, old].into_iter().flatten().any(node_port::concerns);
    if !concerned || context.dry_run {
        return None;
    }
    server.turns().take(node_port::NAME, context.until(TURN_TIMEOUT).remaining()).await
}

/// Allocates the addresses and node ports of a new Service and returns the writes that must be committed with it.
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

/// Allocates or releases addresses and node ports after a change of a Service's type or ports.
///
/// # Errors
/// As [`on_create`].
pub(crate) fn on_update(
    server: &Server,
    target: &Target<'_>,
    new: &mut Obj,
    old: &Obj,
    dry_run: bool,
) -> Result<Vec<Append>, Status> {
    if !is_service(target) || target.subresource == "status" {
        return Ok(Vec::new());
    }
    let mut together = cluster_ip::assign(server, target, new, Some(old), dry_run)?;
    together.extend(node_port::assign(server, target, new, Some(old))?);
    Ok(together)
}

/// Returns the writes that release the addresses and node ports of a deleted Service.
#[must_use]
pub(crate) fn on_delete(server: &Server, target: &Target<'_>, old: &Obj) -> Vec<Append> {
    if !is_service(target) {
        return Vec::new();
    }
    let mut together = cluster_ip::release(server, old);
    together.extend(node_port::release(server, old));
    together
}
