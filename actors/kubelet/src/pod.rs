//! A pod on this node as a state machine: events in ([`Pod::take`] and similar methods), the next step out ([`Pod::advance`]). The state machine performs no
//! I/O and reads no clock, so table tests cover it.
//!
//! A pod has at most one step in progress, which makes its steps serial. The node's actor performs steps and returns their outcomes.

use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::Item;
use oarlock_runtime::Instant;
use oarlock_schema::Str;

use crate::admit::Rejection;
use crate::recorded_status::{RecordedState, RecordedStatus};
use crate::template::{ContainerSpec, PodView, RestartPolicy, Template};

mod apply;
mod decide;
pub(crate) mod model;
mod phase;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use apply::{Recalled, StartError, StartReport};
use model::{CONDITIONS, Ended, Phase, PodEvent, SCHEDULED};
pub(crate) use status::Host;

/// The time of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Monotonic time, for waits.
    pub(crate) at: Instant,
    /// Unix seconds, for what users see.
    pub(crate) wall: i64,
}

/// State of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Waiting; an empty reason stands for the usual one (ContainerCreating, PodInitializing).
    Waiting { reason: &'static str, message: Box<str> },
    /// Running since this Unix second.
    Running(i64),
    /// Ended.
    Ended(Box<Ended>),
}

impl State {
    const FRESH: fn() -> Self = || Self::Waiting { reason: "", message: Box::default() };
}

/// One container of a pod with its state, restarts and back-off.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) state: State,
    /// How the previous container ended.
    pub(crate) last: Option<Box<Ended>>,
    /// The runtime's id of the current or last container.
    pub(crate) id: Str,
    pub(crate) image_id: Option<Arc<str>>,
    pub(crate) restarts: u32,
    pub(crate) ready: bool,
    /// Whether the container runs and has passed its startup probe, or has none.
    pub(crate) started: bool,
    /// Seconds of the next crash back-off; 0 before the first crash.
    pause: u16,
    /// Unix second of the last increase of `pause`.
    paused_at: i64,
    /// Number of failed pulls in a row.
    pulls: u8,
    /// Earliest time of the next start.
    hold: Option<Instant>,
    /// When ErrImagePull turns into ImagePullBackOff.
    flip: Option<Instant>,
    /// Set when a failed probe demands a restart.
    doomed: Option<Box<Doomed>>,
}

/// A restart demanded by a failed probe: the message of the Event, and the grace period in seconds if other than the pod's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doomed {
    pub(crate) message: String,
    pub(crate) grace: Option<i64>,
}

impl Container {
    fn new() -> Self {
        Self {
            state: (State::FRESH)(),
            last: None,
            id: Str::default(),
            image_id: None,
            restarts: 0,
            ready: false,
            started: false,
            pause: 0,
            paused_at: 0,
            pulls: 0,
            hold: None,
            flip: None,
            doomed: None,
        }
    }

    pub(crate) fn running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    fn ended(&self) -> Option<&Ended> {
        match &self.state {
            State::Ended(ended) => Some(ended),
            _ => None,
        }
    }
}

/// Stage of a pod's life on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The pod may have run before this kubelet started; the runtime is being asked.
    Recalling,
    /// The pod is started and kept running.
    Active,
    /// The pod is being stopped.
    Stopping,
    /// No container of the pod runs; ended containers are kept for their logs.
    Stopped,
}

/// A step for the node's actor to perform on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Ask the runtime for containers from before the kubelet restarted.
    Recall,
    /// Run the sandbox.
    Sandbox,
    /// Pull, create and start this container (index over init containers, then main ones).
    Start(usize),
    /// Stop this container after a failed probe.
    Kill(usize),
    /// Stop all containers within this many seconds.
    Stop(i64),
    /// Remove all containers and the sandbox from the runtime.
    Clean,
}

/// Result of [`Pod::advance`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    /// Whether to abort the step in progress first.
    pub(crate) interrupt: bool,
    pub(crate) step: Option<Step>,
    /// When to call [`Pod::advance`] again if no event comes earlier.
    pub(crate) wake: Option<Instant>,
}

impl Next {
    fn step(step: Step) -> Self {
        Self { step: Some(step), ..Self::default() }
    }

    fn at(&mut self, at: Instant) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
}

