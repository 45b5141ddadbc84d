//! How fast nodes may be emptied: slowly, more slowly where much fails, not at all where everything does, because then the observer is more
//! likely wrong than the nodes (upstream `ComputeZoneState` and its eviction rates).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::{Item, ObjMeta};
use oarlock_runtime::Instant;
use parking_lot::Mutex;

use super::settings::NodeLifecycleSettings;
use crate::project::NodeView;

/// Nodes of a zone that must be not ready at least for the zone to be unhealthy.
const UNHEALTHY_AT_LEAST: usize = 3;
/// A node in a zone where none may be emptied is reconciled again after this time.
const LATER: Duration = Duration::from_secs(30);

/// The zone of a node as upstream names it.
pub(super) fn zone(meta: &ObjMeta) -> String {
    let label = |key: &str| meta.label(key).unwrap_or("");
    format!("{}:\u{0}:{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

/// The zones at one moment.
#[derive(Debug, Default)]
pub(super) struct Zones {
    counts: BTreeMap<String, (usize, usize)>,
    /// Nodes may be emptied at all.
    pub(super) evict: bool,
}

/// Counts.
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
    /// The time between two nodes of a zone that are emptied; `None`: none may be.
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

/// The time between two of so many a second; `None` for rates that let none through.
fn between(rate: f32) -> Option<Duration> {
    Some(rate).filter(|rate| *rate > 0.0).and_then(|rate| Duration::try_from_secs_f32(rate.recip()).ok())
}

/// When the next node of each zone may be emptied.
#[derive(Debug, Default)]
pub(super) struct Paces {
    next: Mutex<BTreeMap<String, Instant>>,
}

impl Paces {
    /// Takes the zone's turn, or tells how long to wait for it.
    pub(super) fn take(&self, zone: &str, rate: Option<Duration>, now: Instant) -> Result<(), Duration> {
        let Some(rate) = rate else { return Err(LATER) };
        let mut all = self.next.lock();
        let next = all.entry(zone.to_owned()).or_insert(now);
        if *next > now {
            return Err((*next - now).min(rate));
        }
        *next = now + rate;
        Ok(())
    }
}
