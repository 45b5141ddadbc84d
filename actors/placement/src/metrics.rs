//! The Prometheus metrics of held units.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use oarlock_mesh::Unit;
use oarlock_meta::Revision;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    role: &'static str,
    unit: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Role {
    role: &'static str,
}

#[derive(Default)]
struct Families {
    held: Family<Labels, Gauge>,
    epoch: Family<Labels, Gauge>,
    taken: Family<Role, Counter>,
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let families = Families::default();
    oarlock_telemetry::registry().declare(|registry| families.register(registry));
    families
});

impl Families {
    fn register(&self, registry: &mut Registry) {
        let help = "1 for each unit that this process works for, else 0";
        registry.register("oarlock_unit_held", help, self.held.clone());
        let help = "Epoch of each unit that this process works for";
        registry.register("oarlock_unit_epoch", help, self.epoch.clone());
        registry.register("oarlock_units_taken", "Units that this process began to work for", self.taken.clone());
    }

    fn show(&self, role: &'static str, units: &[Unit], held: &BTreeMap<Unit, Revision>) {
        let taken = self.taken.get_or_create(&Role { role });
        for unit in units {
            let labels = Labels { role, unit: unit.as_str().to_owned() };
            let epoch = held.get(unit);
            let before = self.held.get_or_create(&labels).set(i64::from(epoch.is_some()));
            match epoch {
                Some(epoch) => {
                    taken.inc_by(u64::from(before == 0));
                    self.epoch.get_or_create(&labels).set(i64::try_from(epoch.get()).unwrap_or(i64::MAX));
                }
                // The epoch of a unit belongs to its holder, so that no two processes show one.
                None => drop(self.epoch.remove(&labels)),
            }
        }
    }
}

/// Sets the metrics of each unit of a role: 1 if the unit is in `held`, with its epoch, else 0.
pub(crate) fn held(role: &'static str, units: &[Unit], held: &BTreeMap<Unit, Revision>) {
    FAMILIES.show(role, units, held);
}

#[cfg(test)]
mod tests {
    use oarlock_telemetry::metrics::{Format, encode};

    use super::*;

    #[test]
    fn a_unit_that_moves_away_leaves_no_epoch_and_is_not_counted_again() {
        let (families, mut registry) = (Families::default(), Registry::default());
        families.register(&mut registry);
        let units = ["a", "b"].map(Unit::named);
        let held = |epochs: &[u64]| units.iter().cloned().zip(epochs.iter().map(|epoch| Revision(*epoch))).collect();
        let text = |epochs: &[u64]| {
            families.show("scheduler", &units, &held(epochs));
            encode(Format::OpenMetrics, [&registry])
        };
        let both = text(&[7, 8]);
        for line in [
            "oarlock_unit_held{role=\"scheduler\",unit=\"b\"} 1",
            "oarlock_unit_epoch{role=\"scheduler\",unit=\"b\"} 8",
            "oarlock_units_taken_total{role=\"scheduler\"} 2",
        ] {
            assert!(both.lines().any(|known| known == line), "{line}\n{both}");
        }
        let one = text(&[7]);
        for line in
            ["oarlock_unit_held{role=\"scheduler\",unit=\"b\"} 0", "oarlock_units_taken_total{role=\"scheduler\"} 2"]
        {
            assert!(one.lines().any(|known| known == line), "{line}\n{one}");
        }
        assert!(!one.contains("oarlock_unit_epoch{role=\"scheduler\",unit=\"b\"}"), "{one}");
        assert!(text(&[7, 9]).contains("oarlock_units_taken_total{role=\"scheduler\"} 3\n"));
    }
}
