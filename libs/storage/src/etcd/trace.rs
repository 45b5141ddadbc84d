//! Spans of calls to etcd, below the request that causes them. Calls outside every span, as polls and leases are, have none.

use oarlock_telemetry::traces::{self, TARGET, traceparent};
use tonic::metadata::{Ascii, MetadataValue};
use tracing::Span;

/// Returns the span of a call; a disabled one outside every span.
pub(super) fn of_call(path: &str, endpoint: &str) -> Span {
    if !traces::current().is_valid() {
        return Span::none();
    }
    let name = path.trim_start_matches('/');
    tracing::info_span!(
        target: TARGET,
        "etcd",
        otel.name = name,
        otel.kind = "client",
        otel.status_code = tracing::field::Empty,
        otel.status_description = tracing::field::Empty,
        db.system.name = "etcd",
        db.operation.name = name,
        server.address = endpoint
    )
}

/// Records that a call failed, without the text of a failure: etcd's may name a key.
pub(super) fn failed(span: &Span, sort: &str) {
    span.record("otel.status_code", "error");
    span.record("otel.status_description", sort);
}

/// Returns the metadata that names the call's span to etcd.
pub(super) fn header() -> Option<MetadataValue<Ascii>> {
    traceparent::text(&traces::current())?.parse().ok()
}
