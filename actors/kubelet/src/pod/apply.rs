//! Applies outcomes of steps and events to a pod's state.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::Item;
use oarlock_meta::GoDuration;
use oarlock_schema::Str;

use super::model::{Ended, PodEvent};
use super::{Doomed, Now, Pod, Stage, State, specs};
use crate::cri::{self, ContainerStatus};
use crate::event_sender::WarningEvent;
use crate::probes::{Kind, Report, Verdict};
use crate::template::PodView;

/// First crash or pull back-off in seconds.
const FIRST_BACKOFF: u16 = 10;
/// Longest back-off in seconds.
const MAX_BACKOFF: u16 = 300;
/// Seconds of running after which a container's back-off starts over.
const BACKOFF_RESET: i64 = 600;
/// Pause before retrying a step that failed for other reasons.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// How long ErrImagePull shows before ImagePullBackOff.
const PULL_ERROR_SHOWN: Duration = Duration::from_secs(2);

/// Reason for a failed start of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StartError {
    /// Pulling or finding the image failed: reason (ErrImagePull, ErrImageNeverPull) and message.
    Image(&'static str, String),
    /// The configuration is incomplete or forbidden.
    Config(String),
    /// `CreateContainer` failed.
    Create(String),
    /// `StartContainer` failed for the container with this id.
    Start(Str, String),
}

impl StartError {
    /// Returns the message for users.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Image(_, message) | Self::Config(message) | Self::Create(message) | Self::Start(_, message) => {
                message
            }
        }
    }
}

/// The sandbox and containers of a pod that the runtime kept from before the kubelet's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recalled {
    /// The running sandbox with its addresses.
    pub(crate) sandbox: Option<(Str, Vec<IpAddr>)>,
    /// Number of the pod's sandboxes so far.
    pub(crate) attempts: u32,
    pub(crate) containers: Vec<ContainerStatus>,
}

/// Outcome of a container's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartReport {
    pub(crate) index: usize,
    pub(crate) image_id: Option<Arc<str>>,
    pub(crate) end: Result<ContainerStatus, StartError>,
}

impl Pod {
    /// Takes a newer state of the pod's API object.
    pub(crate) fn take(&mut self, item: Arc<Item<PodView>>) {
        self.item = item;
    }

    /// Applies what the runtime has of the pod from before the restart.
    pub(crate) fn recalled(&mut self, outcome: Result<Recalled, cri::Error>, host: &str, now: Now) -> Vec<PodEvent> {
        self.busy = None;
        let Ok(known) = outcome else {
            self.hold = Some(now.at + RETRY_PAUSE);
            return Vec::new();
        };
        (self.stage, self.hold) = (Stage::Active, None);
        self.sandboxes = known.attempts;
        let mut events = Vec::new();
        let template = self.template().clone();
        for (index, spec) in specs(&template).enumerate() {
            let own = known.containers.iter().filter(|status| status.name == spec.name);
            // A container that was created and never started belongs to a start that the restart interrupted; it is created again.
            let mut own: Vec<_> = own.filter(|status| status.state != cri::ContainerState::Created).collect();
            own.sort_by_key(|status| status.attempt);
            if let Some(latest) = own.pop() {
                events.extend(self.adopt(index, latest, own.pop(), now));
            } else if let Some(container) = self.containers.get_mut(index) {
                lose(container, now);
            }
        }
        match known.sandbox {
            Some((id, ips)) => {
                // A runtime without addresses keeps the one recorded in the API.
                if !ips.is_empty() || self.ip.is_empty() {
                    self.addressed(&ips, host);
                }
                self.sandbox = Some(id);
            }
            None => self.containers.iter_mut().for_each(|container| lose(container, now)),
        }
        events
    }

    /// Takes over a container from before the restart, and the one before it.
    fn adopt(
        &mut self,
        index: usize,
        latest: &ContainerStatus,
        before: Option<&ContainerStatus>,
        now: Now,
    ) -> Vec<PodEvent> {
        let Some(container) = self.containers.get_mut(index) else { return Vec::new() };
        let told_of = container.id == latest.id;
        container.restarts = container.restarts.max(latest.attempt);
        if !latest.image_ref.is_empty() {
            container.image_id = Some(latest.image_ref.as_str().into());
        }
        if let Some(before) = before.filter(|before| before.state == cri::ContainerState::Exited) {
            container.last = Some(Box::new(ended(before)));
        }
        let waits = matches!(container.state, State::Waiting { .. });
        if told_of && waits && container.last.as_ref().is_some_and(|last| last.id == latest.id) {
            // The container's end is known; it waits for its next start.
            return Vec::new();
        }
        if !told_of {
            // The API has no record of this container.
            (container.ready, container.started) = (false, false);
            container.state = (State::FRESH)();
            container.id = latest.id.clone();
        }
        self.observe(index, latest, now)
    }

