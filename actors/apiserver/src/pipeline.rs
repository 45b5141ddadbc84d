//! The pipeline of writes: [`run`] fixes the order of the stages for every request that writes, connects, or posts a review.
//!
//! A [`Source`] implements the stages that differ between kinds of requests (a new object, a changed one, a deletion, a Binding, a review): how the
//! object is made, which extra rules apply, and what is done in the end. All other stages are common.

mod admit;
mod commit;
mod life;
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

pub(crate) use commit::{Commit, Encoded};
pub(crate) use shown::Shown;

/// How often an attempt is committed again because a companion, an object that is committed together with its own (a quota, the node port allocation), has
/// changed meanwhile. Turns leave one contender per server, so that so many lost races in a row are no coincidence.
const COMPANION_RETRIES: usize = 64;

/// One attempt to execute a request, on one state of the object that the request is about.
pub(crate) struct Attempt<'a> {
    pub(crate) server: &'a Server,
    pub(crate) caller: &'a Caller,
    pub(crate) target: &'a Target<'a>,
    pub(crate) operation: Operation,
    /// The form in which the admission stages see the request.
    pub(crate) shown: Shown,
    /// The new object, or the body of the request; `None` for a deletion.
    pub(crate) object: Option<Obj>,
    /// The stored object, for a change and a deletion.
    pub(crate) old: Option<&'a Obj>,
    /// Input and output of the admission stages besides the object.
    pub(crate) context: RequestContext,
}

impl<'a> Attempt<'a> {
    /// Creates an attempt of a request that the admission stages see as it is.
    pub(crate) fn new(
        server: &'a Server,
        caller: &'a Caller,
        target: &'a Target<'a>,
        operation: Operation,
        dry_run: bool,
    ) -> Self {
        let context = RequestContext { max_wait: caller.max_wait(), ..RequestContext::new(caller.deadline, dry_run) };
        Self { server, caller, target, operation, shown: Shown::AsItIs, object: None, old: None, context }
    }

    /// Returns what a registry strategy needs to know of the request.
    fn request<'r>(&self, now: &'r str) -> Request<'r>
    where
        'a: 'r,
    {
        let user = &self.caller.user;
        let user = Requester { name: &user.name, uid: &user.uid, groups: &user.groups, extra: &user.extra };
        Request { resource: self.target.resource(), endpoint: self.target.subresource, now, user }
    }
}

/// The stages of [`run`] that are specific to one kind of request. A stage does nothing unless the implementation overrides it.
pub(crate) trait Source: Send + Sized {
    /// The result of the request.
    type Outcome: Send;

    /// Whether the object of an attempt is the stored object. A Binding, a review or the options of a connection is not stored.
    const STORED: bool = true;

    /// Whether the commit removes the stored object, so that its addresses and ports must be released.
    fn removes(&self, _attempt: &Attempt<'_>) -> bool {
        false
    }

