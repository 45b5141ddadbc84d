//! The spans of lives as the processes report them.

use std::collections::BTreeMap;

use oarlock_mesh::member_spans::TraceReport;
use oarlock_mesh::otlp::common::v1::any_value::Value;
use oarlock_mesh::otlp::trace::v1::Span;
use oarlock_mesh::otlp::trace::v1::status::StatusCode;

/// Spans by the bytes of their trace id.
pub(super) type Lives = BTreeMap<Vec<u8>, Vec<Span>>;

/// Merges the spans of several processes: of two records with the same ids the one that ended first counts, because a later owner of the same work records the end of that work again.
pub(super) fn merge(report: &TraceReport) -> Lives {
    let scopes = report.traces.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
    let mut by_id: BTreeMap<(&[u8], &[u8]), &Span> = BTreeMap::new();
    for span in scopes.flat_map(|scope| &scope.spans) {
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

/// Returns why a span failed; `None` for a span that did not.
pub(super) fn error(span: &Span) -> Option<&str> {
    span.status.as_ref().filter(|status| status.code == StatusCode::Error as i32).map(|status| status.message.as_str())
}

/// Returns the text of an attribute.
pub(super) fn attribute<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}
