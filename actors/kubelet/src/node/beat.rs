//! Periodic work of a node: registration, Lease, status, volumes, logs, image removal.

use std::time::Duration;

use oarlock_informer::Item;
use oarlock_meta::Status;
use oarlock_runtime::clock;
use oarlock_seeded_bug::seeded_bug;

use super::api::{self, Known};
use super::{Done, Entry, Node, Now, Uid, spread, uid_of};
use crate::affinity::NodeView;
use crate::image_gc::ImageGc;
use crate::log_rotation;
use crate::machine_metrics;
use crate::pod::{Stage, specs};

/// Period of renewing the Lease (upstream `nodeLeaseRenewIntervalFraction` of 40 s).
const LEASE_RENEW_PERIOD: Duration = Duration::from_secs(10);
/// Period of checking the Node's status (upstream `nodeStatusUpdateFrequency`).
pub(crate) const NODE_CHECK_PERIOD: Duration = Duration::from_secs(10);
/// Period of checking disk usage for image removal (upstream `ImageGCPeriod`).
const IMAGE_GC_PERIOD: Duration = Duration::from_secs(300);
/// Period of checking log sizes (upstream `containerLogMonitorInterval`).
pub(crate) const LOG_CHECK_PERIOD: Duration = Duration::from_secs(10);
/// Pause after a failed call.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl Node {
    pub(super) fn register(&mut self) {
        let (parts, resources) = (self.parts.clone(), self.resources);
        self.work.push(Box::pin(async move {
            Done::Registered(api::register(&parts.client, resources, &parts.config).await)
        }));
    }

    pub(super) fn registered(&mut self, result: Result<Known, Status>, now: Now) {
        match result {
            Ok(known) => {
                tracing::debug!(node = %self.parts.config.name, "registered");
                self.known(known, now);
                self.renew_at = Some(now.at);
                self.check_at = Some(now.at + spread(NODE_CHECK_PERIOD));
            }
            Err(status) => {
                tracing::warn!(node = %self.parts.config.name, %status, "not registered");
                let parts = self.parts.clone();
                let resources = self.resources;
                self.work.push(Box::pin(async move {
                    clock::sleep(spread(RETRY_PAUSE)).await;
                    Done::Registered(api::register(&parts.client, resources, &parts.config).await)
                }));
            }
        }
    }

    /// Handles a change of the Node from its watch.
    pub(super) fn node_changed(&mut self, node: &Item<NodeView>, now: Now) {
        let Some(known) = &mut self.known else { return };
        let old = node.meta.uid.as_str() != known.uid || node.meta.revision <= known.revision;
        if old || seeded_bug!("node_as_old_as_its_beat") {
            return;
        }
        known.view.clone_from(&node.value);
        known.revision = node.meta.revision;
        let waiting: Vec<_> = self.pods.iter().filter(|(_, entry)| !entry.admitted).map(|(uid, _)| *uid).collect();
        for uid in waiting {
            self.touch(uid, now);
        }
    }

    fn known(&mut self, mut known: Known, now: Now) {
        if let Some(reason) = known.ready_event() {
            self.parts.event_sender.ready_changed(&self.parts.config.name, reason);
        }
        // The Node that was read may be older than the last one from the watch.
        if let Some(newer) = self.known.as_ref().filter(|old| old.uid == known.uid && old.revision > known.revision) {
            known.view.clone_from(&newer.view);
            known.revision = newer.revision;
        }
        let cidr =
            known.pod_cidr.filter(|cidr| self.known.as_ref().is_none_or(|before| before.pod_cidr != Some(*cidr)));
        if let Some(cidr) = cidr {
            let parts = self.parts.clone();
            self.work.push(Box::pin(async move {
                if let Err(error) = parts.config.runtime.update_runtime_config(cidr).await {
                    tracing::warn!(node = %parts.config.name, %error, "runtime did not take the pod CIDR");
                }
                Done::Swept
            }));
        }
        let first = self.known.replace(known).is_none();
        // Mirror pods have the Node as owner, so static pods wait for it.
        let waits = |entry: &Entry| !entry.admitted || first && entry.is_static;
        let waiting: Vec<_> = self.pods.iter().filter(|(_, entry)| waits(entry)).map(|(uid, _)| *uid).collect();
        for uid in waiting {
            self.touch(uid, now);
        }
        self.retire();
    }

    /// Starts all periodic work that is due.
    pub(super) fn beat(&mut self, now: Now) {
        if self.renew_at.is_some_and(|at| at <= now.at) {
            self.renew_at = None;
            let (parts, resources) = (self.parts.clone(), self.resources);
            let uid = self.known.as_ref().map_or_else(String::new, |known| known.uid.clone());
            self.work.push(Box::pin(async move {
                Done::Renewed(api::renew(&parts.client, resources, &parts.config.name, &uid).await)
            }));
        }
        if self.refresh_at.is_some_and(|at| at <= now.at) {
            self.refresh_at = None;
            self.refresh();
        }
        if self.rotate_at.is_some_and(|at| at <= now.at) {
            self.rotate_at = None;
            self.rotate();
        }
        if self.collect_at.is_some_and(|at| at <= now.at) {
            self.collect_at = None;
            self.collect();
        }
        if self.check_at.is_some_and(|at| at <= now.at) {
            self.check_at = None;
            let (parts, resources) = (self.parts.clone(), self.resources);
            self.work.push(Box::pin(async move {
                Done::Checked(api::check(&parts.client, resources, &parts.config).await)
            }));
        }
    }

    /// Updates the volumes of all running pods, one pod after another.
    fn refresh(&mut self) {
        let Some(host_resources) = self.tools.host_resources.clone() else { return };
        let running =
            self.pods.values().filter(|entry| entry.pod.stage == Stage::Active && entry.pod.sandbox.is_some());
        let pods: Vec<_> = running.map(|entry| (entry.pod.item.clone(), entry.pod.ips())).collect();
        self.work.push(Box::pin(async move {
            let mut evicted = Vec::new();
            for (item, ips) in pods {
                if let Some(whole) = &item.value.whole
                    && let Some(why) = host_resources.keep_up(whole, &ips).await
                {
                    evicted.push((uid_of(&item), why));
                }
            }
            Done::Refreshed(evicted)
        }));
    }

    pub(super) fn refreshed(&mut self, evicted: Vec<(Uid, String)>, now: Now) {
        self.refresh_at = self.parts.config.machine.as_ref().map(|machine| now.at + spread(machine.sync_frequency));
        for (uid, why) in evicted {
            let Some(entry) = self.pods.get_mut(&uid) else { continue };
            let event = entry.pod.evict(why);
            machine_metrics::evicted();
            self.parts.event_sender.send(&entry.pod.item, event);
            self.touch(uid, now);
        }
    }

    /// Rotates logs that are too large.
    fn rotate(&mut self) {
        let Some(host_resources) = self.tools.host_resources.clone() else { return };
        let mut logs = Vec::new();
        for pod in self.pods.values().map(|entry| &entry.pod) {
            let Some(whole) = &pod.item.value.whole else { continue };
            let running = specs(pod.template()).zip(&pod.containers).filter(|(_, container)| container.running());
            logs.extend(running.map(|(spec, container)| {
                (container.id.clone(), host_resources.log_file(whole, &spec.name, container.restarts))
            }));
        }
        let runtime = self.tools.runtime.clone();
        self.work.push(Box::pin(async move {
            for (id, log) in logs {
                if let Err(error) = log_rotation::rotate(&*runtime, id, log).await {
                    tracing::warn!(%error, "log not rotated");
                }
            }
            Done::Rotated
        }));
    }

    pub(super) fn rotated(&mut self, now: Now) {
        self.rotate_at = Some(now.at + LOG_CHECK_PERIOD);
    }

    /// Removes unused images if the disk is full.
    fn collect(&mut self) {
        let (runtime, mut gc) = (self.tools.runtime.clone(), std::mem::take(&mut self.image_gc));
        let node = self.parts.config.name.clone();
        self.work.push(Box::pin(async move {
            if let Err(error) = gc.run(&*runtime).await {
                tracing::warn!(%node, %error, "images not collected");
            }
            Done::Collected(gc)
        }));
    }

    pub(super) fn collected(&mut self, gc: ImageGc, now: Now) {
        self.image_gc = gc;
        self.collect_at = Some(now.at + IMAGE_GC_PERIOD);
    }

    /// Schedules a check of the Node for the next turn.
    pub(super) fn check_now(&mut self, now: Now) {
        if let Some(at) = &mut self.check_at {
            *at = (*at).min(now.at);
        }
    }

    pub(super) fn renewed(&mut self, result: Result<(), Status>, now: Now) {
        let next = if let Err(status) = result {
            tracing::warn!(node = %self.parts.config.name, %status, "lease not renewed");
            RETRY_PAUSE
        } else {
            LEASE_RENEW_PERIOD
        };
        self.renew_at = Some(now.at + spread(next));
    }

    pub(super) fn checked(&mut self, result: Result<Option<Known>, Status>, now: Now) {
        match result {
            Ok(Some(known)) => {
                self.check_at = Some(now.at + spread(NODE_CHECK_PERIOD));
                self.known(known, now);
            }
            // Another client has deleted the Node.
            Ok(None) => {
                self.renew_at = None;
                self.register();
            }
            Err(status) => {
                tracing::warn!(node = %self.parts.config.name, %status, "node not checked");
                self.check_at = Some(now.at + spread(RETRY_PAUSE));
            }
        }
    }
}
