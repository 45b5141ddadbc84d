//! How requests pass the admission stages when the stages see another object than the stored one: the body of a subresource, a review, the options of a
//! connection.

#[cfg(test)]
mod tests;

use oarlock_admission::Operation;
use oarlock_meta::Status;
use oarlock_schema::{Obj, Value};

use crate::caller::Caller;
use crate::rights::OwnRights;
use crate::server::Server;
use crate::stages;
use crate::subresources::scale::scale_of;
use crate::target::Target;

/// One request on its way through the stages.
#[derive(Clone, Copy)]
pub(crate) struct Admission<'a> {
    pub(crate) server: &'a Server,
    pub(crate) caller: &'a Caller,
    pub(crate) target: &'a Target<'a>,
    pub(crate) operation: Operation,
    pub(crate) dry_run: bool,
}

impl Admission<'_> {
    /// Lets the stages change the object.
    ///
    /// # Errors
    /// Whatever a stage refuses.
    pub(crate) async fn admit(&self, object: Option<&mut Obj>, old: Option<&Obj>) -> Result<(), Status> {
        let rights = OwnRights { server: self.server, caller: self.caller };
        let mut attributes = stages::attributes(&rights, self.operation, self.target, object, old, self.dry_run);
        let result = self.server.admission().admit(&mut attributes).await;
        attributes.warnings.drain(..).for_each(|text| self.caller.warn(text));
        result
    }

    /// Lets the stages check the final object.
    ///
    /// # Errors
    /// Whatever a stage refuses; 500 when a stage wants something committed with an object that is not stored.
    pub(crate) async fn validate(&self, object: Option<&mut Obj>, old: Option<&Obj>) -> Result<(), Status> {
        let rights = OwnRights { server: self.server, caller: self.caller };
        let mut attributes = stages::attributes(&rights, self.operation, self.target, object, old, self.dry_run);
        stages::validate(self.server, self.caller, &mut attributes).await?;
        if attributes.together.is_empty() {
            return Ok(());
        }
        Err(Status::internal_error("an admission stage charged for an object that is not stored"))
    }
}

/// Another form in which the stages see the changes of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// The form of an object.
    pub(crate) read: fn(&Obj) -> Result<Obj, Status>,
    /// Copies what the stages changed in the form back into the object.
    pub(crate) write: fn(&Obj, &mut Obj),
}

/// A workload as `scale` shows it.
const SCALE: Form = Form { read: scale_of, write: set_replicas };

impl Form {
    /// The form of an endpoint; `None` where the stages see the object itself.
    pub(crate) fn of(target: &Target<'_>) -> Option<&'static Self> {
        (target.subresource == "scale").then_some(&SCALE)
    }
}

fn set_replicas(scale: &Obj, workload: &mut Obj) {
    let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_int).unwrap_or(0);
    workload.set_at(&["spec", "replicas"], replicas);
}
