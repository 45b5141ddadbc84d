//! Metrics of the apiserver, under upstream's names.

use std::sync::LazyLock;
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::http::request_info::RequestInfo;

/// Labels of `apiserver_request_total`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DurationLabels {
    verb: String,
    group: String,
    resource: String,
}

struct Families {
    requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabels, Histogram>,
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let families = Families {
        requests: Family::default(),
        durations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_25, 2.0, 18))),
    };
    oarlock_telemetry::registry().declare(|registry| {
        registry.register("apiserver_request", "Requests by verb, resource and answer code", families.requests.clone());
        registry.register(
            "apiserver_request_duration_seconds",
            "Time to answer in seconds, watches apart",
            families.durations.clone(),
        );
    });
    families
});

/// Counts an answered request. Only resources that exist make labels, so that clients cannot make up more.
pub(crate) fn request(info: &RequestInfo, method: &Method, code: StatusCode, took: Duration) {
    let known = oarlock_schema::resource(&info.group, &info.version, &info.resource);
    let verb = if info.resource_request { info.verb.to_ascii_uppercase() } else { method.to_string() };
    let (group, version, resource, subresource) = match known {
        Some(row) => {
            let sub = row.subresource(&info.subresource).map_or("", |s| s.name);
            (row.group, row.version, row.plural, sub)
        }
        None => ("", "", "", ""),
    };
    FAMILIES
        .requests
        .get_or_create(&RequestLabels {
            verb: verb.clone(),
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            code: code.as_u16(),
        })
        .inc();
    if verb != "WATCH" {
        let labels = DurationLabels { verb, group: group.to_owned(), resource: resource.to_owned() };
        FAMILIES.durations.get_or_create(&labels).observe(took.as_secs_f64());
    }
}
