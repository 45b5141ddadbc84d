//! Links between spans, and their repetition as attributes for viewers that show no links.

use opentelemetry::trace::SpanContext;
use opentelemetry::{Array, KeyValue, StringValue, Value};

/// Attribute of a link that names its relation to the span.
pub const RELATION: &str = "oarlock.link.relation";

/// Returns a link's target as the text of the attribute `oarlock.link.<relation>`.
pub(crate) fn text(to: &SpanContext) -> StringValue {
    format!("{}-{}", to.trace_id(), to.span_id()).into()
}

/// Repeats a link in the attribute of its relation. The attributes of links do not count towards [`MAX_ATTRIBUTES`](super::limits::MAX_ATTRIBUTES): relations are few.
pub(crate) fn repeat(attributes: &mut Vec<KeyValue>, relation: &'static str, to: &SpanContext) {
    const PREFIX: &str = "oarlock.link.";
    let same = |known: &&mut KeyValue| known.key.as_str().strip_prefix(PREFIX) == Some(relation);
    match attributes.iter_mut().find(same) {
        Some(KeyValue { value: Value::Array(Array::String(known)), .. }) => known.push(text(to)),
        _ => {
            let value = Value::Array(Array::String(vec![text(to)]));
            attributes.push(KeyValue::new(format!("{PREFIX}{relation}"), value));
        }
    }
}
