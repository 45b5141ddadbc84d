//! When each node last gave a sign of life, by this process's clock: what nodes write is compared, never believed, so their clocks do not
//! matter.

use std::collections::BTreeMap;

use oarlock_meta::Time;
use oarlock_runtime::Instant;
use oarlock_schema::Str;
use parking_lot::Mutex;

/// See the module text.
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
    /// A Lease as it is now; a change of it is a sign.
    pub(super) fn lease(&self, node: &str, renewed: &Str, now: Instant) {
        let mut nodes = self.nodes.lock();
        let sign = entry(&mut nodes, node, now);
        if sign.lease != *renewed {
            sign.lease = renewed.clone();
            sign.seen = now;
        }
    }

    /// A Ready condition as it is now; a change of its heartbeat is a sign. Tells when the last sign came.
    pub(super) fn heartbeat(&self, node: &str, at: Option<Time>, now: Instant) -> Instant {
        let mut nodes = self.nodes.lock();
        let sign = entry(&mut nodes, node, now);
        if sign.heartbeat != at {
            sign.heartbeat = at;
            sign.seen = now;
        }
        sign.seen
    }

    /// The node is gone.
    pub(super) fn forget(&self, node: &str) {
        self.nodes.lock().remove(node);
    }
}

fn entry<'a>(nodes: &'a mut BTreeMap<Str, Sign>, node: &str, now: Instant) -> &'a mut Sign {
    nodes.entry(node.into()).or_insert_with(|| Sign { seen: now, lease: Str::default(), heartbeat: None })
}
