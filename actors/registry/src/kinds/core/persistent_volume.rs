//! Volumes start Pending, and say since when they are in their phase.

use oarlock_schema::{Obj, Value};

use crate::kind::{Request, Strategy};
use crate::prepare;

const SINCE: [&str; 2] = ["status", "lastPhaseTransitionTime"];

/// Strategy of persistent volumes.
#[derive(Debug)]
pub struct PersistentVolumeStrategy;

impl Strategy for PersistentVolumeStrategy {
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        prepare::reset_for_create(request.resource, obj);
        obj.set_at(&["status", "phase"], "Pending");
        obj.set_at(&SINCE, request.now);
    }

    /// The writer of a phase may say since when it holds; otherwise it is now, or as before when the phase is the same.
    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        prepare::reset_for_update(request, new, old);
        if request.endpoint != "status" {
            return;
        }
        let since = |obj: &Obj| obj.at(&SINCE).filter(|v| !v.is_null()).cloned();
        let same_phase = new.at(&["status", "phase"]) == old.at(&["status", "phase"]);
        let told = since(new).filter(|time| same_phase || Some(time) != since(old).as_ref());
        let kept = told.or_else(|| if same_phase { since(old) } else { Some(Value::from(request.now)) });
        if let Some(time) = kept {
            new.set_at(&SINCE, time);
        }
    }
}
