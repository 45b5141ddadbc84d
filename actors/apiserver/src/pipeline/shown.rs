//! The form in which the admission stages see a request.

use oarlock_meta::Status;
use oarlock_schema::Obj;

use crate::subresources::scale::conversion::{scale_of, set_replicas};
use crate::target::Target;

/// The form in which the admission stages see a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shown {
    /// The stages see the objects of the attempt.
    AsItIs,
    /// The stages see another form of these objects.
    As(&'static Form),
    /// The stages do not see the attempt: it is part of a request that they have judged (the deletion of an Eviction).
    NotAgain,
}

/// A conversion between the objects of an attempt and the form that the stages see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// Converts an object into the form.
    pub(crate) read: fn(&Obj) -> Result<Obj, Status>,
    /// Copies the changes that the stages made in the form back into the object.
    pub(crate) write: fn(&Obj, &mut Obj),
}

/// The `scale` form of a workload.
const SCALE: Form = Form { read: scale_of, write: set_replicas };

impl Shown {
    /// Returns the form in which a change through an endpoint is shown.
    pub(crate) fn of(target: &Target<'_>) -> Self {
        if target.subresource == "scale" { Self::As(&SCALE) } else { Self::AsItIs }
    }
}
