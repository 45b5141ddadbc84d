//! A pod on this node, as a state machine: events in ([`Pod::take`] and its kin), the next step out ([`Pod::advance`]). It performs
//! nothing and reads no clock, so tables test it.
//!
//! A pod has at most one step under way; that is its serial queue. The node's actor performs steps and hands back their outcomes.

use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::Item;
use oarlock_runtime::Instant;
use oarlock_schema::Str;

use crate::admit::Rejection;
use crate::seen::{Seen, SeenState};
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

/// The moment of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// For waits.
    pub(crate) at: Instant,
    /// Unix seconds, for what users see.
    pub(crate) wall: i64,
}

/// What a container is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits; an empty reason is the usual one (ContainerCreating, PodInitializing).
    Waiting { reason: &'static str, message: Box<str> },
    /// It runs since then.
    Running(i64),
    /// It ended.
    Ended(Box<Ended>),
}

impl State {
    const FRESH: fn() -> Self = || Self::Waiting { reason: "", message: Box::default() };
}

/// One container of a pod.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) state: State,
    /// How the one before ended.
    pub(crate) last: Option<Box<Ended>>,
    /// The runtime's id of the current one, or the last.
    pub(crate) id: Str,
    pub(crate) image_id: Option<Arc<str>>,
    pub(crate) restarts: u32,
    pub(crate) ready: bool,
    /// It passed its startup probe, or has none, and runs.
    pub(crate) started: bool,
    /// Seconds of the crash back-off that comes next; 0 is none yet.
    pause: u16,
    /// When `pause` last grew, Unix seconds.
    paused_at: i64,
    /// Pulls that failed in a row.
    pulls: u8,
    /// Not started before.
    hold: Option<Instant>,
    /// When ErrImagePull turns into ImagePullBackOff.
    flip: Option<Instant>,
    /// A probe wants it to be started again.
    doomed: Option<Box<Doomed>>,
}

/// Why a container is to be killed: the message of the Event, and the seconds it gets if not those of its pod.
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

/// How far a pod has come on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It may run from before this kubelet started; the runtime is being asked.
    Recalling,
    /// It is started and kept running.
    Active,
    /// It is being stopped.
    Stopping,
    /// Nothing of it runs; what it left is kept for logs.
    Stopped,
}

/// What is to be done for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Ask the runtime for what ran before the kubelet restarted.
    Recall,
    /// Run the sandbox.
    Sandbox,
    /// Pull, create and start this container (index over init, then main).
    Start(usize),
    /// Stop this container, which a probe has condemned.
    Kill(usize),
    /// Stop everything, within so many seconds.
    Stop(i64),
    /// Remove everything from the runtime.
    Clean,
}

/// What follows a look at a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    /// The step under way is given up first.
    pub(crate) interrupt: bool,
    pub(crate) step: Option<Step>,
    /// When to look again, if nothing happens.
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

/// See the module text.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) item: Arc<Item<PodView>>,
    pub(crate) stage: Stage,
    /// The API, or its manifest, is no longer there.
    pub(crate) gone: bool,
    /// What the API shows of a static pod, which has no object of its own there: uid and generation.
    pub(crate) mirror: Option<Box<(Str, i64)>>,
    /// The node refused it, or its time is over.
    verdict: Option<Box<(Str, Box<str>)>>,
    pub(crate) phase: Phase,
    pub(crate) sandbox: Option<Str>,
    sandboxes: u32,
    hold: Option<Instant>,
    pub(crate) ip: Str,
    /// Its address of the other family, if it has two.
    second_ip: Option<Box<Str>>,
    started: i64,
    conditions: [(bool, i64); CONDITIONS.len()],
    /// Init containers, then main ones.
    pub(crate) containers: Box<[Container]>,
    pub(crate) busy: Option<Step>,
}

impl Pod {
    /// A pod that this kubelet has not seen yet, with what the API remembers of it. `outlives`: the runtime may know more.
    pub(crate) fn new(item: Arc<Item<PodView>>, seen: Option<&Seen>, outlives: bool, now: Now) -> Self {
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

    /// Takes over what the API remembers.
    fn remember(&mut self, seen: &Seen, now: Now) {
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
                SeenState::Waiting => {}
                SeenState::Running(since) => {
                    container.state = State::Running(*since);
                    (container.ready, container.started) = (known.ready, true);
                }
                SeenState::Ended(ended) => container.state = State::Ended(Box::new(ended.clone())),
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

    /// The node refused it.
    pub(crate) fn reject(&mut self, why: &Rejection) -> PodEvent {
        let message = format!("Pod was rejected: {}", why.message);
        self.verdict = Some(Box::new((why.reason.clone(), message.into())));
        self.stage = Stage::Stopped;
        PodEvent { container: None, warning: true, reason: why.reason.clone(), message: why.message.clone() }
    }

    /// It uses too much of the node: it is stopped, and has failed.
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

    /// Why a container is to be killed.
    pub(crate) fn doomed(&self, index: usize) -> Option<Doomed> {
        self.containers.get(index).and_then(|container| container.doomed.as_deref()).cloned()
    }

    /// How many sandboxes came before the one that is there or is being made.
    pub(crate) fn sandbox_attempt(&self) -> u32 {
        self.sandboxes.saturating_sub(1)
    }

    /// Its addresses, the primary one first.
    pub(crate) fn ips(&self) -> Vec<std::net::IpAddr> {
        let second = self.second_ip.as_deref().map(Str::as_str);
        [Some(self.ip.as_str()), second].into_iter().flatten().filter_map(|ip| ip.parse().ok()).collect()
    }

    /// The index of the container that the runtime calls so.
    pub(crate) fn by_id(&self, id: &str) -> Option<usize> {
        self.containers.iter().position(|container| container.id == id)
    }

    /// Whether it was refused, or never got anywhere: then it counts for nothing on the node.
    pub(crate) fn uses_node(&self) -> bool {
        self.stage != Stage::Stopped
    }

    /// Whether the API says something else of the pod than this kubelet (somebody else wrote its status).
    pub(crate) fn differs(&self, seen: &Seen) -> bool {
        let mut both = CONDITIONS.iter().zip(seen.conditions.iter().zip(&self.conditions));
        let differs = both.any(|(name, (theirs, ours))| ["Ready", SCHEDULED].contains(name) && theirs.0 != ours.0);
        seen.phase != self.phase || differs
    }

    /// The API waits for this kubelet to say that the pod is no more.
    pub(crate) fn to_be_deleted(&self) -> bool {
        self.stage == Stage::Stopped && !self.gone && self.item.meta.deleting()
    }

    /// Whether a container that ended with `code` is started again.
    fn restarts(&self, index: usize, code: i32) -> bool {
        let template = self.template();
        let sidecar = template.init.get(index).is_some_and(|spec| spec.sidecar);
        match template.restart {
            _ if sidecar => true,
            // an init container that succeeded is done
            RestartPolicy::Always => code != 0 || index >= template.init.len(),
            RestartPolicy::OnFailure => code != 0,
            RestartPolicy::Never => false,
        }
    }
}

/// The specs of all containers, init containers first.
pub(crate) fn specs(template: &Template) -> impl Iterator<Item = &Arc<ContainerSpec>> {
    template.init.iter().chain(template.main.iter())
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
