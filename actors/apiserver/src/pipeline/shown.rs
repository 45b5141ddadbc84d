//! As what the admission stages see a request.

use oarlock_meta::Status;
use oarlock_schema::{Obj, Value};

use crate::subresources::scale::scale_of;
use crate::target::Target;

/// As what the admission stages see a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shown {
    /// With the objects of the attempt.
    AsItIs,
    /// With another form of these objects.
    As(&'static Form),
    /// Not at all: the attempt is a part of a request that they have seen (the deletion of an Eviction).
    NotAgain,
}

/// Another form of the objects of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// The form of an object.
    pub(crate) read: fn(&Obj) -> Result<Obj, Status>,
    /// Copies what the stages changed in the form back into the object.
    pub(crate) write: fn(&Obj, &mut Obj),
}

/// A workload as `scale` shows it.
const SCALE: Form = Form { read: scale_of, write: set_replicas };

impl Shown {
    /// As what a change through an endpoint is shown.
    pub(crate) fn of(target: &Target<'_>) -> Self {
        if target.subresource == "scale" { Self::As(&SCALE) } else { Self::AsItIs }
    }
}

fn set_replicas(scale: &Obj, workload: &mut Obj) {
    let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_int).unwrap_or(0);
    workload.set_at(&["spec", "replicas"], replicas);
}
