//! The pods of a node: their arrival, their steps and their removal.

use std::sync::Arc;

use futures::future::abortable;
use oarlock_informer::Item;
use oarlock_schema::Str;

use super::steps::{self, Outcome};
use super::{Done, Entry, Node, Now, Uid, uid_of};
use crate::admit::admit;
use crate::affinity::NodeView;
use crate::cri::RuntimeEvent;
use crate::manifests::MIRROR;
use crate::metrics::{self, PodShare};
use crate::pod::model::PodEvent;
use crate::pod::{Pod, Stage};
use crate::recorded_status::RecordedStatus;
use crate::template::PodView;
use crate::trace::Life;

impl Node {
    /// Compares all pods with the cache, after changes may have been missed.
    pub(super) fn resync(&mut self, now: Now) {
        if !self.cache.is_synced() {
            return;
        }
        let items = self.cache.list();
        let present: std::collections::BTreeSet<Uid> = items.iter().map(|item| uid_of(item)).collect();
        let of_api = self.pods.iter().filter(|(_, entry)| !entry.is_static).map(|(uid, _)| *uid);
        let gone: Vec<Uid> = of_api.filter(|uid| !present.contains(uid)).collect();
        for uid in gone {
            self.end(uid, now);
        }
        self.mirrors_are(&items);
        for item in items {
            self.pod_changed(item, now);
        }
        self.sources_ready(now);
    }

    /// Handles a pod's new state from the API.
    pub(super) fn pod_changed(&mut self, item: Arc<Item<PodView>>, now: Now) {
        if let Some(hash) = item.value.template.annotation(MIRROR).map(Str::from) {
            return self.mirror_seen(&item, hash, now);
        }
        let uid = uid_of(&item);
        // The recorded status is taken in any case: it is needed once, and a thousand of them are megabytes.
        let state = item.value.seen.lock().take();
        if let Some(entry) = self.pods.get_mut(&uid) {
            let newer = item.meta.revision.get() > entry.revision;
            let drifted = newer
                && entry.written != 0
                && !entry.writing
                && state.as_ref().is_some_and(|state| entry.pod.differs(state));
            if item.meta.generation != entry.pod.item.meta.generation {
                (entry.arrived, entry.since) = (now.at, now.at);
            }
            entry.pod.take(item);
            if drifted {
                entry.written = 0;
            }
        } else {
            self.insert(uid, item, state.as_deref(), false, now);
        }
        self.touch(uid, now);
    }

    /// Adds a pod, with its status recorded in the API.
    pub(super) fn insert(
        &mut self,
        uid: Uid,
        item: Arc<Item<PodView>>,
        state: Option<&RecordedStatus>,
        is_static: bool,
        now: Now,
    ) {
        let outlives = self.tools.runtime.outlives_kubelet();
        if let (Some(host_resources), Some(whole)) = (&self.tools.host_resources, &item.value.whole) {
            host_resources.registered(whole);
        }
        let mut pod = Pod::new(item, state, outlives, now);
        // The status of a finished pod is written already; a running pod was admitted before the restart.
        let written = if pod.stage == Stage::Stopped { pod.status(self.host(), now).1 } else { 0 };
        let settled = if pod.is_settled() { pod.api_identity().1 } else { -1 };
        let entry = Entry {
            is_static,
            arrived: now.at,
            since: now.at,
            settled,
            admitted: state.is_some(),
            pod,
            counted: false,
            seq: 0,
            abort: None,
            wake: None,
            dirty: None,
            writing: false,
            written,
            revision: 0,
            failures: 0,
            hold: None,
            share: PodShare::default(),
            starting: state.is_none(),
        };
        self.pods.insert(uid, Box::new(entry));
    }

    /// Handles the removal of a pod from the API.
    pub(super) fn pod_removed(&mut self, item: &Item<PodView>, now: Now) {
        if item.value.template.annotation(MIRROR).is_some() {
            self.mirror_lost(item, now);
        } else {
            self.end(uid_of(item), now);
        }
    }

    /// Begins the end of a pod that neither the API nor a manifest wants.
    pub(super) fn end(&mut self, uid: Uid, now: Now) {
        if let Some(entry) = self.pods.get_mut(&uid) {
            entry.pod.gone = true;
            self.touch(uid, now);
        }
    }

    /// Asks a pod for its next step and begins it.
    pub(super) fn touch(&mut self, uid: Uid, now: Now) {
        if !self.admitted(uid, now) {
            return;
        }
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        let mut events = Vec::new();
        let next = entry.pod.advance(now, &mut events);
        for event in events {
            self.parts.event_sender.send(&entry.pod.item, event);
        }
        if next.interrupt
            && let Some(abort) = entry.abort.take()
        {
            abort.abort();
        }
        if let Some(step) = &next.step {
            entry.seq = entry.seq.wrapping_add(1);
            let seq = entry.seq;
            let (future, abort) = abortable(steps::perform(&entry.pod, step, &self.tools));
            entry.abort = Some(abort);
            let (step, began) = (step.clone(), now.at);
            self.work.push(Box::pin(async move {
                match future.await {
                    Ok(outcome) => {
                        metrics::worked(&step, began.elapsed());
                        Done::Step { uid, seq, outcome }
                    }
                    Err(_) => Done::Swept,
                }
            }));
        }
        if entry.wake != next.wake {
            if let Some(at) = entry.wake.take() {
                self.timers.remove(&(at, uid));
            }
            entry.wake = next.wake;
            self.timers.extend(next.wake.map(|at| (at, uid)));
        }
        entry.dirty.get_or_insert(now.at);
        self.dirty.insert(uid);
        self.count(uid);
        self.show(uid);
        self.probe(uid);
    }

