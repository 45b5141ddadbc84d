//! Bookmarks when they matter: whoever takes over a unit of the crew does nothing before its caches have come past the Assignment's revision,
//! so every watch that takes bookmarks gets one soon after an Assignment has changed, and not after a minute.

use std::time::Duration;

use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, clock};
use oarlock_schema::resource;
use oarlock_store::Interest;

use crate::server::Server;

/// The row of who tells.
pub static MILESTONES: ActorKind =
    ActorKind { name: "apiserver.milestones", phase: Phase::Announce, ..ActorKind::DEFAULT };

/// Assignments change many at a time: they share a bookmark.
const GATHER: Duration = Duration::from_millis(10);
const BATCH: usize = 64;

/// Follows the Assignments and raises [`State::milestone`](crate::state::State::milestone).
///
/// # Errors
/// When the schema has no Assignments.
pub async fn run(ctx: LoopCtx, server: Server) -> Result<(), Failure> {
    let row = resource("oarlock.dev", "v1", "assignments").ok_or("the schema has no assignments")?;
    let prefix = oarlock_registry::key::prefix(row).ok_or("assignments are not stored")?;
    let view = server.view();
    loop {
        // Also what was missed when the window had moved past, as it may again and again under a burst: one bookmark makes up for all of it.
        let newest = view.list(prefix).revision();
        server.state().set_milestone(newest);
        if let Ok(mut cursor) = view.watch(prefix, newest, Interest::All, None) {
            loop {
                let Some(batch) = ctx.or_stop(cursor.next_batch(BATCH, clock::never())).await else { return Ok(()) };
                let Ok(batch) = batch else { break };
                if let Some(last) = batch.events.last() {
                    server.state().set_milestone(last.revision);
                }
                if !ctx.sleep(GATHER).await {
                    return Ok(());
                }
            }
        }
        if !ctx.sleep(GATHER).await {
            return Ok(());
        }
    }
}
