//! Computes the phase from the containers' states (upstream `getPhase`).

use super::model::Phase;
use super::{Pod, Stage, State};

impl Pod {
    /// Returns the phase; Succeeded and Failed never change.
    pub(super) fn current_phase(&self) -> Phase {
        if self.phase.is_over() {
            return self.phase;
        }
        if self.verdict.is_some() {
            return if self.stage == Stage::Stopped { Phase::Failed } else { self.phase };
        }
        let computed = self.computed_phase();
        if self.stage == Stage::Stopped && !computed.is_over() { Phase::Failed } else { computed }
    }

    fn computed_phase(&self) -> Phase {
        let inits = self.template().init.len();
        let (mut pending, mut running, mut waiting, mut ended, mut final_, mut succeeded) = (0, 0, 0, 0, 0, 0);
        for (index, container) in self.containers.iter().enumerate() {
            let sidecar = self.template().init.get(index).is_some_and(|spec| spec.sidecar);
            // A container that waits after an end counts as ended.
            let end = match &container.state {
                State::Ended(end) => Some(end),
                State::Waiting { .. } => container.last.as_ref(),
                State::Running(_) => None,
            };
            if index < inits && !sidecar {
                match end {
                    Some(end) if end.code != 0 && !self.restarts(index, end.code) => return Phase::Failed,
                    Some(end) if end.code == 0 || container.ended().is_some() => {}
                    // An init container that waits for a retry is pending too: no later container has started.
                    _ => pending += 1,
                }
            } else if sidecar {
                match &container.state {
                    State::Running(_) => {
                        running += 1;
                        pending += usize::from(!container.started && !self.initialized());
                    }
                    State::Waiting { .. } if end.is_none() => waiting += 1,
                    _ => {}
                }
            } else {
                match end {
                    None if container.running() => running += 1,
                    None => waiting += 1,
                    Some(end) => {
                        ended += 1;
                        final_ += usize::from(!self.restarts(index, end.code));
                        succeeded += usize::from(end.code == 0);
                    }
                }
            }
        }
        if pending > 0 || waiting > 0 {
            Phase::Pending
        } else if running > 0 {
            Phase::Running
        } else if ended == 0 {
            Phase::Pending
        } else if self.stage != Stage::Stopped && ended != final_ {
            Phase::Running
        } else if ended == succeeded {
            Phase::Succeeded
        } else {
            Phase::Failed
        }
    }

    /// Whether every init container is done (or a sidecar started), so that main containers may start; remains true once they have.
    pub(super) fn initialized(&self) -> bool {
        let inits = self.template().init.len();
        let begun =
            |at: usize| self.containers.get(at).is_some_and(|c| c.running() || c.ended().is_some() || c.last.is_some());
        (inits..self.containers.len()).any(begun) || (0..inits).all(|index| self.init_done(index))
    }

    /// Whether an init container is done, so that the next one may start.
    pub(super) fn init_done(&self, index: usize) -> bool {
        let sidecar = self.template().init.get(index).is_some_and(|spec| spec.sidecar);
        self.containers.get(index).is_some_and(|container| {
            if sidecar { container.started } else { container.ended().is_some_and(|end| end.code == 0) }
        })
    }
}