    /// Updates the node's sums of used resources for a pod.
    fn count(&mut self, uid: Uid) {
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        let counts = entry.admitted && entry.pod.uses_node();
        match (entry.counted, counts) {
            (false, true) => self.used.add(entry.pod.template()),
            (true, false) => self.used.remove(entry.pod.template()),
            _ => {}
        }
        entry.counted = counts;
    }

    /// Updates the metrics for a pod.
    fn show(&mut self, uid: Uid) {
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        let share = PodShare::of(&entry.pod);
        self.metrics.replace(entry.share, share);
        entry.share = share;
        if share.runs() && entry.starting {
            entry.starting = false;
            metrics::started(entry.arrived.elapsed());
        }
    }

    /// Admits a new pod; false while the decision must wait for the Node.
    fn admitted(&mut self, uid: Uid, now: Now) -> bool {
        let Some(entry) = self.pods.get_mut(&uid) else { return false };
        if entry.admitted || entry.pod.gone || entry.pod.item.meta.deleting() {
            entry.admitted = true;
            return true;
        }
        // Static pods are admitted without the Node from the API.
        let own = entry.is_static.then(|| {
            let config = &self.parts.config;
            NodeView::own(config.name.clone(), config.node_labels())
        });
        let Some(view) = self.known.as_ref().map(|known| &known.view).or(own.as_ref()) else { return false };
        let why_rejected = match admit(entry.pod.template(), view, &self.has, &self.used, entry.is_static) {
            Ok(()) => None,
            // Labels and taints may have changed since the Node was last read, and the watch of the Node may lag behind the watch of pods. So the Node is read
            // once more before a pod is rejected for them.
            Err(why) if why.of_node() && entry.failures == 0 && self.known.is_some() => {
                entry.failures = 1;
                self.check_now(now);
                return false;
            }
            Err(why) => {
                let event = entry.pod.reject(&why);
                self.parts.event_sender.send(&entry.pod.item, event);
                Some(why.message)
            }
        };
        if let Some(life) = Life::of(&entry.pod, &self.tools.node) {
            life.record("admit", [], entry.arrived, why_rejected.as_deref());
        }
        entry.since = now.at;
        entry.failures = 0;
        entry.admitted = true;
        true
    }

    /// Handles the outcome of a step.
    pub(super) fn stepped(&mut self, uid: Uid, seq: u32, outcome: Outcome, now: Now) {
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        if entry.seq != seq {
            return;
        }
        (entry.abort, entry.since) = (None, now.at);
        let pod = &mut entry.pod;
        let mut events: Vec<PodEvent> = Vec::new();
        match outcome {
            Outcome::Recalled(result) => events.extend(pod.recalled(result, &self.host_ip, now)),
            Outcome::Sandbox(result, before) => events.extend(pod.sandboxed(result, &before, &self.host_ip, now)),
            Outcome::Started(report) => events.extend(pod.began(report, now)),
            Outcome::Killed(index, result) => events.extend(pod.killed(index, result, now)),
            Outcome::Stopped(result) => pod.stopped(result, now),
            Outcome::Cleaned(result) => {
                if pod.cleaned(&result, now) {
                    self.forget(uid, now);
                    return;
                }
                if let Err(error) = result {
                    tracing::warn!(node = %self.parts.config.name, pod = %pod.item.key(), %error, "pod not cleaned up");
                }
            }
        }
        for event in events {
            self.parts.event_sender.send(&entry.pod.item, event);
        }
        self.touch(uid, now);
    }

    /// Handles a runtime event about a container or sandbox.
    pub(super) fn event(&mut self, event: &RuntimeEvent) {
        let now = Self::now();
        let concerns = |pod: &Pod| match event {
            RuntimeEvent::Container { pod_uid, .. } => pod.item.meta.uid.0 == *pod_uid,
            RuntimeEvent::Sandbox { id } => pod.sandbox.as_ref() == Some(id),
        };
        let Some((uid, entry)) = self.pods.iter_mut().find(|(_, entry)| concerns(&entry.pod)) else { return };
        let uid = *uid;
        let events = match event {
            RuntimeEvent::Container { status, .. } => {
                let Some(index) = entry.pod.by_id(&status.id) else { return };
                entry.pod.observe(index, status, now)
            }
            RuntimeEvent::Sandbox { .. } => entry.pod.sandbox_lost().into_iter().collect(),
        };
        for event in events {
            self.parts.event_sender.send(&entry.pod.item, event);
        }
        self.touch(uid, now);
    }

    fn forget(&mut self, uid: Uid, now: Now) {
        let Some(entry) = self.pods.remove(&uid) else { return };
        if entry.counted {
            self.used.remove(entry.pod.template());
        }
        self.metrics.replace(entry.share, PodShare::default());
        if let Some(at) = entry.wake {
            self.timers.remove(&(at, uid));
        }
        self.dirty.remove(&uid);
        self.probing.forget(uid);
        if entry.is_static {
            // A static pod of the same name may have waited for this pod's end.
            self.start_statics(now);
            self.retire();
        }
    }
}
