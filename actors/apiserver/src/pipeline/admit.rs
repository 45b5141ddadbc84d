//! The two halves of admission: the mutating stages and the validating stages.

use oarlock_admission::{Attributes, Operation, RequestContext, Subject, UserPermissions};
use oarlock_meta::Status;
use oarlock_runtime::clock;
use oarlock_schema::Obj;

use super::{Attempt, Shown};
use crate::caller::Caller;
use crate::http::audit_id::AuditId;
use crate::metrics;
use crate::rights::OwnRights;
use crate::server::Server;
use crate::target::Target;

/// The half of admission that is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AdmissionHalf {
    Mutating,
    Judging,
}

impl Attempt<'_> {
    /// Runs the mutating stages.
    ///
    /// # Errors
    /// The first refusal.
    pub(super) async fn mutate(&mut self) -> Result<(), Status> {
        self.show(AdmissionHalf::Mutating).await
    }

    /// Runs the validating stages on the final object.
    ///
    /// # Errors
    /// The first refusal; 500 when a stage wants to commit a companion with an object that is not stored.
    pub(super) async fn judge(&mut self, stored: bool) -> Result<(), Status> {
        self.show(AdmissionHalf::Judging).await?;
        if stored || self.context.together.is_empty() {
            return Ok(());
        }
        Err(Status::internal_error("an admission stage charged for an object that is not stored"))
    }

    async fn show(&mut self, half: AdmissionHalf) -> Result<(), Status> {
        let passage =
            StageRun { server: self.server, caller: self.caller, target: self.target, operation: self.operation, half };
        let (object, old, context) = (&mut self.object, self.old, &mut self.context);
        let result = match self.shown {
            Shown::NotAgain => Ok(()),
            Shown::AsItIs => passage.pass(object.as_mut(), old, context).await,
            Shown::As(form) => {
                let before = old.map(form.read).transpose()?;
                let mut seen = object.as_ref().map(form.read).transpose()?;
                let result = passage.pass(seen.as_mut(), before.as_ref(), context).await;
                if let (AdmissionHalf::Mutating, Some(seen), Some(object)) = (half, &seen, object) {
                    (form.write)(seen, object);
                }
                result
            }
        };
        hand_on(self.caller, context);
        result
    }
}

/// A request that passes through one half of the stages.
struct StageRun<'a> {
    server: &'a Server,
    caller: &'a Caller,
    target: &'a Target<'a>,
    operation: Operation,
    half: AdmissionHalf,
}

impl StageRun<'_> {
    async fn pass(
        &self,
        object: Option<&mut Obj>,
        old: Option<&Obj>,
        context: &mut RequestContext,
    ) -> Result<(), Status> {
        let (target, user) = (self.target, &self.caller.user);
        let rights = OwnRights { server: self.server, caller: self.caller };
        let mut attributes = Attributes {
            operation: self.operation,
            resource: target.resource(),
            subresource: target.subresource,
            namespace: target.namespace,
            name: target.name,
            user: Subject { name: &user.name, groups: &user.groups, uid: &user.uid, extra: Some(&user.extra) },
            object,
            old,
            context,
            authorizer: Some(UserPermissions::new(&rights)),
            bus: self.server.state().bus(),
        };
        let stages = self.server.admission();
        let began = clock::now();
        let result = match self.half {
            AdmissionHalf::Mutating => stages.admit(&mut attributes).await,
            AdmissionHalf::Judging => stages.validate(&mut attributes).await,
        };
        metrics::admission(self.operation, self.half == AdmissionHalf::Mutating, result.is_err(), began.elapsed());
        result
    }
}

/// Passes on the warnings and annotations of the stages, even of a request that they refuse.
fn hand_on(caller: &Caller, context: &mut RequestContext) {
    context.warnings.drain(..).for_each(|text| caller.warn(text));
    for (name, value) in context.annotations.drain(..) {
        let audit_id = caller.audit_id.as_ref().map(AuditId::text);
        let audit_id = audit_id.as_deref();
        tracing::info!(name, value, audit_id, user = caller.user.name.as_str(), "audit annotation");
    }
}
