//! The Prometheus metric of held units.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use oarlock_mesh::Unit;
use oarlock_meta::Revision;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    role: &'static str,
    unit: String,
}

static HELD: LazyLock<Family<Labels, Gauge>> = LazyLock::new(|| {
    let held = Family::<Labels, Gauge>::default();
    oarlock_telemetry::registry().declare(|registry| {
        registry.register("oarlock_unit_held", "1 for each unit that this process works for, else 0", held.clone());
    });
    held
});

/// Sets the metric of each unit of a role: 1 if the unit is in `held`, else 0.
pub(crate) fn held(role: &'static str, units: &[Unit], held: &BTreeMap<Unit, Revision>) {
    for unit in units {
        let labels = Labels { role, unit: unit.as_str().to_owned() };
        HELD.get_or_create(&labels).set(i64::from(held.contains_key(unit)));
    }
}
