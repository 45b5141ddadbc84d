//! What the state machine of a pod and those who read or write a pod's status have in common.

use oarlock_schema::Str;

/// The conditions a kubelet owns, in upstream's order.
pub(crate) const CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", SCHEDULED];
/// The condition that holds of all pods a kubelet has, whoever said what of it.
pub(crate) const SCHEDULED: &str = "PodScheduled";

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) reason: Str,
    pub(crate) message: Str,
    pub(crate) started: i64,
    pub(crate) finished: i64,
    pub(crate) id: Str,
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not everything has been started yet.
    Pending,
    /// Everything has been started, something runs or will again.
    Running,
    /// Everything ended with 0 for good.
    Succeeded,
    /// Everything ended for good, something not with 0; or the node refused it.
    Failed,
}

impl Phase {
    /// The word on the wire.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    pub(crate) fn parse(word: &str) -> Self {
        match word {
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Pending,
        }
    }

    /// It never changes again.
    pub(crate) const fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// An Event about a pod, before it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodEvent {
    /// Index of the container that it is about, init containers first; `None` for the pod itself.
    pub(crate) container: Option<usize>,
    pub(crate) warning: bool,
    pub(crate) reason: Str,
    pub(crate) message: String,
}