    /// Applies the outcome of running the sandbox; a failure has reasons and messages. `before` are the containers of removed sandboxes.
    pub(crate) fn sandboxed(
        &mut self,
        outcome: Result<(Str, Vec<IpAddr>), Vec<WarningEvent>>,
        before: &[ContainerStatus],
        host: &str,
        now: Now,
    ) -> Vec<PodEvent> {
        self.busy = None;
        let mut events = Vec::new();
        for status in before {
            if let Some(index) = self.by_id(&status.id) {
                events.extend(self.observe(index, status, now));
            }
        }
        match outcome {
            Ok((id, ips)) => {
                self.addressed(&ips, host);
                (self.sandbox, self.hold) = (Some(id), None);
                self.containers.iter_mut().for_each(|container| lose(container, now));
                events
            }
            Err(troubles) => {
                self.hold = Some(now.at + RETRY_PAUSE);
                let tell = |(reason, message): WarningEvent| PodEvent {
                    container: None,
                    warning: true,
                    reason: reason.into(),
                    message,
                };
                events.extend(troubles.into_iter().map(tell));
                events
            }
        }
    }

    fn addressed(&mut self, ips: &[IpAddr], host: &str) {
        let text = |ip: &IpAddr| Str::from(ip.to_string());
        self.ip = ips.first().map_or_else(|| host.into(), text);
        self.second_ip = ips.get(1).map(|ip| Box::new(text(ip)));
    }

    /// Handles the end of the sandbox: its containers are lost, and the pod gets a new sandbox.
    pub(crate) fn sandbox_lost(&mut self) -> Option<PodEvent> {
        if self.stage != Stage::Active || self.sandbox.take().is_none() {
            return None;
        }
        Some(PodEvent {
            container: None,
            warning: false,
            reason: "SandboxChanged".into(),
            message: "Pod sandbox changed, it will be killed and re-created.".to_owned(),
        })
    }

    /// Applies the outcome of a container's start.
    pub(crate) fn began(&mut self, report: StartReport, now: Now) -> Vec<PodEvent> {
        self.busy = None;
        let index = report.index;
        let Some(container) = self.containers.get_mut(index) else { return Vec::new() };
        if report.image_id.is_some() {
            container.image_id = report.image_id;
            container.pulls = 0;
        }
        let again = |container: &mut super::Container, reason, message: String| {
            container.last = container.ended().cloned().map(Box::new).or(container.last.take());
            container.state = State::Waiting { reason, message: message.into() };
            container.hold = Some(now.at + RETRY_PAUSE);
        };
        match report.end {
            Ok(status) => {
                if let State::Ended(before) = &container.state {
                    container.last = Some(before.clone());
                }
                container.restarts += u32::from(container.last.is_some());
                container.id = status.id.clone();
                container.hold = None;
                container.flip = None;
                self.observe(index, &status, now)
            }
            Err(StartError::Image(reason, message)) => {
                container.pulls = container.pulls.saturating_add(1);
                let pause = FIRST_BACKOFF.saturating_mul(1 << (container.pulls - 1).min(5)).min(MAX_BACKOFF);
                again(container, reason, message);
                container.hold = Some(now.at + Duration::from_secs(pause.into()));
                container.flip = (reason == "ErrImagePull").then(|| now.at + PULL_ERROR_SHOWN);
                Vec::new()
            }
            Err(StartError::Config(message)) => {
                again(container, "CreateContainerConfigError", message);
                Vec::new()
            }
            Err(StartError::Create(message)) => {
                again(container, "CreateContainerError", message);
                Vec::new()
            }
            Err(StartError::Start(id, message)) => {
                if let State::Ended(before) = &container.state {
                    container.last = Some(before.clone());
                }
                container.restarts += u32::from(container.last.is_some());
                container.id = id.clone();
                let at = now.wall;
                let reason = "StartError".into();
                self.container_ended(
                    index,
                    Ended { code: 128, reason, message: message.into(), started: at, finished: at, id },
                    now,
                )
            }
        }
    }

    /// Applies a container's status from the runtime.
    pub(crate) fn observe(&mut self, index: usize, status: &ContainerStatus, now: Now) -> Vec<PodEvent> {
        let probe = self.spec(index).and_then(|spec| spec.first_probe);
        let startup = self.spec(index).is_some_and(|spec| spec.startup_probe);
        let Some(container) = self.containers.get_mut(index) else { return Vec::new() };
        match status.state {
            cri::ContainerState::Created => Vec::new(),
            cri::ContainerState::Running => {
                let known = container.running();
                container.state = State::Running(status.started_at);
                // Where probes decide, the last result stays valid.
                container.ready = status.ready.unwrap_or(probe.is_none() || (known && container.ready));
                container.started = container.started || container.ready || !startup;
                Vec::new()
            }
            cri::ContainerState::Exited if container.ended().is_some() => Vec::new(),
            cri::ContainerState::Exited => self.container_ended(index, ended(status), now),
        }
    }

