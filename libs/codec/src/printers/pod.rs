//! The printer of pods, which summarizes the states of all containers in one word.

use oarlock_pods::{conditions, sidecar, termination};
use oarlock_schema::Value;
use oarlock_schema::views::core_v1::{ContainerStateTerminated, ContainerStatus, Pod, PodSpec, PodStatus};

use super::text::{NONE, or};
use super::{Now, Row, cells, now};

/// The summary of the containers' states.
struct Summary<'a> {
    reason: String,
    ready: usize,
    restarts: Restarts<'a>,
    /// Whether init containers are still running; the states of other containers do not count then.
    initializing: bool,
    /// Restarts of sidecars only.
    sidecars: Restarts<'a>,
}

/// The number of restarts, and the end of the previous run of the container that was restarted last.
#[derive(Default, Clone, Copy)]
struct Restarts<'a> {
    count: i64,
    last: Option<&'a str>,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, status: ContainerStatus<'a>) {
        self.count += status.restart_count();
        let ended = status.last_state().terminated().map(|t| t.finished_at());
        if let Some(ended) = ended.filter(|e| now::micros(e) > self.last.and_then(now::micros)) {
            self.last = Some(ended);
        }
    }

    fn text(self, now: Now) -> String {
        match self.last {
            Some(last) if self.count != 0 => format!("{} ({} ago)", self.count, now.since(last)),
            _ => self.count.to_string(),
        }
    }
}

pub(super) fn pod(pod: Pod<'_>, now: Now) -> Row {
    let (meta, spec, status) = (pod.metadata(), pod.spec(), pod.status());
    let mut summary = init_containers(spec, status);
    if !summary.initializing || conditions::is_true(status, "Initialized") {
        main_containers(status, &mut summary);
    }
    let terminal = termination::has_ended(status);
    if meta.deletion_timestamp().is_some() {
        if status.reason() == "NodeLost" {
            summary.reason = "Unknown".into();
        } else if !terminal {
            summary.reason = "Terminating".into();
        }
    }
    let containers = sidecar::long_running(spec).count();
    let ip = or(status.pod_ip(), status.pod_ips().get(0).map_or("", |ip| ip.ip()));
    Row {
        cells: cells![
            meta.name(),
            format!("{}/{containers}", summary.ready),
            summary.reason,
            summary.restarts.text(now),
            now.since(meta.creation_timestamp()),
            or(ip, NONE),
            or(spec.node_name(), NONE),
            or(status.nominated_node_name(), NONE),
            gates(spec, status),
        ],
        completed: match status.phase() {
            "Succeeded" => Some(("Succeeded", "The pod has completed successfully.")),
            "Failed" => Some(("Failed", "The pod failed.")),
            _ => None,
        },
    }
}

/// Summarizes the init containers: the pod's own reason, or that of the first init container that has not completed.
fn init_containers<'a>(spec: PodSpec<'a>, status: PodStatus<'a>) -> Summary<'a> {
    let gated = status.conditions().iter().any(|c| c.type_() == "PodScheduled" && c.reason() == "SchedulingGated");
    let reason = if gated { "SchedulingGated" } else { or(status.reason(), status.phase()) };
    let mut summary = Summary {
        reason: reason.to_owned(),
        ready: 0,
        restarts: Restarts::default(),
        initializing: false,
        sidecars: Restarts::default(),
    };
    for (i, container) in status.init_container_statuses().iter().enumerate() {
        summary.restarts.add(container);
        let sidecar = sidecar::has_sidecar(spec, container.name());
        if sidecar {
            summary.sidecars.add(container);
        }
        let state = container.state();
        let waiting = state.waiting().map_or("", |w| w.reason());
        let word = match state.terminated() {
            Some(ended) if ended.exit_code() == 0 => continue,
            _ if sidecar && container.started() == Some(true) => {
                summary.ready += usize::from(container.ready());
                continue;
            }
            Some(ended) => exit_word(ended),
            None if !waiting.is_empty() && waiting != "PodInitializing" => waiting.to_owned(),
            None => format!("{i}/{}", spec.init_containers().len()),
        };
        summary.reason = format!("Init:{word}");
        summary.initializing = true;
        break;
    }
    summary
}

fn main_containers<'a>(status: PodStatus<'a>, summary: &mut Summary<'a>) {
    summary.restarts = summary.sidecars;
    let (mut running, mut error) = (false, String::new());
    for container in status.container_statuses().iter().rev() {
        summary.restarts.add(container);
        let state = container.state();
        let waiting = state.waiting().map_or("", |w| w.reason());
        if !waiting.is_empty() {
            summary.reason = waiting.to_owned();
        } else if let Some(ended) = state.terminated() {
            summary.reason = exit_word(ended);
            if ended.exit_code() != 0 {
                error.clone_from(&summary.reason);
            }
        } else if container.ready() && state.running().is_some() {
            running = true;
            summary.ready += 1;
        }
    }
    // A pod with some completed containers has not completed.
    if summary.reason == "Completed" {
        if running && any_ready(status) {
            summary.reason = "Running".into();
        } else if !error.is_empty() {
            summary.reason = error;
        } else if running {
            summary.reason = "NotReady".into();
        }
    }
}

fn exit_word(ended: ContainerStateTerminated<'_>) -> String {
    match (ended.reason(), ended.signal()) {
        ("", 0) => format!("ExitCode:{}", ended.exit_code()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Whether any condition `Ready` is true: upstream's printer does not stop at the first, unlike other readers.
fn any_ready(status: PodStatus<'_>) -> bool {
    status.conditions().iter().any(|c| c.type_() == "Ready" && c.status() == "True")
}

fn gates(spec: PodSpec<'_>, status: PodStatus<'_>) -> Value {
    let gates = spec.readiness_gates();
    if gates.is_empty() {
        return NONE.into();
    }
    let open = gates.iter().filter(|gate| conditions::is_true(status, gate.condition_type())).count();
    format!("{open}/{}", gates.len()).into()
}