    /// Records the managers of the object's fields.
    ///
    /// # Errors
    /// When the kind has no version in which managers are recorded.
    fn own(&mut self, _attempt: &mut Attempt<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Generates a name for an object that has none.
    fn generate_name(&mut self, _attempt: &mut Attempt<'_>) {}

    /// Fills in the fields that the server sets, and restores those that the request may not change.
    ///
    /// # Errors
    /// A Status for a request that cannot be executed at all.
    fn prepare(&mut self, _request: &Request<'_>, _attempt: &mut Attempt<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Validates the object.
    ///
    /// # Errors
    /// A Status with every validation error.
    fn validate(&mut self, _request: &Request<'_>, _attempt: &mut Attempt<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Encodes the write to be committed; `None` for a request that writes nothing here.
    ///
    /// # Errors
    /// 400 for an invalid name.
    fn encode(&mut self, _attempt: &mut Attempt<'_>) -> Result<Option<Encoded>, Status> {
        Ok(None)
    }

    /// Makes the outcome from the commit of the write, or does the work that a request without a write (`None`) is for.
    ///
    /// # Errors
    /// A Status for what failed; a conflict is an outcome, not an error.
    fn finish(
        self,
        attempt: Attempt<'_>,
        committed: Option<Commit>,
    ) -> impl Future<Output = Result<Self::Outcome, Status>> + Send;
}

/// Runs an attempt through all stages, in upstream's order.
///
/// When only a companion of the object has changed before the commit, the stages from allocation on run again: they are those that ask for companions, and
/// what the stages before them have made of the object still holds. A change of the object itself is an outcome, with which the source starts anew.
///
/// # Errors
/// The error of the first stage that refuses the request; 500 ServerTimeout when companions never stop changing.
pub(crate) async fn run<S: Source>(mut attempt: Attempt<'_>, mut source: S) -> Result<S::Outcome, Status> {
    // Upstream records managers before mutating admission: fields that a stage fills in belong to the client that made the request.
    source.own(&mut attempt)?;
    if S::STORED && seeded_bug!("escalation_before_mutation") {
        attempt.check_escalation()?;
    }
    attempt.mutate().await?;
    // Stages that want to see the changes of later stages would be called again here (upstream: reinvocationPolicy). No stage does so yet.
    source.generate_name(&mut attempt);
    let now = now::text();
    let request = attempt.request(&now);
    source.prepare(&request, &mut attempt)?;
    if S::STORED {
        attempt.drop_disabled();
    }
    source.validate(&request, &mut attempt)?;
    if S::STORED {
        // An object that is refused as invalid gets no warnings.
        attempt.warn();
        if !seeded_bug!("escalation_before_mutation") {
            attempt.check_escalation()?;
        }
    }
    for _ in 0..COMPANION_RETRIES {
        let unallocated = if S::STORED { attempt.allocate(source.removes(&attempt)).await? } else { None };
        if S::STORED || !seeded_bug!("bodies_are_not_judged") {
            attempt.judge(S::STORED).await?;
        }
        let committed = match source.encode(&mut attempt)? {
            None => None,
            Some(write) => match commit::commit(&mut attempt, write).await? {
                None if seeded_bug!("lost_companions_end_the_request") => break,
                None => {
                    attempt.back_to_allocation(unallocated);
                    continue;
                }
                committed => committed,
            },
        };
        return source.finish(attempt, committed).await;
    }
    let verb = match attempt.operation {
        Operation::Create => "create",
        Operation::Update => "update",
        Operation::Delete => "delete",
        Operation::Connect => "connect",
    };
    Err(Status::server_timeout(&attempt.target.resource().group_resource(), verb, 1))
}

impl Attempt<'_> {
    /// Drops the fields whose feature gate is off.
    fn drop_disabled(&mut self) {
        if let Some(object) = &mut self.object {
            self.server.disabled().drop(object, self.old);
        }
    }

    /// Adds the warnings that the object gives rise to.
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

    /// Allocates or releases the addresses and ports of a Service. The necessary writes are added to the commit of the attempt.
    /// Returns the object without what was allocated, unless nothing is allocated to objects of its kind.
    async fn allocate(&mut self, removes: bool) -> Result<Option<Obj>, Status> {
        let (server, target, old) = (self.server, self.target, self.old);
        if !allocate::is_service(target) || self.operation == Operation::Delete && !removes {
            return Ok(None);
        }
        let unallocated = self.object.clone();
        let turn = allocate::turn(server, target, &self.context, self.object.as_ref(), old).await;
        self.context.held.extend(turn);
        let companions = match (&mut self.object, old) {
            (_, Some(old)) if removes => allocate::on_delete(server, target, old),
            (Some(object), Some(old)) => allocate::on_update(server, target, object, old, self.context.dry_run)?,
            (Some(object), None) => allocate::on_create(server, target, object, self.context.dry_run)?,
            (None, _) => Vec::new(),
        };
        self.context.together.extend(companions);
        Ok(unallocated)
    }

    /// Takes back what the stages from allocation on have made, and ends the attempt's turns: requests that wait for them come first.
    fn back_to_allocation(&mut self, unallocated: Option<Obj>) {
        self.context.together.clear();
        self.context.held.clear();
        if unallocated.is_some() {
            self.object = unallocated;
        }
    }
}
