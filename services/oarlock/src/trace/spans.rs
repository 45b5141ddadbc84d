//! The spans of lives as the processes report them.

use std::collections::BTreeMap;

use oarlock_mesh::member_spans::TraceReport;
use oarlock_mesh::otlp::common::v1::any_value::Value;
use oarlock_mesh::otlp::trace::v1::Span;
use oarlock_mesh::otlp::trace::v1::status::StatusCode;

use super::plain::plain;

/// How many nanoseconds (one day) the clock of another machine may be ahead of this one's.
const MAX_AHEAD: u64 = 86_400_000_000_000;

/// Spans by the bytes of their trace id.
pub(super) type Lives = BTreeMap<Vec<u8>, Vec<Span>>;

/// Merges the spans of several processes: of two records with the same ids the one that ended first counts, because a later owner of the same work records the end of that work again.
/// Spans that start or end more than [`MAX_AHEAD`] after `now` are left out: beside them, all other bars would be too short to read.
pub(super) fn merge(report: &TraceReport, now: u64) -> Lives {
    let latest = now.saturating_add(MAX_AHEAD);
    let scopes = report.traces.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
    let mut by_id: BTreeMap<(&[u8], &[u8]), &Span> = BTreeMap::new();
    let spans = scopes.flat_map(|scope| &scope.spans);
    for span in spans.filter(|span| span.start_time_unix_nano.max(span.end_time_unix_nano) <= latest) {
        let known = by_id.entry((&span.trace_id, &span.span_id)).or_insert(span);
        if span.end_time_unix_nano < known.end_time_unix_nano {
            *known = span;
        }
    }
    let mut lives = Lives::new();
    for ((trace, _), span) in by_id {
        lives.entry(trace.to_vec()).or_default().push(span.clone());
    }
    lives
}

/// Returns why a span failed, for the terminal; `None` for a span that did not.
pub(super) fn error(span: &Span) -> Option<String> {
    span.status.as_ref().filter(|status| status.code == StatusCode::Error as i32).map(|status| plain(&status.message))
}

/// Returns the text of an attribute.
pub(super) fn attribute<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}
