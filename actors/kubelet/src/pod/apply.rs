//! What outcomes and events make of a pod.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::Item;
use oarlock_meta::GoDuration;
use oarlock_schema::Str;

use super::model::{Ended, PodEvent};
use super::{Doomed, Now, Pod, Stage, State, specs};
use crate::cri::{self, ContainerStatus};
use crate::probes::{Kind, Report, Verdict};
use crate::tell::Trouble;
use crate::template::PodView;

/// The first crash or pull back-off.
const FIRST: u16 = 10;
/// No back-off is longer.
const LONGEST: u16 = 300;
/// A container that ran so long starts over with its back-off.
const FORGIVEN: i64 = 600;
/// What failed for other reasons is tried again after this.
const AGAIN: Duration = Duration::from_secs(10);
/// How long ErrImagePull shows before ImagePullBackOff.
const FLIP: Duration = Duration::from_secs(2);

/// Why a container was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StartError {
    /// The image: reason (ErrImagePull, ErrImageNeverPull) and message.
    Image(&'static str, String),
    /// What the container needs is not there, or it must not run.
    Config(String),
    /// CreateContainer.
    Create(String),
    /// StartContainer of this id.
    Start(Str, String),
}

/// What the runtime knows of a pod from before the kubelet started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recalled {
    /// The sandbox that runs, with its addresses.
    pub(crate) sandbox: Option<(Str, Vec<IpAddr>)>,
    /// How many sandboxes there were.
    pub(crate) attempts: u32,
    pub(crate) containers: Vec<ContainerStatus>,
}

/// What became of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartReport {
    pub(crate) index: usize,
    pub(crate) image_id: Option<Arc<str>>,
    pub(crate) end: Result<ContainerStatus, StartError>,
}

impl Pod {
    /// A newer state of the API's object.
    pub(crate) fn take(&mut self, item: Arc<Item<PodView>>) {
        self.item = item;
    }

    /// What the runtime knows of a pod from before the restart.
    pub(crate) fn recalled(&mut self, outcome: Result<Recalled, cri::Error>, host: &str, now: Now) -> Vec<PodEvent> {
        self.busy = None;
        let Ok(known) = outcome else {
            self.hold = Some(now.at + AGAIN);
            return Vec::new();
        };
        (self.stage, self.hold) = (Stage::Active, None);
        self.sandboxes = known.attempts;
        let mut told = Vec::new();
        let template = self.template().clone();
        for (index, spec) in specs(&template).enumerate() {
            let own = known.containers.iter().filter(|status| status.name == spec.name);
            // One that was made and never started was being started when the kubelet ended: it is made again.
            let mut own: Vec<_> = own.filter(|status| status.state != cri::ContainerState::Created).collect();
            own.sort_by_key(|status| status.attempt);
            if let Some(latest) = own.pop() {
                told.extend(self.adopt(index, latest, own.pop(), now));
            } else if let Some(container) = self.containers.get_mut(index) {
                lose(container, now);
            }
        }
        match known.sandbox {
            Some((id, ips)) => {
                // A runtime without addresses leaves the one that the API remembers.
                if !ips.is_empty() || self.ip.is_empty() {
                    self.addressed(&ips, host);
                }
                self.sandbox = Some(id);
            }
            None => self.containers.iter_mut().for_each(|container| lose(container, now)),
        }
        told
    }

