//! Requests from the kubelet's server to the actor of a node.

use oarlock_runtime::Reply;
use oarlock_schema::Str;

use crate::logs::{LogRequest, Refusal};

/// A request to the actor of a node.
#[derive(Debug)]
pub(crate) enum Command {
    /// Returns the runtime's id of the container whose log is requested.
    Log(LogRequest, Reply<Result<Str, Refusal>>),
    /// Returns what the runtime runs of a pod; `None` when the node has no such pod.
    Find { namespace: Str, pod: Str, reply: Reply<Option<RunningPod>> },
}

/// Sandbox and containers that the runtime runs of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunningPod {
    pub(crate) uid: Str,
    pub(crate) sandbox: Option<Str>,
    /// Names and ids of the running containers.
    pub(crate) running: Vec<(Str, Str)>,
}
