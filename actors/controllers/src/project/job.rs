//! The projection of Jobs.

use oarlock_informer::{Project, ResourceName};
use oarlock_meta::{LabelSelector, Time, Uid};
use oarlock_schema::views::batch_v1::{self, PodFailurePolicyRule};
use oarlock_schema::{Obj, Str};

use super::deployment::Condition;
use super::{selector, time};

/// The finalizer of pods that their Job has not counted yet (upstream `JobTrackingFinalizer`).
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The value of `spec.managedBy` for the controller of this crate (upstream `JobControllerName`).
const MANAGED_BY_US: &str = "kubernetes.io/job-controller";

/// The completion mode of a Job (`spec.completionMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Every successful pod counts (NonIndexed).
    #[default]
    NonIndexed,
    /// One success per index counts.
    Indexed,
    /// A mode that this version does not know.
    Unknown,
}

/// The action of a failure policy rule for a failed pod.
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
    /// An action that this version does not know: the rule is ignored.
    Unknown,
}

/// The requirement of a failure policy rule on the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// A container's exit code other than 0.
    ExitCodes {
        /// The container's name; `None` for any container.
        container: Option<Str>,
        /// Whether the operator is NotIn; otherwise In.
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
    /// The action for matching pods.
    pub(crate) action: Action,
    /// The pods that match.
    pub(crate) requirement: Requirement,
}

/// A rule of `spec.successPolicy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SuccessRule {
    /// The indexes that count; `None`: all.
    pub(crate) indexes: Option<Str>,
    /// The number of indexes that must succeed; `None`: all.
    pub(crate) count: Option<i64>,
}

/// The limits of failures per index (`spec.backoffLimitPerIndex`, `spec.maxFailedIndexes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PerIndex {
    /// The most failures of one index.
    pub(crate) limit: i64,
    /// The most indexes that may fail.
    pub(crate) max_failed: Option<i64>,
}

/// The projection of a Job's `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobState {
    /// Active pods: neither ended nor being deleted.
    pub(crate) active: i64,
    /// Active pods that are ready.
    pub(crate) ready: Option<i64>,
    /// Terminating pods.
    pub(crate) terminating: Option<i64>,
    /// Succeeded pods; in indexed Jobs succeeded indexes.
    pub(crate) succeeded: i64,
    /// Pods that failed.
    pub(crate) failed: i64,
    /// When the Job was started or resumed.
    pub(crate) started: Option<Time>,
    /// When the Job was complete.
    pub(crate) completed: Option<Time>,
    /// The succeeded indexes, as text.
    pub(crate) completed_indexes: Str,
    /// The failed indexes, as text.
    pub(crate) failed_indexes: Option<Str>,
    /// Succeeded pods that still have the finalizer and are not counted in `succeeded` yet.
    pub(crate) uncounted_succeeded: Vec<Uid>,
    /// Failed pods that still have the finalizer and are not counted in `failed` yet.
    pub(crate) uncounted_failed: Vec<Uid>,
    /// Conditions.
    pub(crate) conditions: Vec<Condition>,
}

impl JobState {
    /// Returns the condition of this type if its status is True.
    pub(crate) fn stands(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
    }

    /// Returns condition Complete or Failed of a finished Job, for which the controller does nothing more.
    pub(crate) fn finished(&self) -> Option<&Condition> {
        self.stands("Complete").or_else(|| self.stands("Failed"))
    }
}

/// The projection of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Job {
    /// `spec.parallelism`.
    pub(crate) parallelism: i64,
    /// `spec.completions`; `None`: a work queue, complete when one pod has succeeded and none is left.
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
    /// Whether a pod is replaced only when it has ended, not when its deletion begins (upstream `onlyReplaceFailedPods`).
    pub(crate) replaces_ended_only: bool,
    /// Whether `spec.managedBy` names another controller.
    pub(crate) external: bool,
    /// Whether the pods' containers are restarted on failure.
    pub(crate) restarts: bool,
    /// `spec.ttlSecondsAfterFinished`.
    pub(crate) ttl: Option<i64>,
    /// `status`.
    pub(crate) status: JobState,
}

impl Job {
    /// Whether the Job is indexed.
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
            external: spec.managed_by().is_some_and(|name| name != MANAGED_BY_US),
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