/// A pod on this node and everything known about its sandbox and containers.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) item: Arc<Item<PodView>>,
    pub(crate) stage: Stage,
    /// Whether the pod has been removed from the API, or its manifest from disk.
    pub(crate) gone: bool,
    /// Uid and generation of a static pod's mirror, since a static pod itself is not in the API.
    pub(crate) mirror: Option<Box<(Str, i64)>>,
    /// Reason and message of a rejection, an eviction or an exceeded deadline.
    verdict: Option<Box<(Str, Box<str>)>>,
    pub(crate) phase: Phase,
    pub(crate) sandbox: Option<Str>,
    sandboxes: u32,
    hold: Option<Instant>,
    pub(crate) ip: Str,
    /// Address of the other family in a dual-stack cluster.
    second_ip: Option<Box<Str>>,
    started: i64,
    conditions: [(bool, i64); CONDITIONS.len()],
    /// Init containers, then main ones.
    pub(crate) containers: Box<[Container]>,
    pub(crate) busy: Option<Step>,
}

impl Pod {
    /// Creates the state of a pod that is new to this kubelet, with its status recorded in the API. `outlives`: whether the runtime outlives the kubelet and
    /// may know more.
    pub(crate) fn new(item: Arc<Item<PodView>>, seen: Option<&RecordedStatus>, outlives: bool, now: Now) -> Self {
        let template = &item.value.template;
        let count = template.init.len() + template.main.len();
        let mut pod = Self {
            stage: Stage::Active,
            gone: false,
            mirror: None,
            verdict: None,
            phase: Phase::Pending,
            sandbox: None,
            sandboxes: 0,
            hold: None,
            ip: Str::default(),
            second_ip: None,
            started: now.wall,
            conditions: CONDITIONS
                .map(|name| if name == SCHEDULED { (true, item.value.scheduled) } else { (false, 0) }),
            containers: (0..count).map(|_| Container::new()).collect(),
            busy: None,
            item,
        };
        if let Some(seen) = seen {
            pod.remember(seen, now);
        }
        if outlives && pod.stage == Stage::Active {
            pod.stage = Stage::Recalling;
        }
        pod
    }

    /// Restores the state that the API recorded.
    fn remember(&mut self, seen: &RecordedStatus, now: Now) {
        self.phase = seen.phase;
        self.conditions = seen.conditions;
        self.ip = seen.ip.clone();
        self.started = if seen.started == 0 { now.wall } else { seen.started };
        if seen.phase == Phase::Failed && !seen.reason.is_empty() {
            self.verdict = Some(Box::new((seen.reason.clone(), seen.message.as_str().into())));
        }
        let template = self.item.value.template.clone();
        for (spec, container) in specs(&template).zip(&mut self.containers) {
            let Some(known) = seen.containers.iter().find(|known| known.name == spec.name) else { continue };
            container.restarts = known.restarts;
            container.id = known.id.clone();
            container.image_id = (!known.image_id.is_empty()).then(|| known.image_id.as_str().into());
            container.last = known.last.clone().map(Box::new);
            match &known.state {
                RecordedState::Waiting => {}
                RecordedState::Running(since) => {
                    container.state = State::Running(*since);
                    (container.ready, container.started) = (known.ready, true);
                }
                RecordedState::Ended(ended) => container.state = State::Ended(Box::new(ended.clone())),
            }
        }
        self.stage = if seen.phase.is_over() {
            Stage::Stopped
        } else if self.containers.iter().any(Container::running) {
            Stage::Recalling
        } else {
            Stage::Active
        };
    }

    /// Marks the pod as rejected by the node.
    pub(crate) fn reject(&mut self, why: &Rejection) -> PodEvent {
        let message = format!("Pod was rejected: {}", why.message);
        self.verdict = Some(Box::new((why.reason.clone(), message.into())));
        self.stage = Stage::Stopped;
        PodEvent { container: None, warning: true, reason: why.reason.clone(), message: why.message.clone() }
    }

    /// Evicts the pod for its use of the node's resources: it is stopped, and has failed.
    pub(crate) fn evict(&mut self, message: String) -> PodEvent {
        self.verdict = Some(Box::new(("Evicted".into(), message.as_str().into())));
        PodEvent { container: None, warning: true, reason: "Evicted".into(), message }
    }

