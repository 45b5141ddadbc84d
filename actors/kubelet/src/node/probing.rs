//! Probes of running containers: starts and stops the probe tasks, and handles their reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_runtime::{Instant, LoopCtx, clock};
use oarlock_schema::Str;
use tokio::sync::{mpsc, watch};

use super::{Node, Now, Uid};
use crate::downward;
use crate::pod::model::PodEvent;
use crate::pod::{Pod, State, specs};
use crate::probes::{self, Gate, Prober, Report, Subject};

/// Largest number of queued reports; probe tasks wait for space.
const MAX_QUEUED_REPORTS: usize = 256;

/// The probe tasks of a node.
pub(super) struct Probing {
    since: Instant,
    sender: mpsc::Sender<Report>,
    pub(super) reports: mpsc::Receiver<Report>,
    /// Probed container by pod and index, with its gate; dropping the gate ends the tasks.
    watched: BTreeMap<(Uid, usize), (Str, watch::Sender<Gate>)>,
}

impl Probing {
    pub(super) fn new() -> Self {
        let (sender, reports) = mpsc::channel(MAX_QUEUED_REPORTS);
        Self { since: clock::now(), sender, reports, watched: BTreeMap::new() }
    }

    /// Stops the probes of a pod.
    pub(super) fn forget(&mut self, uid: Uid) {
        let of: Vec<_> = self.watched.range((uid, 0)..=(uid, usize::MAX)).map(|(key, _)| *key).collect();
        for key in of {
            self.watched.remove(&key);
        }
    }
}

impl Node {
    /// Starts and stops probe tasks so that exactly the running containers of a pod are probed.
    pub(super) fn probe(&mut self, uid: Uid) {
        let Some(entry) = self.pods.get(&uid).filter(|_| self.tools.host_resources.is_some()) else { return };
        let pod = &entry.pod;
        let stopping = pod.gone || pod.item.meta.deleting();
        for (index, container) in pod.containers.iter().enumerate() {
            let key = (uid, index);
            let State::Running(started) = container.state else {
                self.probing.watched.remove(&key);
                continue;
            };
            let gate = Gate { started: container.started, stopping };
            match self.probing.watched.get(&key) {
                Some((id, sender)) if *id == container.id => {
                    sender.send_if_modified(|known| std::mem::replace(known, gate) != gate);
                    continue;
                }
                _ => {}
            }
            let (sender, receiver) = watch::channel(gate);
            let subject = Subject {
                pod: pod.item.meta.uid.0.clone(),
                index,
                id: container.id.clone(),
                started,
                ip: pod.ips().first().copied(),
            };
            spawn(&self.ctx, pod, subject, receiver, &self.probing, &self.tools);
            self.probing.watched.insert(key, (container.id.clone(), sender));
        }
    }

    /// Handles a report of a probe task.
    pub(super) fn report(&mut self, report: &Report, now: Now) {
        let entry = self.pods.iter_mut().find(|(_, entry)| entry.pod.item.meta.uid.0 == report.pod);
        let Some((uid, entry)) = entry else { return };
        let uid = *uid;
        if entry.pod.probed(report) {
            self.touch(uid, now);
        }
    }
}

fn spawn(
    ctx: &LoopCtx,
    pod: &Pod,
    subject: Subject,
    gate: watch::Receiver<Gate>,
    probing: &Probing,
    tools: &super::Tools,
) {
    let Some(whole) = &pod.item.value.whole else { return };
    let index = subject.index;
    let Some(spec) = specs(pod.template()).nth(index).and_then(|spec| downward::find(downward::pod(whole), &spec.name))
    else {
        return;
    };
    let (event_sender, item) = (tools.event_sender.clone(), pod.item.clone());
    let tell = move |reason: &'static str, message: String| {
        event_sender.send(&item, PodEvent { container: Some(index), warning: true, reason: reason.into(), message });
    };
    let tell: Arc<dyn Fn(&'static str, String) + Send + Sync> = Arc::new(tell);
    for probe in probes::of_container(spec) {
        let prober = Prober {
            subject: subject.clone(),
            runtime: tools.runtime.clone(),
            tell: tell.clone(),
            gate: gate.clone(),
            reports: probing.sender.clone(),
            age: probing.since.elapsed(),
        };
        // Spawning fails only when this incarnation is shutting down, and then no report is needed.
        let _ = ctx.spawn("probe", probes::run(prober, probe));
    }
}
