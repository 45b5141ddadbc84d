//! Explains in which stage a pod is that is not Ready, since when and why, from the pod and its Node.

use oarlock_pods::conditions;
use oarlock_schema::views::core_v1::{ContainerStatus, Node, Pod};

use super::plain::plain;

/// The stage of a pod's start in which the pod is.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Stage {
    /// Name of the stage: the name of the span that the stage will be, or the phase of a pod that has ended.
    pub(super) stage: &'static str,
    /// When the stage began (RFC 3339); empty if unknown.
    pub(super) since: String,
    /// Why the pod is in the stage.
    pub(super) why: String,
}

impl Stage {
    fn new(stage: &'static str, since: &str, why: impl AsRef<str>) -> Self {
        Self { stage, since: plain(since), why: plain(why.as_ref()) }
    }
}

/// Returns the stage; `None` for a Ready pod. `node` is the pod's Node: `None` in it for a Node that does not exist, no `Option` at all if it is not known. `failed_step` is the error of the last failed step of a name.
pub(super) fn explain(
    pod: Pod<'_>,
    node: Option<Option<Node<'_>>>,
    failed_step: impl Fn(&str) -> Option<String>,
) -> Option<Stage> {
    let (meta, status) = (pod.metadata(), pod.status());
    let said = |reason: &str, message: &str| match (reason, message) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    match status.phase() {
        "Succeeded" => return Some(Stage::new("succeeded", "", "all containers have ended with exit code 0")),
        "Failed" => return Some(Stage::new("failed", "", failure(pod))),
        _ => {}
    }
    let deletion = meta.deletion_timestamp().unwrap_or_default();
    if !deletion.is_empty() {
        return Some(Stage::new("deletion", "", format!("the pod is being deleted, until {deletion}")));
    }
    let spec = pod.spec();
    if spec.node_name().is_empty() {
        let created = meta.creation_timestamp();
        return Some(match conditions::find(status, "PodScheduled") {
            Some(known) if known.reason() == "SchedulingGated" => {
                Stage::new("queue", known.last_transition_time(), said(known.reason(), known.message()))
            }
            Some(known) => Stage::new("decide", known.last_transition_time(), said(known.reason(), known.message())),
            None => Stage::new("queue", created, format!("scheduler {:?} has not decided yet", spec.scheduler_name())),
        });
    }
    let bound = conditions::find(status, "PodScheduled").map_or("", |known| known.last_transition_time());
    if let Some(silent) = node.and_then(|node| silence(spec.node_name(), node, bound)) {
        return Some(silent);
    }
    if conditions::is_ready(status) {
        return None;
    }
    if status.start_time().is_none() {
        let why = format!("the kubelet of node {:?} has not accepted the pod yet", spec.node_name());
        return Some(Stage::new("admit", bound, why));
    }
    let mut containers = status.init_container_statuses().iter().chain(status.container_statuses().iter());
    if let Some(stage) = containers.find_map(waiting) {
        return Some(stage);
    }
    let sandbox = conditions::find(status, "PodReadyToStartContainers").filter(|known| known.status() != "True");
    if let Some(known) = sandbox {
        // No condition tells volumes and sandbox apart; the last failed step does.
        let stage = if failed_step("volumes").is_some() { "volumes" } else { "sandbox" };
        let why = failed_step(stage).unwrap_or_else(|| "the pod's volumes and sandbox are being set up".to_owned());
        return Some(Stage::new(stage, known.last_transition_time(), why));
    }
    let mut containers = status.init_container_statuses().iter().chain(status.container_statuses().iter());
    if let Some(stage) = containers.find_map(running_unready) {
        return Some(stage);
    }
    let known = conditions::ready(status);
    let since = known.map_or("", |known| known.last_transition_time());
    let why = known.map_or_else(String::new, |known| said(known.reason(), known.message()));
    Some(Stage::new(if why.starts_with("ReadinessGates") { "ready" } else { "start" }, since, why))
}

/// Returns the stage of a pod whose node is not ready, or does not exist.
fn silence(name: &str, node: Option<Node<'_>>, bound: &str) -> Option<Stage> {
    let Some(node) = node else {
        return Some(Stage::new("silent kubelet", bound, format!("node {name:?} does not exist")));
    };
    let ready = node.status().conditions().iter().find(|condition| condition.type_() == "Ready");
    match ready {
        Some(ready) if ready.status() == "True" => None,
        Some(ready) => {
            let why = format!("node {name:?} is not ready: {}: {}", ready.reason(), ready.message());
            Some(Stage::new("silent kubelet", ready.last_transition_time(), why))
        }
        None => {
            Some(Stage::new("silent kubelet", bound, format!("the kubelet of node {name:?} has written no status")))
        }
    }
}

/// Returns the stage of a container that waits for a reason other than its turn.
fn waiting(container: ContainerStatus<'_>) -> Option<Stage> {
    let waiting = container.state().waiting()?;
    let stage = match waiting.reason() {
        "" | "ContainerCreating" | "PodInitializing" => return None,
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" | "ImageInspectError" => "pull",
        _ => "start",
    };
    let last = container.last_state().terminated();
    let ended = last.map_or_else(String::new, |end| format!("; it last ended with exit code {}", end.exit_code()));
    let since = last.map_or("", |end| end.finished_at());
    let why = format!("container {}: {}: {}{ended}", container.name(), waiting.reason(), waiting.message());
    Some(Stage::new(stage, since, why))
}

/// Returns the stage of a container that runs and has not passed its probes.
fn running_unready(container: ContainerStatus<'_>) -> Option<Stage> {
    let running = container.state().running().filter(|_| !container.ready())?;
    let probe = if container.started() == Some(true) { "readiness" } else { "startup" };
    let why = format!("container {} runs, and its {probe} probe has not succeeded", container.name());
    Some(Stage::new("ready", running.started_at(), why))
}

/// Returns why a pod has failed.
fn failure(pod: Pod<'_>) -> String {
    let status = pod.status();
    if !status.reason().is_empty() {
        return format!("{}: {}", status.reason(), status.message());
    }
    let containers = status.init_container_statuses().iter().chain(status.container_statuses().iter());
    let ended = containers.filter_map(|container| Some((container.name(), container.state().terminated()?)));
    let failed = ended.filter(|(_, end)| end.exit_code() != 0);
    let failed: Vec<String> = failed
        .map(|(name, end)| format!("container {name} ended with exit code {}: {}", end.exit_code(), end.reason()))
        .collect();
    failed.join("; ")
}
