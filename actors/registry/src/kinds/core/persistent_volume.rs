//! PersistentVolumes: start Pending and record the time of the last phase transition.

use oarlock_schema::{Obj, Value};

use crate::fields;
use crate::kind::{Request, Strategy};

const PHASE_TRANSITION_TIME: [&str; 2] = ["status", "lastPhaseTransitionTime"];

/// Strategy of persistent volumes.
#[derive(Debug)]
pub struct PersistentVolumeStrategy;

impl Strategy for PersistentVolumeStrategy {
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        fields::reset_for_create(request.resource, obj);
        obj.set_at(&["status", "phase"], "Pending");
        obj.set_at(&PHASE_TRANSITION_TIME, request.now);
    }

    /// Sets the time of the last phase transition: the writer's if given, else the stored time while the phase is the same, else now.
    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        fields::reset_for_update(request.resource, request.endpoint, new, old);
        if request.endpoint != "status" {
            return;
        }
        let since = |obj: &Obj| obj.at(&PHASE_TRANSITION_TIME).filter(|v| !v.is_null()).cloned();
        let same_phase = new.at(&["status", "phase"]) == old.at(&["status", "phase"]);
        let given = since(new).filter(|time| same_phase || Some(time) != since(old).as_ref());
        let kept = given.or_else(|| if same_phase { since(old) } else { Some(Value::from(request.now)) });
        if let Some(time) = kept {
            new.set_at(&PHASE_TRANSITION_TIME, time);
        }
    }
}
