//! Printers of Oarlock's own kinds: assignments of units to members, and actors.

use oarlock_schema::Value;
use oarlock_schema::views::oarlock_v1::{Actor, Assignment};

use super::{Now, cells};

type Cells = Vec<Value>;

/// Returns the cells of an assignment: the member that holds a unit, since when, and under which epoch.
pub(super) fn assignment(obj: Assignment<'_>, now: Now) -> Cells {
    let (meta, spec) = (obj.metadata(), obj.spec());
    let held = spec.acquire_time().unwrap_or_else(|| meta.creation_timestamp());
    cells![meta.name(), spec.holder_identity(), meta.resource_version(), spec.transitions(), now.since(held)]
}

/// Returns the cells of an actor, or of a process that has not reported its actors.
pub(super) fn actor(obj: Actor<'_>, _: Now) -> Cells {
    let status = obj.status();
    let oldest = status.oldest_milliseconds().map_or_else(String::new, |waits| format!("{waits}ms"));
    cells![
        obj.metadata().name(),
        status.process(),
        status.life(),
        status.incarnation(),
        status.handled(),
        status.waiting(),
        oldest,
        status.last_error(),
    ]
}
