//! What outcomes and events make of a pod.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::Item;
use oarlock_meta::GoDuration;
use oarlock_schema::Str;

use super::{Ended, Now, Pod, Stage, State, Tell, specs};
use crate::cri::{self, ContainerStatus};
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
    /// CreateContainer.
    Create(String),
    /// StartContainer of this id.
    Start(Str, String),
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
    pub(crate) fn recalled(&mut self, sandbox: Option<Str>, now: Now) {
        self.busy = None;
        self.stage = Stage::Active;
        if sandbox.is_none() {
            for container in &mut self.containers {
                lose(container, now);
            }
        }
        self.sandboxes = u32::from(sandbox.is_some());
        self.sandbox = sandbox;
    }

    /// The sandbox runs, or not.
    pub(crate) fn sandboxed(
        &mut self,
        outcome: Result<(Str, Option<IpAddr>), cri::Error>,
        host: &str,
        now: Now,
    ) -> Option<Tell> {
        self.busy = None;
        match outcome {
            Ok((id, ip)) => {
                self.ip = ip.map_or_else(|| host.into(), |ip| oarlock_schema::Str::from(ip.to_string()));
                (self.sandbox, self.hold) = (Some(id), None);
                None
            }
            Err(error) => {
                self.hold = Some(now.at + AGAIN);
                Some(Tell {
                    container: None,
                    warning: true,
                    reason: "FailedCreatePodSandBox".into(),
                    message: format!("Failed to create pod sandbox: {error}"),
                })
            }
        }
    }

    /// A container was started, or not.
    pub(crate) fn began(&mut self, report: StartReport, now: Now) -> Vec<Tell> {
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
    pub(crate) fn observe(&mut self, index: usize, status: &ContainerStatus, now: Now) -> Vec<Tell> {
        let probe = self.spec(index).and_then(|spec| spec.first_probe);
        let startup = self.spec(index).is_some_and(|spec| spec.startup_probe);
        let Some(container) = self.containers.get_mut(index) else { return Vec::new() };
        match status.state {
            cri::ContainerState::Created => Vec::new(),
            cri::ContainerState::Running => {
                container.state = State::Running(status.started_at);
                container.ready = status.ready.unwrap_or(probe.is_none());
                container.started = container.started || container.ready || !startup;
                Vec::new()
            }
            cri::ContainerState::Exited if container.ended().is_some() => Vec::new(),
            cri::ContainerState::Exited => self.over(index, ended(status), now),
        }
    }

    /// A container ended. If it is to be started again its back-off begins now.
    fn over(&mut self, index: usize, end: Ended, now: Now) -> Vec<Tell> {
        let again = self.stage == Stage::Active && self.restarts(index, end.code);
        let meta = &self.item.meta;
        let pod = format!("{}_{}({})", meta.name(), meta.namespace(), meta.uid.0);
        let Some(spec) = self.spec(index).cloned() else { return Vec::new() };
        let Some(container) = self.containers.get_mut(index) else { return Vec::new() };
        (container.ready, container.started, container.hold) = (false, false, None);
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
        vec![Tell {
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

    /// Its traces were removed from the runtime; false when that has to be tried again.
    pub(crate) fn cleaned(&mut self, outcome: &Result<(), cri::Error>) -> bool {
        self.busy = None;
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
