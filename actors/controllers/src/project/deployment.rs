//! The projection of Deployments.

use oarlock_informer::{Project, ResourceName};
use oarlock_meta::{LabelSelector, Time};
use oarlock_schema::views::{IntOrStr, View, apps_v1};
use oarlock_schema::{Obj, Str, Struct, TypeRef, Value};

use super::template::template;
use super::{Digest, selector, time};

/// A condition in an object's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// The condition's type.
    pub(crate) kind: Str,
    /// True, False or Unknown.
    pub(crate) status: Str,
    /// The reason: one word.
    pub(crate) reason: Str,
    /// The message: a sentence.
    pub(crate) message: Str,
    /// When the condition changed in any way (`lastUpdateTime` of Deployments), or was checked (`lastProbeTime` of Jobs).
    pub(crate) updated: Option<Time>,
    /// When the condition's status changed.
    pub(crate) transition: Option<Time>,
}

impl Condition {
    /// A condition whose times are `now`.
    pub(crate) fn new(kind: &str, status: &str, reason: &str, message: impl Into<Str>, now: Time) -> Self {
        let (updated, transition) = (Some(now), Some(now));
        Self {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            updated,
            transition,
        }
    }

    /// Reads a condition of any kind from the usual fields.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let node = value.as_struct()?;
        let text = |name: &str| node.get(name).and_then(Value::as_str).unwrap_or("");
        Some(Self {
            kind: text("type").into(),
            status: text("status").into(),
            reason: text("reason").into(),
            message: text("message").into(),
            updated: time(text("lastUpdateTime")).or_else(|| time(text("lastProbeTime"))),
            transition: time(text("lastTransitionTime")),
        })
    }

    /// Returns the condition as a value of the type `ty`; fields that the type lacks are left out.
    pub(crate) fn write(&self, ty: TypeRef) -> Value {
        let mut node = Struct::new(ty);
        for (name, text) in
            [("type", &self.kind), ("status", &self.status), ("reason", &self.reason), ("message", &self.message)]
        {
            if !text.is_empty() {
                node.set_name(name, text.clone());
            }
        }
        let times = [
            ("lastUpdateTime", self.updated),
            ("lastProbeTime", self.updated),
            ("lastTransitionTime", self.transition),
        ];
        for (name, at) in times {
            node.set_name(name, at.map_or(Value::Null, |at| Value::from(at.to_string())));
        }
        Value::Struct(node)
    }
}

/// Returns the condition of a type.
pub(crate) fn condition<'a>(all: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    all.iter().find(|condition| condition.kind == kind)
}

/// The update strategy of a Deployment (`spec.strategy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// All old pods end before new ones are created.
    Recreate,
    /// New pods replace old ones step by step.
    Rolling {
        /// Pods above `replicas`: a number or a percentage.
        surge: Amount,
        /// Pods below `replicas`.
        unavailable: Amount,
    },
}

/// A number or a percentage of the replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    /// An absolute number.
    Count(i64),
    /// A percentage.
    Percent(i64),
}

impl Amount {
    /// Reads a number or a percentage; a text that is no percentage reads as none.
    pub(super) fn read(value: IntOrStr<'_>) -> Self {
        match value {
            IntOrStr::Int(count) => Self::Count(count),
            IntOrStr::Str(text) => Self::Percent(text.strip_suffix('%').and_then(|n| n.parse().ok()).unwrap_or(0)),
        }
    }

    /// Returns the number for `total` replicas, rounded up or down.
    pub(crate) fn of(&self, total: i64, up: bool) -> i64 {
        match self {
            Self::Count(count) => *count,
            Self::Percent(percent) => {
                let scaled = percent.saturating_mul(total);
                if up { scaled.saturating_add(99).div_euclid(100) } else { scaled.div_euclid(100) }
            }
        }
    }
}

/// The projection of a Deployment's `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeploymentState {
    /// `observedGeneration`.
    pub(crate) observed: i64,
    /// Pods.
    pub(crate) replicas: i64,
    /// Pods of the current template.
    pub(crate) updated: i64,
    /// Ready pods.
    pub(crate) ready: i64,
    /// Pods ready for long enough.
    pub(crate) available: i64,
    /// Wanted pods that are not available.
    pub(crate) unavailable: i64,
    /// Terminating pods.
    pub(crate) terminating: Option<i64>,
    /// Conditions.
    pub(crate) conditions: Vec<Condition>,
    /// How often the name of a new ReplicaSet was in use already (`collisionCount`).
    pub(crate) collisions: Option<i64>,
}

/// The projection of a Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deployment {
    /// `spec.replicas`.
    pub(crate) replicas: i64,
    /// `spec.selector`; `None` selects nothing.
    pub(crate) selector: Option<LabelSelector>,
    /// The template without a hash label.
    pub(crate) template: Digest,
    /// `spec.strategy`.
    pub(crate) strategy: Strategy,
    /// `spec.minReadySeconds`.
    pub(crate) min_ready: i64,
    /// `spec.revisionHistoryLimit`; `None` keeps everything.
    pub(crate) history: Option<i64>,
    /// `spec.paused`.
    pub(crate) paused: bool,
    /// `spec.progressDeadlineSeconds`; `None` for none.
    pub(crate) deadline: Option<i64>,
    /// `status`.
    pub(crate) status: DeploymentState,
}

impl Project for Deployment {
    const RESOURCE: ResourceName = ResourceName::new("apps", "v1", "deployments");
    const ANNOTATIONS: bool = true;

    fn project(obj: &Obj) -> Self {
        let view =
            apps_v1::Deployment::from_option(Some(&**obj).filter(|node| apps_v1::Deployment::of(node).is_some()));
        let (spec, status) = (view.spec(), view.status());
        let rolling = spec.strategy().rolling_update();
        // Upstream also uses the largest 32-bit number for "no limit" and "no deadline".
        let limited = |value: Option<i64>| value.filter(|value| *value < i64::from(i32::MAX));
        Self {
            replicas: spec.replicas().unwrap_or(1),
            selector: selector(spec.selector()),
            template: spec.template().node().map(template).unwrap_or_default(),
            strategy: if spec.strategy().type_() == "Recreate" {
                Strategy::Recreate
            } else {
                let amount = |value: Option<IntOrStr<'_>>| value.map_or(Amount::Percent(25), Amount::read);
                Strategy::Rolling {
                    surge: amount(rolling.and_then(|rolling| rolling.max_surge())),
                    unavailable: amount(rolling.and_then(|rolling| rolling.max_unavailable())),
                }
            },
            min_ready: spec.min_ready_seconds(),
            history: limited(spec.revision_history_limit()),
            paused: spec.paused(),
            deadline: limited(spec.progress_deadline_seconds()),
            status: DeploymentState {
                observed: status.observed_generation(),
                replicas: status.replicas(),
                updated: status.updated_replicas(),
                ready: status.ready_replicas(),
                available: status.available_replicas(),
                unavailable: status.unavailable_replicas(),
                terminating: status.terminating_replicas(),
                conditions: status.conditions().values().iter().filter_map(Condition::read).collect(),
                collisions: status.collision_count(),
            },
        }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}
