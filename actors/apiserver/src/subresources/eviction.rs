//! `pods/eviction`: a deletion that PodDisruptionBudgets may refuse.

use std::sync::Arc;

use oarlock_auth::UserInfo;
use oarlock_client::{DeleteOptions, Propagation, Reply, WriteOptions};
use oarlock_meta::{Cause, GroupResource, Status};
use oarlock_pods::budget::{self, Verdict};
use oarlock_pods::termination;
use oarlock_registry::kind::Request;
use oarlock_schema::views::core_v1::{Pod, PodMut};
use oarlock_schema::views::policy_v1::{Eviction, PodDisruptionBudget, PodDisruptionBudgetMut};
use oarlock_schema::{Obj, Str, resource};
use oarlock_seeded_bug::seeded_bug;
use oarlock_store::Entry;

use crate::caller::Caller;
use crate::change::{Change, parse_revision};
use crate::pipeline::{Attempt, Commit, Source};
use crate::server::Server;
use crate::target::Target;
use crate::verbs::delete;
use crate::verbs::update::modify;

/// Seconds after which a client should retry a blocked eviction while the budget has not been observed yet; upstream's value.
const RETRY_AFTER_SECONDS: u32 = 10;

/// The source of the pipeline for an Eviction of the pod that the URL names.
pub(crate) struct PostedEviction<'a> {
    options: &'a WriteOptions,
    /// Options of the pod's deletion, from the Eviction.
    deletion: DeleteOptions,
}

impl<'a> PostedEviction<'a> {
    pub(crate) fn new(options: &'a WriteOptions) -> Self {
        Self { options, deletion: DeleteOptions::default() }
    }
}

impl Source for PostedEviction<'_> {
    type Outcome = Reply;

    const STORED: bool = false;

    fn validate(&mut self, _: &Request<'_>, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let body = attempt.object.as_ref();
        if body.is_none_or(|body| body.meta().name() != attempt.target.name) {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let Some(eviction) = body.and_then(|body| body.view::<Eviction<'_>>()) else {
            return Err(Status::bad_request("the body is no Eviction"));
        };
        self.deletion = options_of(eviction, self.options.dry_run)?;
        Ok(())
    }

    async fn finish(self, attempt: Attempt<'_>, _: Option<Commit>) -> Result<Reply, Status> {
        evict(attempt.server, attempt.caller, attempt.target, self.options, self.deletion).await
    }
}

/// How often an eviction without disruption is retried because the pod has changed meanwhile (upstream: 20).
const CONFLICT_RETRIES: usize = 20;

/// Evicts the pod that the URL names, as an admitted Eviction says. The admission stages see neither the condition that the pod gets nor its
/// deletion.
///
/// # Errors
/// 404; 409 when a precondition does not hold; 429 when a budget allows no disruption; 500 when more than one budget matches.
async fn evict(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &WriteOptions,
    deletion: DeleteOptions,
) -> Result<Reply, Status> {
    // The Eviction's own options may ask for the dry run, which must not spend a disruption either.
    let dry_run = deletion.dry_run && !seeded_bug!("dry_eviction_spends");
    let options = &WriteOptions { dry_run: options.dry_run || dry_run, ..options.clone() };
    let pod_target = Target { subresource: "", ..*target };
    let stated = deletion.resource_version.is_some();
    let mut tries = 0;
    loop {
        let entry = server.current(&pod_target.key(target.name)?).await?.ok_or_else(|| pod_target.not_found())?;
        let pod = pod_target.decode(&entry)?;
        let Some(evicted) = pod.view::<Pod<'_>>() else { return Err(Status::internal_error("stored pod is no pod")) };
        // A pod that disrupts nothing in this state may do so in a later one, so only this state is deleted.
        let pinned = DeleteOptions { resource_version: Some(entry.revision), ..deletion.clone() };
        if budget::is_disruption(evicted) {
            return match spend(server, caller, target, evicted, options).await? {
                Spent::Free(budget) if !stated => match remove(server, caller, target, options, pinned).await {
                    Err(status) if status.is_conflict() => Err(unobserved(&budget)),
                    done => done,
                },
                _ => remove(server, caller, target, options, deletion).await,
            };
        }
        let deleted = evicted.metadata().deletion_timestamp().is_some_and(|time| !time.is_empty());
        let over = deleted || termination::has_ended(evicted.status());
        if stated || over {
            return remove(server, caller, target, options, deletion).await;
        }
        match remove(server, caller, target, options, pinned).await {
            Err(status) if status.is_conflict() && tries < CONFLICT_RETRIES => tries += 1,
            done => return done,
        }
    }
}

/// Deletes the evicted pod.
async fn remove(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &WriteOptions,
    mut deletion: DeleteOptions,
) -> Result<Reply, Status> {
    if !deletion.dry_run {
        let disrupted = disrupt(server, caller, target, &deletion, options).await?;
        if deletion.resource_version.is_some() {
            // The precondition has been checked. The eviction's own write of the condition has changed the revision.
            deletion.resource_version = Some(disrupted.revision);
        }
    }
    delete::delete_admitted(server, caller, &Target { subresource: "", ..*target }, &deletion).await?;
    Ok(Reply::Status(Status { code: 201, ..Status::success() }))
}

