//! The pipeline of writes: [`run`] states the order of their stages, for every request that writes, connects or asks for an answer.
//!
//! A [`Source`] says what is particular to one kind of request (a new object, a changed one, a deletion, a Binding, a review): which object it makes, which
//! rules of its own it keeps, and what it does in the end. The rest is the same for all of them.

mod admit;
mod commit;
mod shown;
#[cfg(test)]
mod tests;

use oarlock_admission::{Operation, RequestContext};
use oarlock_meta::Status;
use oarlock_registry::kind::{Request, Requester};
use oarlock_schema::Obj;
use oarlock_seeded_bug::seeded_bug;

use crate::caller::Caller;
use crate::server::Server;
use crate::target::Target;
use crate::{absent, allocate, escalation, now};

pub(crate) use commit::{Commit, Encoded, commit};
pub(crate) use shown::Shown;

/// One request, tried once on one state of the object that it is about.
pub(crate) struct Attempt<'a> {
    pub(crate) server: &'a Server,
    pub(crate) caller: &'a Caller,
    pub(crate) target: &'a Target<'a>,
    pub(crate) operation: Operation,
    /// As what the admission stages see the request.
    pub(crate) shown: Shown,
    /// The new object, or the body of the request; `None` for a deletion.
    pub(crate) object: Option<Obj>,
    /// The stored object, for a change and a deletion.
    pub(crate) old: Option<&'a Obj>,
    /// What the admission stages get and leave beside the object.
    pub(crate) context: RequestContext,
}

impl<'a> Attempt<'a> {
    /// An attempt of a request that the admission stages see as it is.
    pub(crate) fn new(
        server: &'a Server,
        caller: &'a Caller,
        target: &'a Target<'a>,
        operation: Operation,
        dry_run: bool,
    ) -> Self {
        let context =
            RequestContext { audit_id: caller.audit_id.clone(), ..RequestContext::new(caller.deadline, dry_run) };
        Self { server, caller, target, operation, shown: Shown::AsItIs, object: None, old: None, context }
    }

    /// What a strategy knows of the request.
    fn request<'r>(&self, now: &'r str) -> Request<'r>
    where
        'a: 'r,
    {
        let user = &self.caller.user;
        let user = Requester { name: &user.name, uid: &user.uid, groups: &user.groups, extra: &user.extra };
        Request { resource: self.target.resource(), endpoint: self.target.subresource, now, user }
    }
}

/// What is particular to one kind of request. Each method is a stage of [`run`], and does nothing unless a source says otherwise.
pub(crate) trait Source: Send + Sized {
    /// What the request comes to.
    type Outcome: Send;

    /// Whether the object of an attempt is the one that is stored. Any other is a request of its own: a Binding, a review, the options of a connection.
    const STORED: bool = true;

    /// Whether the stored object is removed by what is committed, so that its addresses and ports are free again.
    fn removes(&self, _attempt: &Attempt<'_>) -> bool {
        false
    }

    /// Notes who owns which field.
    ///
    /// # Errors
    /// When the kind has no form in which they are noted.
    fn own(&mut self, _attempt: &mut Attempt<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Makes up a name for an object that has none.
    fn generate_name(&mut self, _attempt: &mut Attempt<'_>) {}

    /// Fills in what the server says of the object, and puts back what the request may not change.
    ///
    /// # Errors
    /// A Status for what cannot be done at all.
    fn prepare(&mut self, _request: &Request<'_>, _attempt: &mut Attempt<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Checks the object.
    ///
    /// # Errors
    /// A Status with what is wrong.
    fn validate(&mut self, _request: &Request<'_>, _attempt: &mut Attempt<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// The write that is to be committed; `None` for a request that writes nothing here.
    ///
    /// # Errors
    /// 400 for a name that cannot be one.
    fn encode(&mut self, _attempt: &mut Attempt<'_>) -> Result<Option<Encoded>, Status> {
        Ok(None)
    }

    /// Commits, or does what else the request is for.
    ///
    /// # Errors
    /// A Status for what failed; conflicts are outcomes.
    fn commit(
        self,
        attempt: Attempt<'_>,
        write: Option<Encoded>,
    ) -> impl Future<Output = Result<Self::Outcome, Status>> + Send;
}

/// Leads an attempt through all stages, in upstream's order.
///
/// # Errors
/// The first refusal.
pub(crate) async fn run<S: Source>(mut attempt: Attempt<'_>, mut source: S) -> Result<S::Outcome, Status> {
    // Upstream notes owners before mutating admission: what a stage fills in belongs to whoever made the request.
    source.own(&mut attempt)?;
    if S::STORED && seeded_bug!("escalation_before_mutation") {
        attempt.check_escalation()?;
    }
    attempt.mutate().await?;
    // Stages that want to see what later ones changed would be called again here (upstream: reinvocationPolicy). No stage does yet.
    source.generate_name(&mut attempt);
    let now = now::text();
    let request = attempt.request(&now);
    source.prepare(&request, &mut attempt)?;
    if S::STORED {
        attempt.drop_disabled();
    }
    source.validate(&request, &mut attempt)?;
    if S::STORED {
        // What is refused as invalid is not warned of as well.
        attempt.warn();
        if !seeded_bug!("escalation_before_mutation") {
            attempt.check_escalation()?;
        }
        attempt.allocate(source.removes(&attempt)).await?;
    }
    if S::STORED || !seeded_bug!("bodies_are_not_judged") {
        attempt.judge(S::STORED).await?;
    }
    let write = source.encode(&mut attempt)?;
    source.commit(attempt, write).await
}

impl Attempt<'_> {
    /// Drops the fields whose feature is off.
    fn drop_disabled(&mut self) {
        if let Some(object) = &mut self.object {
            self.server.disabled().drop(object, self.old);
        }
    }

    /// Warns the caller of what the object says.
    fn warn(&self) {
        let Some(object) = &self.object else { return };
        if self.operation == Operation::Create {
            oarlock_apis::name_warnings(object).into_iter().for_each(|text| self.caller.warn(text));
        }
        oarlock_apis::warnings(object).into_iter().for_each(|text| self.caller.warn(text));
        absent::warn(self.caller, self.target, object);
    }

    /// Refuses a role or binding that grants what the caller does not hold.
    fn check_escalation(&self) -> Result<(), Status> {
        let Some(object) = &self.object else { return Ok(()) };
        escalation::check(self.server, self.caller, self.target, object, self.old)
    }

    /// Gives a Service its addresses and ports, or takes them back: what must be committed for it goes into the commit of the attempt.
    async fn allocate(&mut self, removes: bool) -> Result<(), Status> {
        let (server, target, old) = (self.server, self.target, self.old);
        if self.operation == Operation::Delete && !removes {
            return Ok(());
        }
        self.context.held.extend(allocate::turn(server, target, self.object.as_ref(), old).await);
        let companions = match (&mut self.object, old) {
            (_, Some(old)) if removes => allocate::on_delete(server, target, old),
            (Some(object), Some(old)) => allocate::on_update(server, target, object, old)?,
            (Some(object), None) => allocate::on_create(server, target, object, self.context.dry_run)?,
            (None, _) => Vec::new(),
        };
        self.context.together.extend(companions);
        Ok(())
    }
}
