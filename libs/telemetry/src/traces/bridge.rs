//! What `tracing` cannot say of a span: attributes without a declared field, a parent in another process, links.

use opentelemetry::context::FutureExt as _;
use opentelemetry::trace::{SpanContext, Status, TraceContextExt as _};
use opentelemetry::{Context, KeyValue, Value};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::links::{self, RELATION};

/// Sets an attribute of a span. Never a secret, a body or a query.
pub fn set(span: &Span, key: &'static str, value: impl Into<Value>) {
    span.set_attribute(key, value);
}

/// Makes a span the child of a span of another process. Nothing happens after the span was entered, or to a disabled span.
pub fn adopt(span: &Span, parent: SpanContext) {
    // A disabled span has no parent, and the callers enter no span before.
    let _disabled = span.set_parent(Context::new().with_remote_span_context(parent));
}

/// Links a span to another one, with the relation of the other to it, in the attribute `oarlock.link.<relation>` too. `attribute` is the whole name.
pub fn link(span: &Span, relation: &'static str, attribute: &'static str, to: &SpanContext) {
    if to.is_valid() {
        span.add_link_with_attributes(to.clone(), vec![KeyValue::new(RELATION, relation)]);
        span.set_attribute(attribute, links::text(to));
    }
}

/// Marks a span as failed. The reason is a fixed text, without anything that a client chose.
pub fn fail(span: &Span, why: &'static str) {
    span.set_status(Status::error(why));
}

/// Runs `work` inside a span without entering the span: spans of the work are its children, but none of them, and no span of the logs, keeps it open.
pub fn inside<F: Future>(span: &Span, work: F) -> impl Future<Output = F::Output> + use<F> {
    work.with_context(span.context())
}
