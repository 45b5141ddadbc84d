//! A pod's status as recorded in the API, from which a restarted kubelet recovers its state.

use oarlock_meta::Time;
use oarlock_pods::conditions;
use oarlock_schema::Str;
use oarlock_schema::views::core_v1::{ContainerStateTerminated, ContainerStatus, Pod};

use crate::pod::model::{CONDITIONS, Ended, Phase, SCHEDULED};

/// State of a container as recorded in the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordedState {
    Waiting,
    Running(i64),
    Ended(Ended),
}

/// Status of a container as recorded in the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedContainer {
    pub(crate) name: Str,
    pub(crate) state: RecordedState,
    pub(crate) last: Option<Ended>,
    pub(crate) restarts: u32,
    pub(crate) id: Str,
    pub(crate) image_id: Str,
    pub(crate) ready: bool,
}

/// Status of a pod as recorded in the API, with the fields a kubelet writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedStatus {
    pub(crate) phase: Phase,
    pub(crate) reason: Str,
    pub(crate) message: Str,
    /// Unix second of `status.startTime`; 0 before a kubelet has accepted the pod.
    pub(crate) started: i64,
    pub(crate) ip: Str,
    /// Whether each of [`CONDITIONS`] was true, and its transition time; 0 for a missing condition.
    pub(crate) conditions: [(bool, i64); CONDITIONS.len()],
    pub(crate) containers: Vec<RecordedContainer>,
}

impl RecordedStatus {
    /// Reads the status, if a kubelet has written to it (or the pod has finished).
    pub(crate) fn read(pod: Pod<'_>) -> Option<Self> {
        let status = pod.status();
        let phase = Phase::parse(status.phase());
        let started = status.start_time().map_or(0, time);
        if started == 0 && !phase.is_over() {
            return None;
        }
        let mut conditions = [(false, 0); CONDITIONS.len()];
        for condition in status.conditions().iter() {
            let known = CONDITIONS.iter().zip(&mut conditions).find(|(name, _)| **name == condition.type_());
            if let Some((_, slot)) = known {
                *slot = (condition.status() == "True", time(condition.last_transition_time()));
            }
        }
        let containers = status.init_container_statuses().iter().chain(status.container_statuses().iter());
        Some(Self {
            phase,
            reason: status.reason().into(),
            message: status.message().into(),
            started,
            ip: status.pod_ip().into(),
            conditions,
            containers: containers.map(container).collect(),
        })
    }
}

/// Returns when the scheduler assigned the pod to its node; 0 without condition PodScheduled.
pub(crate) fn scheduled(pod: Pod<'_>) -> i64 {
    let said = conditions::find(pod.status(), SCHEDULED);
    said.filter(|said| said.status() == "True").map_or(0, |said| time(said.last_transition_time()))
}

fn time(text: &str) -> i64 {
    Time::parse(text).map_or(0, Time::unix)
}

/// Returns a container id without its scheme (`sim://`).
fn bare(id: &str) -> Str {
    id.split_once("://").map_or(id, |(_, id)| id).into()
}

fn container(status: ContainerStatus<'_>) -> RecordedContainer {
    let state = status.state();
    let state = if let Some(running) = state.running() {
        RecordedState::Running(time(running.started_at()))
    } else if let Some(over) = state.terminated() {
        RecordedState::Ended(ended(over))
    } else {
        RecordedState::Waiting
    };
    RecordedContainer {
        name: status.name().into(),
        state,
        last: status.last_state().terminated().map(ended),
        restarts: u32::try_from(status.restart_count()).unwrap_or(0),
        id: bare(status.container_id()),
        image_id: status.image_id().into(),
        ready: status.ready(),
    }
}

fn ended(state: ContainerStateTerminated<'_>) -> Ended {
    Ended {
        code: i32::try_from(state.exit_code()).unwrap_or(-1),
        reason: state.reason().into(),
        message: state.message().into(),
        started: time(state.started_at()),
        finished: time(state.finished_at()),
        id: bare(state.container_id()),
    }
}
