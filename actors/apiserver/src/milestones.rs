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
/// When the schema has no Assignments, or the window moved past this watcher; the actor is then restarted.
pub async fn run(ctx: LoopCtx, server: Server) -> Result<(), Failure> {
    let row = resource("oarlock.dev", "v1", "assignments").ok_or("the schema has no assignments")?;
    let prefix = oarlock_registry::key::prefix(row).ok_or("assignments are not stored")?;
    let view = server.view();
    let mut cursor = view.watch(&prefix, view.list(&prefix).revision(), Interest::All, None)?;
    loop {
        let Some(batch) = ctx.or_stop(cursor.next_batch(BATCH, clock::never())).await else { return Ok(()) };
        if let Some(last) = batch?.events.last() {
            server.state().set_milestone(last.revision);
        }
        if !ctx.sleep(GATHER).await {
            return Ok(());
        }
    }
}
