//! Printers of flow control (API priority and fairness).

use oarlock_schema::views::flowcontrol_v1::{FlowSchema, PriorityLevelConfiguration};
use oarlock_schema::{Obj, Value};

use super::text::NONE;
use super::{Now, cells};

/// Returns the sort key of a flow schema: precedence, then name.
pub(super) fn precedence(obj: &Obj) -> (i64, String) {
    (obj.view::<FlowSchema<'_>>().map_or(0, |schema| schema.spec().matching_precedence()), obj.name().to_owned())
}

pub(super) fn flow_schema(obj: FlowSchema<'_>, now: Now) -> Vec<Value> {
    let (meta, spec) = (obj.metadata(), obj.spec());
    let dangling = obj.status().conditions().iter().find(|c| c.type_() == "Dangling").map_or("?", |c| c.status());
    cells![
        meta.name(),
        spec.priority_level_configuration().name(),
        spec.matching_precedence(),
        spec.distinguisher_method().map_or(NONE, |method| method.type_()),
        now.since(meta.creation_timestamp()),
        dangling,
    ]
}

pub(super) fn priority_level(obj: PriorityLevelConfiguration<'_>, now: Now) -> Vec<Value> {
    let (meta, spec) = (obj.metadata(), obj.spec());
    let limited = spec.limited();
    let queuing = limited.and_then(|l| l.limit_response().queuing());
    let number = |n: Option<i64>| n.map_or_else(|| Value::from(NONE), Value::from);
    cells![
        meta.name(),
        spec.type_(),
        number(limited.map(|l| l.nominal_concurrency_shares().unwrap_or(0))),
        number(queuing.map(|q| q.queues())),
        number(queuing.map(|q| q.hand_size())),
        number(queuing.map(|q| q.queue_length_limit())),
        now.since(meta.creation_timestamp()),
    ]
}