    /// A container from before the restart, and the one before it.
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
            // Its end is known: it waits for its next start.
            return Vec::new();
        }
        if !told_of {
            // The API has not heard of it.
            (container.ready, container.started) = (false, false);
            container.state = (State::FRESH)();
            container.id = latest.id.clone();
        }
        self.observe(index, latest, now)
    }

    /// The sandbox runs, or not: reasons and messages. `before` are the containers of those that went.
    pub(crate) fn sandboxed(
        &mut self,
        outcome: Result<(Str, Vec<IpAddr>), Vec<Trouble>>,
        before: &[ContainerStatus],
        host: &str,
        now: Now,
    ) -> Vec<PodEvent> {
        self.busy = None;
        let mut told = Vec::new();
        for status in before {
            if let Some(index) = self.by_id(&status.id) {
                told.extend(self.observe(index, status, now));
            }
        }
        match outcome {
            Ok((id, ips)) => {
                self.addressed(&ips, host);
                (self.sandbox, self.hold) = (Some(id), None);
                self.containers.iter_mut().for_each(|container| lose(container, now));
                told
            }
            Err(troubles) => {
                self.hold = Some(now.at + AGAIN);
                let tell = |(reason, message): Trouble| PodEvent {
                    container: None,
                    warning: true,
                    reason: reason.into(),
                    message,
                };
                told.extend(troubles.into_iter().map(tell));
                told
            }
        }
    }

    fn addressed(&mut self, ips: &[IpAddr], host: &str) {
        let text = |ip: &IpAddr| Str::from(ip.to_string());
        self.ip = ips.first().map_or_else(|| host.into(), text);
        self.second_ip = ips.get(1).map(|ip| Box::new(text(ip)));
    }

    /// The sandbox ended by itself: everything in it goes, and the pod gets another.
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

    /// A container was started, or not.
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
            container.hold = Some(now.at + AGAIN);
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
                let pause = FIRST.saturating_mul(1 << (container.pulls - 1).min(5)).min(LONGEST);
                again(container, reason, message);
                container.hold = Some(now.at + Duration::from_secs(pause.into()));
                container.flip = (reason == "ErrImagePull").then(|| now.at + FLIP);
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
                self.over(
                    index,
                    Ended { code: 128, reason, message: message.into(), started: at, finished: at, id },
                    now,
                )
            }
        }
    }

    /// The runtime tells of a container.
    pub(crate) fn observe(&mut self, index: usize, status: &ContainerStatus, now: Now) -> Vec<PodEvent> {
        let probe = self.spec(index).and_then(|spec| spec.first_probe);
        let startup = self.spec(index).is_some_and(|spec| spec.startup_probe);
        let Some(container) = self.containers.get_mut(index) else { return Vec::new() };
        match status.state {
            cri::ContainerState::Created => Vec::new(),
            cri::ContainerState::Running => {
                let known = container.running();
                container.state = State::Running(status.started_at);
                // Where probes tell, the last of them holds.
                container.ready = status.ready.unwrap_or(probe.is_none() || (known && container.ready));
                container.started = container.started || container.ready || !startup;
                Vec::new()
            }
            cri::ContainerState::Exited if container.ended().is_some() => Vec::new(),
            cri::ContainerState::Exited => self.over(index, ended(status), now),
        }
    }

    /// What a prober says of a container; false when that changes nothing.
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

    /// A container that a probe condemned was stopped.
    pub(crate) fn killed(
        &mut self,
        index: usize,
        outcome: Result<ContainerStatus, cri::Error>,
        now: Now,
    ) -> Vec<PodEvent> {
        self.busy = None;
        match outcome {
            Ok(status) => self.observe(index, &status, now),
            // Its probe goes on, and asks for it again.
            Err(_) => {
                if let Some(container) = self.containers.get_mut(index) {
                    container.doomed = None;
                }
                Vec::new()
            }
        }
    }

    /// A container ended. If it is to be started again its back-off begins now.
    fn over(&mut self, index: usize, end: Ended, now: Now) -> Vec<PodEvent> {
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
        if end.finished - container.paused_at > FORGIVEN {
            container.pause = 0;
        }
        container.paused_at = end.finished;
        if container.pause == 0 {
            // the first time at once
            container.pause = FIRST;
            container.state = State::Ended(Box::new(end));
            return Vec::new();
        }
        let pause = container.pause;
        container.pause = pause.saturating_mul(2).min(LONGEST);
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

    /// Everything was stopped; these are the last states of its containers.
    pub(crate) fn stopped(&mut self, outcome: Result<Vec<ContainerStatus>, cri::Error>, now: Now) {
        self.busy = None;
        let Ok(statuses) = outcome else {
            self.hold = Some(now.at + AGAIN);
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
            // What waited for its next start will not get it.
            if let (State::Waiting { .. }, Some(last)) = (&container.state, &container.last) {
                container.state = State::Ended(last.clone());
            }
        }
    }

    /// Its traces were removed from the node; false when that has to be tried again.
    pub(crate) fn cleaned(&mut self, outcome: &Result<(), cri::Error>, now: Now) -> bool {
        self.busy = None;
        self.hold = Some(now.at + AGAIN);
        outcome.is_ok()
    }
}

/// A container that ran and that the runtime does not know any more.
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
