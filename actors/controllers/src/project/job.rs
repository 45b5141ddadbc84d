//! Jobs.

use oarlock_informer::{Project, ResourceName};
use oarlock_meta::{LabelSelector, Time, Uid};
use oarlock_schema::views::batch_v1::{self, PodFailurePolicyRule};
use oarlock_schema::{Obj, Str};

use super::deployment::Condition;
use super::{selector, time};

/// The finalizer of pods that their Job has not counted yet (upstream `JobTrackingFinalizer`).
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// What `spec.managedBy` calls the controller of this crate (upstream `JobControllerName`).
const OURS: &str = "kubernetes.io/job-controller";

/// `spec.completionMode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Any success counts.
    #[default]
    NonIndexed,
    /// One success for each index.
    Indexed,
    /// A mode of another version.
    Unknown,
}

/// What a rule of the failure policy does with a failed pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The Job fails.
    FailJob,
    /// The pod's index fails.
    FailIndex,
    /// The failure does not count.
    Ignore,
    /// The failure counts.
    Count,
    /// An action of another version: the rule is passed over.
    Unknown,
}

/// What a rule of the failure policy looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// An exit code other than 0.
    ExitCodes {
        /// Only of this container.
        container: Option<Str>,
        /// Operator NotIn; In otherwise.
        not: bool,
        /// The codes.
        values: Box<[i64]>,
    },
    /// Types and statuses of pod conditions.
    Conditions(Box<[(Str, Str)]>),
}

/// A rule of `spec.podFailurePolicy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailureRule {
    /// What it does.
    pub(crate) action: Action,
    /// For which pods.
    pub(crate) requirement: Requirement,
}

/// A rule of `spec.successPolicy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SuccessRule {
    /// Which indexes; `None`: any.
    pub(crate) indexes: Option<Str>,
    /// How many of them; `None`: all.
    pub(crate) count: Option<i64>,
}

/// `spec.backoffLimitPerIndex` and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PerIndex {
    /// Failures that an index may have.
    pub(crate) limit: i64,
    /// Indexes that may fail.
    pub(crate) max_failed: Option<i64>,
}

/// `status` of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobState {
    /// Pods that neither ended nor were asked to go.
    pub(crate) active: i64,
    /// Of those, ready.
    pub(crate) ready: Option<i64>,
    /// Pods on their way out.
    pub(crate) terminating: Option<i64>,
    /// Pods that ended well; in indexed Jobs indexes.
    pub(crate) succeeded: i64,
    /// Pods that failed.
    pub(crate) failed: i64,
    /// When it was started or resumed.
    pub(crate) started: Option<Time>,
    /// When it was complete.
    pub(crate) completed: Option<Time>,
    /// Indexes that are done, as text.
    pub(crate) completed_indexes: Str,
    /// Indexes that failed, as text.
    pub(crate) failed_indexes: Option<Str>,
    /// Pods that ended well, still with their finalizer, and are not in `succeeded` yet.
    pub(crate) uncounted_succeeded: Vec<Uid>,
    /// Pods that failed, still with their finalizer, and are not in `failed` yet.
    pub(crate) uncounted_failed: Vec<Uid>,
    /// Conditions.
    pub(crate) conditions: Vec<Condition>,
}

impl JobState {
    /// The condition of this type that is True.
    pub(crate) fn stands(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
    }

    /// Condition Complete or Failed: nothing is done for it any more.
    pub(crate) fn finished(&self) -> Option<&Condition> {
        self.stands("Complete").or_else(|| self.stands("Failed"))
    }
}

/// See the module text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Job {
    /// `spec.parallelism`.
    pub(crate) parallelism: i64,
    /// `spec.completions`; `None`: a work queue, complete when one pod ended well and none is left.
    pub(crate) completions: Option<i64>,
    /// `spec.activeDeadlineSeconds`.
    pub(crate) deadline: Option<i64>,
    /// `spec.backoffLimit`.
    pub(crate) backoff_limit: i64,
    /// `spec.backoffLimitPerIndex`.
    pub(crate) per_index: Option<PerIndex>,
    /// `spec.selector`; `None` selects nothing.
    pub(crate) selector: Option<LabelSelector>,
    /// `spec.completionMode`.
    pub(crate) mode: Mode,
    /// `spec.suspend`.
    pub(crate) suspend: bool,
    /// `spec.podFailurePolicy`.
    pub(crate) failure_policy: Option<Box<[FailureRule]>>,
    /// `spec.successPolicy`.
    pub(crate) success_policy: Box<[SuccessRule]>,
    /// A pod is replaced when it has ended, and not when it is asked to go (upstream `onlyReplaceFailedPods`).
    pub(crate) replaces_ended_only: bool,
    /// `spec.managedBy` names somebody else.
    pub(crate) external: bool,
    /// Containers of its pods are restarted on failure.
    pub(crate) restarts: bool,
    /// `spec.ttlSecondsAfterFinished`.
    pub(crate) ttl: Option<i64>,
    /// `status`.
    pub(crate) status: JobState,
}