/// Sets the condition that states the reason of the pod's deletion (KEP-3329).
async fn disrupt(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    delete_options: &DeleteOptions,
    options: &WriteOptions,
) -> Result<Arc<Entry>, Status> {
    let pod = Target { subresource: "status", ..*target };
    let mut change = |old: &Obj, revision: oarlock_meta::Revision| -> Result<Change, Status> {
        oarlock_registry::delete::check_preconditions(pod.kind, old, revision.get(), delete_options)?;
        let mut obj = old.clone();
        let why = ("EvictionByEvictionAPI", "Eviction API: evicting");
        super::condition(&mut PodMut::new(&mut obj), "DisruptionTarget", why.0, why.1);
        Ok(Change::own(obj))
    };
    Ok(modify(server, caller, &pod, options, &mut change).await?.entry())
}

/// Returns the options of the pod's deletion.
///
/// # Errors
/// 500, as upstream answers, when request and body differ about a dry run.
fn options_of(eviction: Eviction<'_>, dry_run: bool) -> Result<DeleteOptions, Status> {
    let Some(given) = eviction.delete_options() else {
        return Ok(DeleteOptions { dry_run, ..DeleteOptions::default() });
    };
    let own: Vec<&str> = given.dry_run().iter().collect();
    if dry_run && !own.is_empty() && own != ["All"] {
        let text = format!("Non-matching dry-run options in request and content: [All] and [{}]", own.join(" "));
        return Err(Status::unexpected(text));
    }
    let preconditions = given.preconditions();
    Ok(DeleteOptions {
        grace_period_seconds: given.grace_period_seconds(),
        propagation: match given.propagation_policy() {
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            _ => None,
        },
        uid: preconditions.and_then(|p| p.uid()).map(Str::new),
        resource_version: preconditions.and_then(|p| p.resource_version()).map(parse_revision).transpose()?,
        dry_run: dry_run || !own.is_empty(),
    })
}

/// The price of an eviction: whether a disruption is taken from a budget.
enum Spent {
    /// No budget covers the pod, or a disruption has been taken from the budget.
    Paid,
    /// The budget with this name does not protect the pod in its present state.
    Free(String),
}

/// Takes one disruption from the budget that covers the pod, by compare-and-swap on the budget's status. The server writes the budget in its own
/// name: the evicting caller needs no right to write budgets, and admission stages see the server as the writer.
async fn spend(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    evicted: Pod<'_>,
    options: &WriteOptions,
) -> Result<Spent, Status> {
    let Some(budgets) = resource("policy", "v1", "poddisruptionbudgets") else { return Ok(Spent::Paid) };
    let labels = evicted.metadata().labels();
    let covering: Vec<Obj> = server
        .reader()
        .list(budgets, Some(target.namespace))
        .into_iter()
        .filter(|obj| obj.view::<PodDisruptionBudget<'_>>().is_some_and(|it| budget::covers(it, labels)))
        .collect();
    let found = match covering.as_slice() {
        [] => return Ok(Spent::Paid),
        [one] => one,
        _ => {
            // Upstream's answer has neither a reason nor details.
            let text =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Status::custom(500, "", text));
        }
    };
    let budget_target = Target::new(budgets, "status", target.namespace, found.name());
    let pod_name = target.name;
    let now = crate::now::text();
    let mut free = false;
    let mut change = |old: &Obj, _: oarlock_meta::Revision| -> Result<Change, Status> {
        let Some(view) = old.view::<PodDisruptionBudget<'_>>() else {
            return Err(Status::internal_error("stored budget is no budget"));
        };
        let verdict = budget::verdict(view, evicted.status());
        free = verdict == Verdict::Free;
        match verdict {
            Verdict::Free => return Ok(Change::asked(old.clone(), None)),
            Verdict::Costs => {}
            Verdict::Unobserved => return Err(unobserved(old.name())),
            Verdict::Negative => return Err(forbidden(old.name(), "pdb disruptions allowed is negative")),
            Verdict::TooManyUnconfirmed => {
                let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
                return Err(forbidden(old.name(), why));
            }
            Verdict::Refused => return Err(blocked(budget::refusal(view), 0)),
        }
        let mut obj = old.clone();
        budget::spend(&mut PodDisruptionBudgetMut::new(&mut obj), pod_name, &now);
        // The write is validated like an update of the status, and the server comes to own the fields that it changes.
        Ok(Change::asked(obj, None))
    };
    let own = Caller::new(Arc::new(UserInfo::apiserver()), "kube-apiserver".into(), caller.deadline);
    modify(server, &own, &budget_target, options, &mut change).await?;
    Ok(if free { Spent::Free(found.name().to_owned()) } else { Spent::Paid })
}

fn forbidden(budget: &str, why: &str) -> Status {
    Status::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), budget, why)
}

fn unobserved(budget: &str) -> Status {
    let text = format!("The disruption budget {budget} is still being processed by the server.");
    blocked(text, RETRY_AFTER_SECONDS)
}

fn blocked(message: String, retry_after: u32) -> Status {
    let mut status =
        Status::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", retry_after);
    status.details_mut().causes.push(Cause { reason: "DisruptionBudget".into(), message, field: String::new() });
    status
}
