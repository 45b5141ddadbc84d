//! Printers of events of both groups, which have the same fields under different names.

use oarlock_schema::Value;
use oarlock_schema::views::core_v1::{Event as Core, EventSource, ObjectReference};
use oarlock_schema::views::events_v1::Event as Events;

use super::text::or;
use super::{Now, cells, now};

/// The fields that both forms of an event have.
struct Facts<'a> {
    name: &'a str,
    kind: &'a str,
    reason: &'a str,
    about: ObjectReference<'a>,
    source: EventSource<'a>,
    controller: &'a str,
    instance: &'a str,
    message: &'a str,
    first: &'a str,
    last: &'a str,
    time: &'a str,
    count: i64,
    /// Count and time of a series.
    series: Option<(i64, &'a str)>,
}

pub(super) fn core(event: Core<'_>, now: Now) -> Vec<Value> {
    let facts = Facts {
        name: event.metadata().name(),
        kind: event.type_(),
        reason: event.reason(),
        about: event.involved_object(),
        source: event.source(),
        controller: event.reporting_component(),
        instance: event.reporting_instance(),
        message: event.message(),
        first: event.first_timestamp(),
        last: event.last_timestamp(),
        time: event.event_time(),
        count: event.count(),
        series: event.series().map(|s| (s.count(), s.last_observed_time())),
    };
    row(&facts, now)
}

pub(super) fn events(event: Events<'_>, now: Now) -> Vec<Value> {
    let facts = Facts {
        name: event.metadata().name(),
        kind: event.type_(),
        reason: event.reason(),
        about: event.regarding(),
        source: event.deprecated_source(),
        controller: event.reporting_controller(),
        instance: event.reporting_instance(),
        message: event.note(),
        first: event.deprecated_first_timestamp(),
        last: event.deprecated_last_timestamp(),
        time: event.event_time(),
        count: event.deprecated_count(),
        series: event.series().map(|s| (s.count(), s.last_observed_time())),
    };
    row(&facts, now)
}

fn row(event: &Facts<'_>, now: Now) -> Vec<Value> {
    let set = |time: &str| now::micros(time).is_some();
    let first = now.since(if set(event.first) { event.first } else { event.time });
    let last = match event.series {
        Some((_, observed)) => now.since(observed),
        None if set(event.last) => now.since(event.last),
        None => first.clone(),
    };
    let count = match event.series {
        Some((count, _)) => count,
        // Events that happened once have no count in the newer form.
        None => {
            if event.count == 0 {
                1
            } else {
                event.count
            }
        }
    };
    let kind = event.about.kind().to_lowercase();
    let about = if event.about.name().is_empty() { kind } else { format!("{kind}/{}", event.about.name()) };
    let component = or(event.source.component(), event.controller);
    let host = or(event.source.host(), event.instance);
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    cells![
        last,
        event.kind,
        event.reason,
        about,
        event.about.field_path(),
        source,
        event.message.trim(),
        first,
        count,
        event.name,
    ]
}
