//! Sends bookmarks to watches soon after an Assignment has changed.
//!
//! A process that takes over a unit of work does nothing for the unit before its caches have reached the Assignment's revision. With the usual
//! bookmark a minute the takeover would take that long.

use std::time::Duration;

use oarlock_runtime::{ActorKind, Failure, LoopCtx, Phase, clock};
use oarlock_schema::resource;
use oarlock_store::Interest;

use crate::server::Server;

/// The actor that watches the Assignments.
pub static MILESTONES: ActorKind =
    ActorKind { name: "apiserver.milestones", phase: Phase::Announce, ..ActorKind::DEFAULT };

/// Delay before a bookmark: many Assignments change at a time and share one.
const BOOKMARK_DELAY: Duration = Duration::from_millis(10);
const BATCH: usize = 64;

/// Watches the Assignments and raises [`State::milestone`](crate::state::State::milestone).
///
/// # Errors
/// When the schema has no Assignments.
pub async fn run(ctx: LoopCtx, server: Server) -> Result<(), Failure> {
    let row = resource("oarlock.dev", "v1", "assignments").ok_or("the schema has no assignments")?;
    let prefix = oarlock_registry::key::prefix(row).ok_or("assignments are not stored")?;
    let view = server.view();
    loop {
        // The watch window may have moved past this cursor, perhaps repeatedly during a burst. One bookmark at the newest revision makes up for all
        // missed events.
        let newest = view.list(prefix).revision();
        server.state().set_milestone(newest);
        if let Ok(mut cursor) = view.watch(prefix, newest, Interest::All, None) {
            loop {
                let Some(batch) = ctx.or_stop(cursor.next_batch(BATCH, clock::never())).await else { return Ok(()) };
                let Ok(batch) = batch else { break };
                if let Some(last) = batch.events.last() {
                    server.state().set_milestone(last.revision);
                }
                if !ctx.sleep(BOOKMARK_DELAY).await {
                    return Ok(());
                }
            }
        }
        if !ctx.sleep(BOOKMARK_DELAY).await {
            return Ok(());
        }
    }
}
