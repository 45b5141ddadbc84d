//! Metrics of the apiserver, under upstream's names.

use std::sync::LazyLock;
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::http::request_info::RequestInfo;

/// Labels of `apiserver_request_total`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    subresource: &'static str,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DurationLabels {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FeatureLabels {
    name: &'static str,
    stage: &'static str,
}

struct Families {
    features: Family<FeatureLabels, Gauge>,
    requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabels, Histogram>,
    connections_refused: Counter,
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let families = Families {
        features: Family::default(),
        requests: Family::default(),
        durations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_25, 2.0, 18))),
        connections_refused: Counter::default(),
    };
    oarlock_telemetry::registry().declare(|registry| {
        registry.register("kubernetes_feature_enabled", "Feature gates by stage", families.features.clone());
        registry.register("apiserver_request", "Requests by verb, resource and answer code", families.requests.clone());
        registry.register(
            "apiserver_request_duration_seconds",
            "Time to answer in seconds, watches apart",
            families.durations.clone(),
        );
        registry.register(
            "oarlock_apiserver_connections_refused",
            "Connections closed at once because there were too many",
            families.connections_refused.clone(),
        );
    });
    families
});

/// Counts a connection that was refused because of the limits.
pub(crate) fn connection_refused() {
    FAMILIES.connections_refused.inc();
}

/// Publishes which feature gates are enabled.
pub(crate) fn features(gates: &oarlock_schema::FeatureGates) {
    for (gate, on) in gates.iter() {
        let labels = FeatureLabels { name: gate.name, stage: gate.stage.as_str() };
        FAMILIES.features.get_or_create(&labels).set(i64::from(on));
    }
}

/// Counts an answered request. Only existing resources become labels, so that clients cannot create arbitrary label values.
pub(crate) fn request(info: &RequestInfo, method: &Method, code: StatusCode, took: Duration) {
    let known = oarlock_schema::resource(&info.group, &info.version, &info.resource);
    let verb = label(if info.resource_request { info.verb } else { method.as_str() });
    let (group, version, resource, subresource) = match known {
        Some(row) => {
            let sub = row.subresource(&info.subresource).map_or("", |s| s.name);
            (row.group, row.version, row.plural, sub)
        }
        None => ("", "", "", ""),
    };
    let code = code.as_u16();
    FAMILIES.requests.get_or_create(&RequestLabels { verb, group, version, resource, subresource, code }).inc();
    if verb != "WATCH" {
        FAMILIES.durations.get_or_create(&DurationLabels { verb, group, resource }).observe(took.as_secs_f64());
    }
}

/// Returns the label of a verb or method, as upstream writes it (`cleanVerb`).
fn label(verb: &str) -> &'static str {
    const LABELS: [&str; 14] = [
        "GET",
        "LIST",
        "WATCH",
        "CREATE",
        "UPDATE",
        "PATCH",
        "DELETE",
        "DELETECOLLECTION",
        "CONNECT",
        "POST",
        "PUT",
        "HEAD",
        "OPTIONS",
        "PROXY",
    ];
    LABELS.into_iter().find(|label| label.eq_ignore_ascii_case(verb)).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn labels_are_few() {
        let cases = [("list", "LIST"), ("deletecollection", "DELETECOLLECTION"), ("PUT", "PUT"), ("BREW", "other")];
        for (verb, expected) in cases {
            assert_eq!(label(verb), expected);
        }
    }
}