    /// Applies a probe's report; false when nothing changes.
    pub(crate) fn probed(&mut self, report: &Report) -> bool {
        let startup = self.spec(report.index).is_some_and(|spec| spec.startup_probe);
        let readiness = self.spec(report.index).is_some_and(|spec| spec.readiness_probe);
        let name = self.spec(report.index).map(|spec| spec.name.clone()).unwrap_or_default();
        let known = self.containers.get_mut(report.index);
        let Some(container) = known.filter(|known| known.id == report.id && known.running()) else { return false };
        let before = (container.ready, container.started);
        match (report.kind, report.verdict) {
            (Kind::Startup, Verdict::Success) => {
                (container.started, container.ready) = (true, container.ready || !readiness);
            }
            (Kind::Readiness, verdict) => {
                container.ready = verdict == Verdict::Success && (container.started || !startup);
            }
            (Kind::Startup | Kind::Liveness, Verdict::Failure) if container.doomed.is_none() => {
                let message = report.kind.killing(&name);
                container.doomed = Some(Box::new(Doomed { message, grace: report.grace }));
                return true;
            }
            _ => {}
        }
        before != (container.ready, container.started)
    }

    /// Applies the outcome of stopping a container after a failed probe.
    pub(crate) fn killed(
        &mut self,
        index: usize,
        outcome: Result<ContainerStatus, cri::Error>,
        now: Now,
    ) -> Vec<PodEvent> {
        self.busy = None;
        match outcome {
            Ok(status) => self.observe(index, &status, now),
            // The probe continues, and will demand the restart again.
            Err(_) => {
                if let Some(container) = self.containers.get_mut(index) {
                    container.doomed = None;
                }
                Vec::new()
            }
        }
    }

    /// Records a container's end. If the container is to be restarted, its back-off begins now.
    fn container_ended(&mut self, index: usize, end: Ended, now: Now) -> Vec<PodEvent> {
        let again = self.stage == Stage::Active && self.restarts(index, end.code);
        let meta = &self.item.meta;
        let pod = format!("{}_{}({})", meta.name(), meta.namespace(), meta.uid.0);
        let Some(spec) = self.spec(index).cloned() else { return Vec::new() };
        let Some(container) = self.containers.get_mut(index) else { return Vec::new() };
        (container.ready, container.started, container.hold) = (false, false, None);
        container.doomed = None;
        if !again {
            container.state = State::Ended(Box::new(end));
            return Vec::new();
        }
        if end.finished - container.paused_at > BACKOFF_RESET {
            container.pause = 0;
        }
        container.paused_at = end.finished;
        if container.pause == 0 {
            // The first restart comes at once.
            container.pause = FIRST_BACKOFF;
            container.state = State::Ended(Box::new(end));
            return Vec::new();
        }
        let pause = container.pause;
        container.pause = pause.saturating_mul(2).min(MAX_BACKOFF);
        container.hold = Some(now.at + Duration::from_secs(pause.into()));
        let shown = GoDuration::from_secs(pause.into());
        let message = format!("back-off {shown} restarting failed container={} pod={pod}", spec.name);
        container.last = Some(Box::new(end));
        container.state = State::Waiting { reason: "CrashLoopBackOff", message: message.into() };
        vec![PodEvent {
            container: Some(index),
            warning: true,
            reason: "BackOff".into(),
            message: format!("Back-off restarting failed container {} in pod {pod}", spec.name),
        }]
    }

    /// Applies the last states of the pod's containers after all were stopped.
    pub(crate) fn stopped(&mut self, outcome: Result<Vec<ContainerStatus>, cri::Error>, now: Now) {
        self.busy = None;
        let Ok(statuses) = outcome else {
            self.hold = Some(now.at + RETRY_PAUSE);
            return;
        };
        for status in &statuses {
            if let Some(index) = self.by_id(&status.id) {
                self.observe(index, status, now);
            }
        }
        self.stage = Stage::Stopped;
        let template = self.template().clone();
        for (_, container) in specs(&template).zip(&mut self.containers) {
            container.hold = None;
            container.flip = None;
            lose(container, now);
            // A container that waited for its next start will not start again.
            if let (State::Waiting { .. }, Some(last)) = (&container.state, &container.last) {
                container.state = State::Ended(last.clone());
            }
        }
    }

    /// Applies the removal of the pod's containers from the runtime; false when the removal must be tried again.
    pub(crate) fn cleaned(&mut self, outcome: &Result<(), cri::Error>, now: Now) -> bool {
        self.busy = None;
        self.hold = Some(now.at + RETRY_PAUSE);
        outcome.is_ok()
    }
}

/// Records the loss of a container that ran and that the runtime no longer knows.
fn lose(container: &mut super::Container, now: Now) {
    let State::Running(started) = container.state else { return };
    container.state = State::Ended(Box::new(Ended {
        code: 137,
        reason: "ContainerStatusUnknown".into(),
        message: "The container could not be located when the pod was terminated".into(),
        started,
        finished: now.wall,
        id: container.id.clone(),
    }));
    (container.ready, container.started) = (false, false);
}

fn ended(status: &ContainerStatus) -> Ended {
    let usual = if status.exit_code == 0 { "Completed" } else { "Error" };
    Ended {
        code: status.exit_code,
        reason: if status.reason.is_empty() { usual.into() } else { status.reason.clone() },
        message: status.message.clone(),
        started: status.started_at,
        finished: status.finished_at,
        id: status.id.clone(),
    }
}
