//! How fast nodes may be emptied: slowly, more slowly where much fails, not at all where everything does, because then the observer is more
//! likely wrong than the nodes (upstream `ComputeZoneState` and its eviction rates).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::{Item, ObjMeta};
use oarlock_runtime::Instant;
use parking_lot::Mutex;

use crate::project::NodeView;

/// Between two nodes of a zone (upstream `--node-eviction-rate` 0.1).
const NORMAL: Duration = Duration::from_secs(10);
/// The same in a large zone of which much fails (upstream `--secondary-node-eviction-rate` 0.01).
const SLOW: Duration = Duration::from_secs(100);
/// Smaller zones of which much fails are not emptied (upstream `--large-cluster-size-threshold`).
const LARGE: usize = 50;
/// Looked at again after this time where nothing may be emptied.
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
    /// The time between two nodes of a zone; `None`: none may be emptied.
    pub(super) fn rate(&self, zone: &str) -> Option<Duration> {
        let (ready, all) = self.counts.get(zone).copied().unwrap_or_default();
        let lost = all - ready;
        let partial = ready > 0 && lost > 2 && lost * 100 >= all * 55;
        match (self.evict, partial) {
            (false, _) => None,
            (true, false) => Some(NORMAL),
            (true, true) => (all > LARGE).then_some(SLOW),
        }
    }
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
