//! Spans of calls to etcd, below the request that causes them. Calls outside every span, as polls and leases are, have none.

use http::Uri;
use oarlock_telemetry::traces::{self, TARGET, traceparent};
use tonic::metadata::{Ascii, MetadataValue};
use tracing::Span;

/// Returns the span of a call; a disabled one where the span around it is not exported, and outside every span.
pub(super) fn of_call(path: &str, endpoint: &str) -> Span {
    if !traces::exporting() || !traces::current().is_sampled() {
        return Span::none();
    }
    let name = path.trim_start_matches('/');
    let (host, port) = address(endpoint);
    tracing::info_span!(
        target: TARGET,
        "etcd",
        otel.name = name,
        otel.kind = "client",
        otel.status_code = tracing::field::Empty,
        otel.status_description = tracing::field::Empty,
        db.system.name = "etcd",
        db.operation.name = name,
        server.address = host,
        server.port = port
    )
}

/// Returns host and port of an endpoint as OpenTelemetry's conventions want them: the host without scheme and brackets; no port where the endpoint has none.
fn address(endpoint: &str) -> (Option<String>, Option<i64>) {
    let Ok(uri) = endpoint.parse::<Uri>() else { return (None, None) };
    let host = uri.host().map(|host| host.trim_matches(['[', ']']).to_owned());
    (host, uri.port_u16().map(i64::from))
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

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn an_endpoint_has_a_host_and_a_port() {
        for (endpoint, host, port) in [
            ("https://10.0.0.4:2379", Some("10.0.0.4"), Some(2379)),
            ("http://[::1]:2379", Some("::1"), Some(2379)),
            ("http://etcd-0.etcd", Some("etcd-0.etcd"), None),
            ("http://", None, None),
        ] {
            assert_eq!(address(endpoint), (host.map(str::to_owned), port), "{endpoint}");
        }
    }
}
