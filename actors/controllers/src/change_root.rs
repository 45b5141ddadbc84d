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
            None => {
                // Workloads that were deleted while they were disturbed are never removed otherwise.
                if disturbed.len() >= MAX_DISTURBED {
                    disturbed.pop_first();
                }
                disturbed.insert(uid, generation);
            }
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

#[cfg(test)]
mod tests {
    use oarlock_client::{decode, encode};
    use oarlock_meta::Revision;
    use oarlock_schema::resource;
    use oarlock_telemetry::traces::{Change, Settings};
    use serde_json::json;

    use super::*;

    const UID: &str = "6d0a3c52-9e1f-4b7a-8c55-00000000c001";

    /// Returns a ReplicaSet of three with so many available pods.
    fn set(generation: i64, available: i64) -> Obj {
        let status = json!({"observedGeneration": generation, "replicas": 3, "availableReplicas": available});
        let meta = json!({"name": "a", "namespace": "n", "uid": UID, "generation": generation});
        let json = json!({"metadata": meta, "spec": {"replicas": 3}, "status": status});
        decode(resource("apps", "v1", "replicasets").unwrap().ty, json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_root_of_a_change_is_recorded_when_the_change_ends_and_not_after_each_disturbance() {
        traces::start(Settings::ring());
        let roots = ChangeRoots::default();
        let write = |(before, after): (i64, i64), generation: i64, succeeds: bool| {
            let after = set(generation, after);
            let written = Object::new(after.ty(), encode(&after), Revision(1));
            let turning = Turning::of(last_change::has_ended(&set(generation, before)), &after);
            roots.written(turning, &if succeeds { Ok(written) } else { Err(Status::internal_error("lost")) });
            traces::ring().unwrap().trace(Change::new(UID, 1).trace()).len()
        };
        assert_eq!(write((0, 2), 1, true), 0);
        assert_eq!(write((2, 3), 1, false), 0, "the status is not written");
        assert_eq!(write((2, 3), 1, true), 1);
        assert_eq!(write((3, 2), 1, true), 1);
        assert_eq!(write((2, 3), 1, false), 1);
        assert_eq!(write((2, 3), 1, true), 1, "available again");
        assert_eq!(write((3, 2), 2, true), 1);
        assert_eq!(write((2, 3), 3, true), 2, "a change of its own");
        let spans = traces::ring().unwrap().trace(Change::new(UID, 1).trace());
        assert_eq!(
            spans.iter().map(|span| &*span.name).collect::<Vec<_>>(),
            ["replicaset create", "replicaset update"]
        );
        assert_eq!(spans[1].span_context.span_id(), Change::new(UID, 3).context().span_id());
    }

    #[test]
    fn of_more_disturbed_workloads_than_are_remembered_one_is_forgotten() {
        let (roots, after) = (ChangeRoots::default(), set(1, 2));
        let written = Ok(Object::new(after.ty(), encode(&after), Revision(1)));
        let disturb = |number: usize| {
            let uid = Uid::from(format!("{number:05}").as_str());
            roots.written(Some(Turning { uid, generation: 1, root: None }), &written);
        };
        (0..=MAX_DISTURBED).for_each(disturb);
        let known = |number: usize| roots.disturbed.lock().contains_key(&Uid::from(format!("{number:05}").as_str()));
        assert_eq!(roots.disturbed.lock().len(), MAX_DISTURBED);
        assert_eq!([0, 1, MAX_DISTURBED].map(known), [false, true, true]);
    }
}