impl Job {
    /// Its pods have indexes.
    pub(crate) fn indexed(&self) -> bool {
        self.mode == Mode::Indexed
    }
}

impl Project for Job {
    const RESOURCE: ResourceName = ResourceName::new("batch", "v1", "jobs");

    fn project(obj: &Obj) -> Self {
        let Some(view) = obj.view::<batch_v1::Job<'_>>() else { return Self::default() };
        let spec = view.spec();
        let failure_policy: Option<Box<[FailureRule]>> =
            spec.pod_failure_policy().map(|policy| policy.rules().iter().filter_map(failure_rule).collect());
        let success = |policy: batch_v1::SuccessPolicy<'_>| policy.rules().iter().map(success_rule).collect();
        Self {
            parallelism: spec.parallelism().unwrap_or(1),
            completions: spec.completions(),
            deadline: spec.active_deadline_seconds(),
            backoff_limit: spec.backoff_limit().unwrap_or(6),
            per_index: spec
                .backoff_limit_per_index()
                .map(|limit| PerIndex { limit, max_failed: spec.max_failed_indexes() }),
            selector: selector(spec.selector()),
            mode: match spec.completion_mode() {
                None | Some("NonIndexed") => Mode::NonIndexed,
                Some("Indexed") => Mode::Indexed,
                Some(_) => Mode::Unknown,
            },
            suspend: spec.suspend() == Some(true),
            replaces_ended_only: failure_policy.is_some() || spec.pod_replacement_policy() == Some("Failed"),
            failure_policy,
            success_policy: spec.success_policy().map(success).unwrap_or_default(),
            external: spec.managed_by().is_some_and(|name| name != OURS),
            restarts: spec.template().spec().restart_policy() == "OnFailure",
            ttl: spec.ttl_seconds_after_finished(),
            status: state(view.status()),
        }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

fn failure_rule(rule: PodFailurePolicyRule<'_>) -> Option<FailureRule> {
    let requirement = match rule.on_exit_codes() {
        Some(codes) => Requirement::ExitCodes {
            container: codes.container_name().map(Str::from),
            not: match codes.operator() {
                "In" => false,
                "NotIn" => true,
                _ => return None,
            },
            values: codes.values().iter().collect(),
        },
        None => {
            let pair =
                |one: batch_v1::PodFailurePolicyOnPodConditionsPattern<'_>| (one.type_().into(), one.status().into());
            Requirement::Conditions(rule.on_pod_conditions().iter().map(pair).collect())
        }
    };
    let action = match rule.action() {
        "FailJob" => Action::FailJob,
        "FailIndex" => Action::FailIndex,
        "Ignore" => Action::Ignore,
        "Count" => Action::Count,
        _ => Action::Unknown,
    };
    Some(FailureRule { action, requirement })
}

fn success_rule(rule: batch_v1::SuccessPolicyRule<'_>) -> SuccessRule {
    SuccessRule { indexes: rule.succeeded_indexes().map(Str::from), count: rule.succeeded_count() }
}

fn state(status: batch_v1::JobStatus<'_>) -> JobState {
    let uncounted = status.uncounted_terminated_pods();
    let uids = |list: oarlock_schema::views::List<'_, &str>| list.iter().map(Uid::from).collect();
    JobState {
        active: status.active(),
        ready: status.ready(),
        terminating: status.terminating(),
        succeeded: status.succeeded(),
        failed: status.failed(),
        started: status.start_time().and_then(time),
        completed: status.completion_time().and_then(time),
        completed_indexes: status.completed_indexes().into(),
        failed_indexes: status.failed_indexes().map(Str::from),
        uncounted_succeeded: uncounted.map(|pods| uids(pods.succeeded())).unwrap_or_default(),
        uncounted_failed: uncounted.map(|pods| uids(pods.failed())).unwrap_or_default(),
        conditions: status.conditions().values().iter().filter_map(Condition::read).collect(),
    }
}
