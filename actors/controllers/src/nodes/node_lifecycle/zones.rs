//! The rate of evicting nodes' pods per zone: lower if many nodes of a zone fail, and zero if all do, because then this process's network has more likely
//! failed than the nodes (upstream `ComputeZoneState` and its eviction rates).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::{Item, ObjMeta};
use oarlock_runtime::Instant;
use parking_lot::Mutex;

use super::settings::NodeLifecycleSettings;
use crate::project::NodeView;

/// The least number of nodes that are not ready in an unhealthy zone.
const UNHEALTHY_AT_LEAST: usize = 3;
/// The time after which a node is reconciled again in a zone that allows no eviction.
const BLOCKED_ZONE_RETRY: Duration = Duration::from_secs(30);

/// Returns the zone of a node, in upstream's notation.
pub(super) fn zone(meta: &ObjMeta) -> String {
    let label = |key: &str| meta.label(key).unwrap_or("");
    format!("{}:\u{0}:{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

/// The readiness of all zones at one moment.
#[derive(Debug, Default)]
pub(super) struct Zones {
    counts: BTreeMap<String, (usize, usize)>,
    /// Whether any node's pods may be evicted.
    pub(super) evict: bool,
}

/// Counts the nodes of each zone.
pub(super) fn all(nodes: &[Arc<Item<NodeView>>]) -> Zones {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for node in nodes {
        let (ready, all) = counts.entry(zone(&node.meta)).or_default();
        *ready += usize::from(node.value.ready());
        *all += 1;
    }
    let evict = counts.values().any(|(ready, _)| *ready > 0);
    Zones { counts, evict }
}

impl Zones {
    /// Returns the time between the evictions of two nodes of a zone; `None` if the zone allows none.
    pub(super) fn pause(&self, zone: &str, settings: &NodeLifecycleSettings) -> Option<Duration> {
        let (ready, all) = self.counts.get(zone).copied().unwrap_or_default();
        let lost = all - ready;
        let unhealthy =
            ready > 0 && lost >= UNHEALTHY_AT_LEAST && lost as f32 / all as f32 >= settings.unhealthy_zone_threshold;
        let large = i32::try_from(all).is_ok_and(|all| all > settings.large_cluster_size_threshold);
        let rate = match (self.evict, unhealthy) {
            (false, _) => 0.0,
            (true, false) => settings.node_eviction_rate,
            (true, true) if large => settings.secondary_node_eviction_rate,
            (true, true) => 0.0,
        };
        between(rate)
    }
}

/// Returns the time between two events at a rate per second; `None` for a rate of zero.
fn between(rate: f32) -> Option<Duration> {
    Some(rate).filter(|rate| *rate > 0.0).and_then(|rate| Duration::try_from_secs_f32(rate.recip()).ok())
}

/// The time at which each zone allows the next eviction.
#[derive(Debug, Default)]
pub(super) struct Paces {
    next: Mutex<BTreeMap<String, Instant>>,
}

impl Paces {
    /// Takes the zone's next eviction, or returns how long to wait.
    pub(super) fn take(&self, zone: &str, rate: Option<Duration>, now: Instant) -> Result<(), Duration> {
        let Some(rate) = rate else { return Err(BLOCKED_ZONE_RETRY) };
        let mut all = self.next.lock();
        let next = all.entry(zone.to_owned()).or_insert(now);
        if *next > now {
            return Err((*next - now).min(rate));
        }
        *next = now + rate;
        Ok(())
    }
}
