//! Types shared by a pod's state machine and the readers and writers of its status.

use oarlock_schema::Str;

/// Conditions that a kubelet writes, in upstream's order.
pub(crate) const CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", SCHEDULED];
/// Condition that holds of every pod on a node, whichever client wrote it.
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
    /// Some containers have not been started yet.
    Pending,
    /// All containers have been started, and some run or will restart.
    Running,
    /// All containers ended for good with exit code 0.
    Succeeded,
    /// All containers ended for good, some with another code; or the node rejected the pod.
    Failed,
}

impl Phase {
    /// Returns the phase as written in the API.
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

    /// Whether the phase is final.
    pub(crate) const fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// An Event about a pod, not yet written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodEvent {
    /// Index of the container concerned, init containers first; `None` for the pod itself.
    pub(crate) container: Option<usize>,
    pub(crate) warning: bool,
    pub(crate) reason: Str,
    pub(crate) message: String,
}