    pub(crate) fn template(&self) -> &Arc<Template> {
        &self.item.value.template
    }

    pub(crate) fn spec(&self, index: usize) -> Option<&Arc<ContainerSpec>> {
        specs(self.template()).nth(index)
    }

    /// Returns uid and generation of the API's object: of the pod itself, or of a static pod's mirror, once there is one.
    pub(crate) fn api_identity(&self) -> (&Str, i64) {
        let meta = &self.item.meta;
        self.mirror.as_deref().map_or((&meta.uid.0, meta.generation), |(uid, seen)| (uid, *seen))
    }

    /// Whether the last computed status ends the change of the pod: the pod is Ready, or has ended.
    pub(crate) fn is_settled(&self) -> bool {
        self.phase.is_over() || self.is_ready()
    }

    /// Whether condition Ready was true in the last computed status.
    pub(crate) fn is_ready(&self) -> bool {
        CONDITIONS.iter().zip(&self.conditions).any(|(name, (holds, _))| *name == "Ready" && *holds)
    }

    /// Returns why the pod has failed, without messages that containers wrote; `None` for a pod that has not.
    pub(crate) fn failure(&self) -> Option<String> {
        if self.phase != Phase::Failed {
            return None;
        }
        if let Some(verdict) = &self.verdict {
            return Some(format!("{}: {}", verdict.0, verdict.1));
        }
        let mut ended = specs(self.template()).zip(&self.containers).filter_map(|(spec, c)| Some((spec, c.ended()?)));
        let failed = ended.find(|(_, end)| end.code != 0);
        Some(failed.map_or_else(
            || "the pod has failed".to_owned(),
            |(spec, end)| format!("container {} ended with exit code {}: {}", spec.name, end.code, end.reason),
        ))
    }

    /// Returns why a container must be restarted, if a probe demands it.
    pub(crate) fn doomed(&self, index: usize) -> Option<Doomed> {
        self.containers.get(index).and_then(|container| container.doomed.as_deref()).cloned()
    }

    /// Returns the number of sandboxes before the current one, or before the one being created.
    pub(crate) fn sandbox_attempt(&self) -> u32 {
        self.sandboxes.saturating_sub(1)
    }

    /// Returns the pod's addresses, the primary one first.
    pub(crate) fn ips(&self) -> Vec<std::net::IpAddr> {
        let second = self.second_ip.as_deref().map(Str::as_str);
        [Some(self.ip.as_str()), second].into_iter().flatten().filter_map(|ip| ip.parse().ok()).collect()
    }

    /// Returns the index of the container with this runtime id.
    pub(crate) fn by_id(&self, id: &str) -> Option<usize> {
        self.containers.iter().position(|container| container.id == id)
    }

    /// Whether the pod counts against the node's resources: until it has stopped, and never after a rejection.
    pub(crate) fn uses_node(&self) -> bool {
        self.stage != Stage::Stopped
    }

    /// Whether the status in the API differs from this kubelet's, because another client has written it.
    pub(crate) fn differs(&self, seen: &RecordedStatus) -> bool {
        let mut both = CONDITIONS.iter().zip(seen.conditions.iter().zip(&self.conditions));
        let differs = both.any(|(name, (theirs, ours))| ["Ready", SCHEDULED].contains(name) && theirs.0 != ours.0);
        seen.phase != self.phase || differs
    }

    /// Whether the pod is being deleted and has ended here, so that the kubelet must complete the deletion.
    pub(crate) fn to_be_deleted(&self) -> bool {
        self.stage == Stage::Stopped && !self.gone && self.item.meta.deleting()
    }

    /// Whether a container that ended with `code` is restarted.
    fn restarts(&self, index: usize, code: i32) -> bool {
        let template = self.template();
        let sidecar = template.init.get(index).is_some_and(|spec| spec.sidecar);
        match template.restart {
            _ if sidecar => true,
            // An init container that succeeded has finished.
            RestartPolicy::Always => code != 0 || index >= template.init.len(),
            RestartPolicy::OnFailure => code != 0,
            RestartPolicy::Never => false,
        }
    }
}

/// Returns the specs of all containers, init containers first.
pub(crate) fn specs(template: &Template) -> impl Iterator<Item = &Arc<ContainerSpec>> {
    template.init.iter().chain(template.main.iter())
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
