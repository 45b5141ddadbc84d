//! Spans as the judge of lives reads them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use oarlock_check::traces::{Fault, Span};
use oarlock_telemetry::traces::Change;
use oarlock_telemetry::traces::opentelemetry::trace::{SpanId, Status, TraceId};
use oarlock_telemetry::traces::opentelemetry_sdk::trace::SpanData;

/// Returns the trace of the life of the object with this UID.
pub(super) fn life(uid: &str) -> u128 {
    trace(Change::new(uid, 1).trace())
}

/// Returns trace and root of the creation of the object with this UID.
pub(super) fn creation(uid: &str) -> (u128, u64) {
    (life(uid), id(Change::new(uid, 1).context().span_id()))
}

/// Converts spans for the judge.
pub(super) fn judged(spans: &[Arc<SpanData>]) -> Vec<Span> {
    spans.iter().map(|span| of(span)).collect()
}

/// Fails with the first faults, if there are any.
pub(super) fn none(faults: &[Fault]) {
    /// How many faults are shown.
    const SHOWN: usize = 20;
    let shown: Vec<String> = faults.iter().take(SHOWN).map(Fault::to_string).collect();
    assert!(faults.is_empty(), "{} faults: {shown:#?}", faults.len());
}

fn of(span: &SpanData) -> Span {
    let nanos = |at: SystemTime| u64::try_from(at.duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap();
    let parent = (span.parent_span_id != SpanId::INVALID).then(|| id(span.parent_span_id));
    let links = span.links.iter().map(|link| (trace(link.span_context.trace_id()), id(link.span_context.span_id())));
    Span {
        trace: trace(span.span_context.trace_id()),
        id: id(span.span_context.span_id()),
        parent,
        name: span.name.to_string(),
        began: nanos(span.start_time),
        ended: nanos(span.end_time),
        failed: span.status != Status::Unset,
        links: links.collect(),
    }
}

fn trace(id: TraceId) -> u128 {
    u128::from_be_bytes(id.to_bytes())
}

fn id(id: SpanId) -> u64 {
    u64::from_be_bytes(id.to_bytes())
}
