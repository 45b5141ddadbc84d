//! Decides the next step of a pod.

use super::model::PodEvent;
use super::{Next, Now, Pod, Stage, State, Step, seconds};
use crate::template::RestartPolicy;

impl Pod {
    /// Returns the next step, or when to decide again. There is no step while another is in progress, unless the pod must end sooner than that one would.
    pub(crate) fn advance(&mut self, now: Now, events: &mut Vec<PodEvent>) -> Next {
        self.check_deadline(now, events);
        let grace = self.end_grace();
        let mut next = match (&self.busy, grace) {
            (Some(Step::Stop(under_way)), Some(grace)) if grace < *under_way => {
                Next { interrupt: true, ..Next::step(Step::Stop(grace)) }
            }
            (Some(Step::Sandbox | Step::Start(_) | Step::Kill(_)), Some(grace)) => {
                Next { interrupt: true, ..Next::step(Step::Stop(grace)) }
            }
            (Some(_), _) => Next::default(),
            (None, grace) => self.idle(grace, now),
        };
        self.flip_pulls(now, &mut next, events);
        if let Some(end) = self.deadline(now)
            && self.stage == Stage::Active
        {
            next.at(end);
        }
        match next.step {
            Some(Step::Stop(_)) => self.stage = Stage::Stopping,
            Some(Step::Sandbox) => self.sandboxes += 1,
            _ => {}
        }
        if next.step.is_some() {
            self.busy.clone_from(&next.step);
        }
        next
    }

    fn idle(&mut self, grace: Option<i64>, now: Now) -> Next {
        match (self.stage, grace) {
            // A pod to be stopped is recalled too, since the runtime can only stop containers that it knows.
            (Stage::Recalling, _) => self.once_due(Step::Recall, now),
            (Stage::Active | Stage::Stopping, Some(grace)) => {
                if self.sandbox.is_none() && self.sandboxes == 0 {
                    self.stage = Stage::Stopped;
                    return self.idle(None, now);
                }
                if self.stage == Stage::Stopping {
                    self.once_due(Step::Stop(grace), now)
                } else {
                    Next::step(Step::Stop(grace))
                }
            }
            (Stage::Active, None) => self.active(now),
            (Stage::Stopped, _) if self.gone => self.once_due(Step::Clean, now),
            (Stage::Stopped | Stage::Stopping, _) => Next::default(),
        }
    }

    /// Returns the step, or a wake-up time when the step has just failed.
    fn once_due(&self, step: Step, now: Now) -> Next {
        match self.hold {
            Some(until) if now.at < until => Next { wake: Some(until), ..Next::default() },
            _ => Next::step(step),
        }
    }

    fn active(&mut self, now: Now) -> Next {
        let mut next = Next::default();
        if self.sandbox.is_none() {
            match self.hold {
                Some(until) if now.at < until => next.at(until),
                _ => next.step = Some(Step::Sandbox),
            }
            return next;
        }
        if let Some(index) =
            self.containers.iter().position(|container| container.running() && container.doomed.is_some())
        {
            next.step = Some(Step::Kill(index));
            return next;
        }
        let inits = self.template().init.len();
        let initialized = self.initialized();
        for index in 0..self.containers.len() {
            let sidecar = self.template().init.get(index).is_some_and(|spec| spec.sidecar);
            if index < inits && initialized && !sidecar {
                continue;
            }
            if self.to_start(index) {
                match self.containers.get(index).and_then(|container| container.hold) {
                    Some(until) if now.at < until => next.at(until),
                    _ => {
                        next.step = Some(Step::Start(index));
                        return next;
                    }
                }
            }
            // Init containers run one after another.
            if index < inits && !initialized && !self.init_done(index) {
                return next;
            }
        }
        next
    }

    /// Whether a container should run and does not.
    fn to_start(&self, index: usize) -> bool {
        self.containers.get(index).is_some_and(|container| match &container.state {
            State::Waiting { .. } => true,
            State::Running(_) => false,
            State::Ended(end) => self.restarts(index, end.code),
        })
    }

    /// Returns the grace period in seconds of a pod that must end.
    fn end_grace(&self) -> Option<i64> {
        if self.stage == Stage::Stopped {
            return None;
        }
        let own = self.template().grace;
        if self.gone || self.item.meta.deleting() {
            return Some(self.item.value.deletion_grace.unwrap_or(own));
        }
        (self.verdict.is_some() || self.stage == Stage::Stopping || self.finished()).then_some(own)
    }

    /// Whether all containers have ended for good.
    fn finished(&self) -> bool {
        if self.stage == Stage::Recalling {
            return false;
        }
        let inits = self.template().init.len();
        let over = |index: usize| {
            self.containers
                .get(index)
                .and_then(super::Container::ended)
                .is_some_and(|end| !self.restarts(index, end.code))
        };
        let failed_init = self.template().restart == RestartPolicy::Never
            && (0..inits).any(|index| over(index) && !self.init_done(index));
        failed_init || (inits < self.containers.len() && (inits..self.containers.len()).all(over))
    }

    fn deadline(&self, now: Now) -> Option<oarlock_runtime::Instant> {
        let left = self.started + self.template().deadline? - now.wall;
        (self.verdict.is_none() && !self.phase.is_over()).then(|| now.at + seconds(left))
    }

    fn check_deadline(&mut self, now: Now, events: &mut Vec<PodEvent>) {
        if self.stage != Stage::Active || self.deadline(now).is_none_or(|end| now.at < end) {
            return;
        }
        let (reason, message) = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline");
        self.verdict = Some(Box::new((reason.into(), message.into())));
        events.push(PodEvent { container: None, warning: false, reason: reason.into(), message: message.to_owned() });
    }

    /// Turns ErrImagePull into ImagePullBackOff after a moment.
    fn flip_pulls(&mut self, now: Now, next: &mut Next, events: &mut Vec<PodEvent>) {
        let template = self.template().clone();
        for (index, (spec, container)) in super::specs(&template).zip(&mut self.containers).enumerate() {
            let Some(flip) = container.flip else { continue };
            if now.at < flip {
                next.at(flip);
                continue;
            }
            container.flip = None;
            let State::Waiting { reason: "ErrImagePull", message } = &container.state else { continue };
            let plain = format!("Back-off pulling image \"{}\"", spec.image);
            let message = format!("{plain}: ErrImagePull: {message}").into();
            container.state = State::Waiting { reason: "ImagePullBackOff", message };
            let tell = |warning, reason: &str, message| PodEvent {
                container: Some(index),
                warning,
                reason: reason.into(),
                message,
            };
            events.push(tell(false, "BackOff", plain));
            events.push(tell(true, "Failed", "Error: ImagePullBackOff".to_owned()));
        }
    }
}
