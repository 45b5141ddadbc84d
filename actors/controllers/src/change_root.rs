//! The root span of a workload's change, recorded with the status that shows the change to be complete or failed (`docs/adr/0007-traces.md`).

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_apis::last_change;
use oarlock_client::Object;
use oarlock_meta::{Status, Uid};
use oarlock_runtime::clock;
use oarlock_schema::Obj;
use oarlock_telemetry::traces::{self, Step, Subject};
use parking_lot::Mutex;

/// The most workloads that are remembered as disturbed; the change of a further one counts as ended again when it is available again.
const MAX_DISTURBED: usize = 16_384;

/// The writer of the roots of a controller's workloads. Clones share what they remember.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeRoots {
    /// Workloads that fell back behind their spec, with the generation at which they had reached it: their change has ended before.
    disturbed: Arc<Mutex<BTreeMap<Uid, i64>>>,
}

/// A status write that ends a change, or shows that a workload fell back behind its spec.
#[derive(Debug)]
pub(crate) struct Turning {
    uid: Uid,
    generation: i64,
    /// The root to be recorded; `None` when the workload fell back.
    root: Option<Step>,
}

impl Turning {
    /// Compares a workload before a status write with the workload as it is to be written; `None` if the write is none, or tracing is off. A status write
    /// never changes the generation.
    pub(crate) fn of(had_ended: bool, after: &Obj) -> Option<Self> {
        let has_ended = last_change::has_ended(after);
        if had_ended == has_ended || !traces::recording() {
            return None;
        }
        let (uid, generation) = (Uid::from(after.meta().uid()), after.meta().generation());
        Some(Self { uid, generation, root: has_ended.then(|| root(after)) })
    }
}

impl ChangeRoots {
    /// Records the root of a change that a written status ends for the first time.
    pub(crate) fn written(&self, turning: Option<Turning>, written: &Result<Object, Status>) {
        let (Some(Turning { uid, generation, root }), Ok(_)) = (turning, written) else { return };
        let mut disturbed = self.disturbed.lock();
        let ended_before = disturbed.remove(&uid) == Some(generation);
        match root {
            Some(root) if !ended_before => traces::record(|| root.ended(clock::wall().into())),
            Some(_) => {}
            None if disturbed.len() < MAX_DISTURBED => drop(disturbed.insert(uid, generation)),
            None => {}
        }
    }
}

/// Returns the root of the last change of a workload.
fn root(obj: &Obj) -> Step {
    let meta = obj.meta();
    let kind = obj.ty().gvk.map_or("", |gvk| gvk.kind);
    let (namespace, name, uid, generation) = (obj.namespace(), obj.name(), meta.uid(), meta.generation());
    let root = Subject { kind, namespace, name, uid, generation }.root(last_change::verb(obj));
    match last_change::began(obj) {
        Some(began) => root.began(began.into()),
        None => root,
    }
}
