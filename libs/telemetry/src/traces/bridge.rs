//! What `tracing` cannot say of a span: a parent in another process.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Makes a span the child of a span of another process. Nothing happens after the span was entered, or to a disabled span.
pub fn adopt(span: &Span, parent: SpanContext) {
    // A disabled span has no parent, and the callers enter no span before.
    let _disabled = span.set_parent(Context::new().with_remote_span_context(parent));
}
