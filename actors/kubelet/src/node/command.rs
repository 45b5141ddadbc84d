//! Questions to the actor of a node, from the kubelet's server.

use oarlock_runtime::Reply;
use oarlock_schema::Str;

use crate::logs::{Ask, Refusal};

/// A question to a node.
#[derive(Debug)]
pub(crate) enum Command {
    /// The runtime's id of the container whose log is asked for.
    Log(Ask, Reply<Result<Str, Refusal>>),
    /// What runs of a pod; `None` when the node has no such pod.
    Find { namespace: Str, pod: Str, reply: Reply<Option<RunningPod>> },
}

/// What the runtime runs of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunningPod {
    pub(crate) uid: Str,
    pub(crate) sandbox: Option<Str>,
    /// Names and ids of the containers that run.
    pub(crate) running: Vec<(Str, Str)>,
}
