//! Metrics of the apiserver, under upstream's names.
//!
//! All labels come from static tables, and anonymous clients have no series by resource, so that clients cannot add series at will. A request increments series that are found by index;
//! only one that is exported allocates, for its exemplar.

mod admission;
mod endpoints;
mod families;
mod labels;
mod objects;
mod requests;
mod series;

use std::sync::LazyLock;

use oarlock_telemetry::metrics::Histogram;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

pub(crate) use admission::admission;
pub(crate) use labels::RequestLabels;
pub(crate) use objects::show as objects;
pub(crate) use requests::{Answering, OpenWatch, answered, terminated};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FeatureLabels {
    name: &'static str,
    stage: &'static str,
}

struct Families {
    features: Family<FeatureLabels, Gauge>,
    connections_refused: Counter,
    certificates: Histogram,
}

/// Bounds of the time until a client's certificate expires, in seconds: from nothing to a year.
const EXPIRATION: [f64; 14] = [
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let families = Families {
        features: Family::default(),
        connections_refused: Counter::default(),
        certificates: Histogram::new(EXPIRATION),
    };
    oarlock_telemetry::registry().declare(|registry| {
        registry.register("kubernetes_feature_enabled", "Feature gates by stage", families.features.clone());
        registry.register(
            "oarlock_apiserver_connections_refused",
            "Connections closed at once because there were too many",
            families.connections_refused.clone(),
        );
        registry.register(
            "apiserver_client_certificate_expiration_seconds",
            "Time until the certificate with which a request was made expires",
            families.certificates.clone(),
        );
    });
    families
});

/// Counts a connection that was refused because of the limits.
pub(crate) fn connection_refused() {
    FAMILIES.connections_refused.inc();
}

/// Counts a request that a client certificate has authenticated, which is valid for so many more seconds.
pub(crate) fn certificate(seconds: i64) {
    FAMILIES.certificates.observe(seconds as f64);
}

/// Publishes which feature gates are enabled.
pub(crate) fn features(gates: &oarlock_schema::FeatureGates) {
    for (gate, on) in gates.iter() {
        let labels = FeatureLabels { name: gate.name, stage: gate.stage.as_str() };
        FAMILIES.features.get_or_create(&labels).set(i64::from(on));
    }
}
