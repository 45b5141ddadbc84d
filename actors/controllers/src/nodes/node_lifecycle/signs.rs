//! The last sign of life of each node, by this process's clock. Times that nodes write are only compared for changes, so the nodes' clocks do not matter.

use std::collections::BTreeMap;

use oarlock_meta::Time;
use oarlock_runtime::Instant;
use oarlock_schema::Str;
use parking_lot::Mutex;

/// The last signs of life of all nodes, by this process's clock.
#[derive(Debug, Default)]
pub(super) struct Signs {
    nodes: Mutex<BTreeMap<Str, Sign>>,
}

#[derive(Debug)]
struct Sign {
    seen: Instant,
    lease: Str,
    heartbeat: Option<Time>,
}

impl Signs {
    /// Records the renew time of a node's Lease; a change is a sign of life.
    pub(super) fn lease(&self, node: &str, renewed: &Str, now: Instant) {
        let mut nodes = self.nodes.lock();
        let sign = entry(&mut nodes, node, now);
        if sign.lease != *renewed {
            sign.lease = renewed.clone();
            sign.seen = now;
        }
    }

    /// Records the heartbeat of condition Ready; a change is a sign of life. Returns the time of the node's last sign of life.
    pub(super) fn heartbeat(&self, node: &str, at: Option<Time>, now: Instant) -> Instant {
        let mut nodes = self.nodes.lock();
        let sign = entry(&mut nodes, node, now);
        if sign.heartbeat != at {
            sign.heartbeat = at;
            sign.seen = now;
        }
        sign.seen
    }

    /// Forgets a deleted node.
    pub(super) fn forget(&self, node: &str) {
        self.nodes.lock().remove(node);
    }
}

fn entry<'a>(nodes: &'a mut BTreeMap<Str, Sign>, node: &str, now: Instant) -> &'a mut Sign {
    nodes.entry(node.into()).or_insert_with(|| Sign { seen: now, lease: Str::default(), heartbeat: None })
}
