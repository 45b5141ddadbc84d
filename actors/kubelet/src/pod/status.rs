//! Computes a pod's status from its state, as the strategic merge patch that upstream's status manager sends: other clients' conditions are kept, and the uid
//! is a precondition.

use std::hash::BuildHasher;

use oarlock_meta::Time;
use serde_json::{Value, json};

use super::model::{CONDITIONS, Ended, Phase};
use super::{Container, Now, Pod, Stage, State, specs};

/// Value of a condition to write.
struct Condition {
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Condition {
    fn yes(reason: &'static str) -> Self {
        Self { holds: true, reason, message: String::new() }
    }

    fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self { holds: false, reason, message: message.into() }
    }
}

/// Facts about the node in pods' statuses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host<'a> {
    /// Internal address of the node.
    pub(crate) ip: &'a str,
    /// Name of the runtime, the scheme of container ids.
    pub(crate) runtime: &'a str,
}

impl Pod {
    /// Returns the patch of the status subresource, and a fingerprint of the status by which the caller decides whether to write. Advances the phase and the
    /// conditions' transition times.
    pub(crate) fn status(&mut self, host: Host<'_>, now: Now) -> (Vec<u8>, u64) {
        self.phase = self.current_phase();
        let wanted = self.wanted_conditions();
        for (condition, (held, since)) in wanted.iter().zip(&mut self.conditions) {
            if *since == 0 || *held != condition.holds {
                (*held, *since) = (condition.holds, now.wall);
            }
        }
        let (uid, generation) = self.api_identity();
        let uid = uid.to_string();
        let conditions: Vec<Value> = CONDITIONS
            .iter()
            .zip(&wanted)
            .zip(&self.conditions)
            .map(|((kind, condition), (_, since))| {
                let optional = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
                json!({
                    "type": kind,
                    "status": if condition.holds { "True" } else { "False" },
                    "reason": optional(condition.reason),
                    "message": optional(&condition.message),
                    "lastProbeTime": null,
                    "lastTransitionTime": time(*since),
                    "observedGeneration": generation,
                })
            })
            .collect();
        let mut status = json!({
            "phase": self.phase.as_str(),
            "conditions": conditions,
            "startTime": time(self.started),
            "observedGeneration": generation,
        });
        let mut set = |name: &str, value: Value| {
            if let Some(map) = status.as_object_mut() {
                map.insert(name.to_owned(), value);
            }
        };
        let (reason, message) = self.verdict.as_ref().map_or(("", ""), |verdict| (verdict.0.as_str(), &*verdict.1));
        if !reason.is_empty() {
            set("reason", reason.into());
            set("message", message.into());
        }
        let admitted =
            self.sandboxes > 0 || self.verdict.is_none() || self.conditions.first().is_some_and(|(on, _)| *on);
        if admitted {
            set("hostIP", host.ip.into());
            set("hostIPs", replacing(std::iter::once(json!({"ip": host.ip}))));
            if !self.ip.is_empty() {
                set("podIP", self.ip.as_str().into());
                let second = self.second_ip.as_deref().map(oarlock_schema::Str::as_str);
                let all = [Some(self.ip.as_str()), second].into_iter().flatten();
                set("podIPs", replacing(all.map(|ip| json!({"ip": ip}))));
            }
            let all = self.container_statuses(host);
            let inits = self.template().init.len();
            let mut all = all.into_iter();
            let init: Vec<Value> = all.by_ref().take(inits).collect();
            if !init.is_empty() {
                set("initContainerStatuses", init.into());
            }
            set("containerStatuses", all.collect());
        }
        // With the uid the server refuses the patch for another pod of the same name.
        let patch = json!({"metadata": {"uid": uid}, "status": status});
        let bytes = patch.to_string().into_bytes();
        let mark = foldhash::fast::FixedState::default().hash_one(&bytes);
        (bytes, mark)
    }

    fn container_statuses(&self, host: Host<'_>) -> Vec<Value> {
        let fresh = if self.template().init.is_empty() { "ContainerCreating" } else { "PodInitializing" };
        let shown = |id: &str| if id.is_empty() { String::new() } else { format!("{}://{id}", host.runtime) };
        let ended = |end: &Ended| {
            let mut value = json!({"exitCode": end.code, "reason": end.reason.as_str(), "startedAt": time(end.started),
                "finishedAt": time(end.finished), "containerID": shown(&end.id)});
            if !end.message.is_empty()
                && let Some(map) = value.as_object_mut()
            {
                map.insert("message".to_owned(), end.message.as_str().into());
            }
            json!({"terminated": value})
        };
        let one = |(spec, container): (&std::sync::Arc<crate::template::ContainerSpec>, &Container)| {
            let state = match &container.state {
                State::Waiting { reason, message } => {
                    let reason = if reason.is_empty() { fresh } else { reason };
                    let mut waiting = json!({"reason": reason});
                    if !message.is_empty()
                        && let Some(map) = waiting.as_object_mut()
                    {
                        map.insert("message".to_owned(), (&**message).into());
                    }
                    json!({"waiting": waiting})
                }
                State::Running(since) => json!({"running": {"startedAt": time(*since)}}),
                State::Ended(end) => ended(end),
            };
            json!({
                "name": spec.name.as_str(),
                "state": state,
                "lastState": container.last.as_deref().map_or_else(|| json!({}), ended),
                "ready": container.ready || self.init_succeeded(&spec.name),
                "restartCount": container.restarts,
                "image": spec.image.as_str(),
                "imageID": container.image_id.as_deref().unwrap_or(""),
                "containerID": shown(&container.id),
                "started": container.started,
            })
        };
        specs(self.template()).zip(&self.containers).map(one).collect()
    }

    /// Whether an init container ended with 0, which counts as ready.
    fn init_succeeded(&self, name: &str) -> bool {
        let at = self.template().init.iter().position(|spec| spec.name == name && !spec.sidecar);
        at.is_some_and(|at| self.init_done(at))
    }

    fn wanted_conditions(&self) -> [Condition; CONDITIONS.len()] {
        let networked = self.sandbox.is_some() && self.stage != Stage::Stopped;
        let sandbox = if networked { Condition::yes("") } else { Condition::no("", "") };
        let containers = self.containers_ready();
        let ready = match (&containers, &self.item.value.gates) {
            (Condition { holds: true, .. }, Some(gates)) => Condition::no("ReadinessGatesNotReady", &**gates),
            (Condition { holds, reason, message }, _) => Condition { holds: *holds, reason, message: message.clone() },
        };
        [sandbox, self.is_initialized(), ready, containers, Condition::yes("")]
    }

    fn is_initialized(&self) -> Condition {
        match self.phase {
            Phase::Succeeded => return Condition::yes("PodCompleted"),
            _ if self.initialized() => return Condition::yes(""),
            _ => {}
        }
        let names = |wanted: &dyn Fn(usize) -> bool| {
            let inits = self.template().init.iter().enumerate();
            inits.filter(|(at, _)| wanted(*at)).map(|(_, spec)| spec.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let names = names(&|at| !self.init_done(at));
        Condition::no("ContainersNotInitialized", format!("containers with incomplete status: [{names}]"))
    }

    fn containers_ready(&self) -> Condition {
        match self.phase {
            Phase::Succeeded => return Condition::no("PodCompleted", ""),
            Phase::Failed => return Condition::no("PodFailed", ""),
            _ => {}
        }
        let inits = self.template().init.len();
        let mut unready = specs(self.template())
            .zip(&self.containers)
            .enumerate()
            .filter(|(at, (spec, container))| (*at >= inits || spec.sidecar) && !container.ready);
        let names: Vec<&str> = unready.by_ref().map(|(_, (spec, _))| spec.name.as_str()).collect();
        if names.is_empty() {
            return Condition::yes("");
        }
        Condition::no("ContainersNotReady", format!("containers with unready status: [{}]", names.join(" ")))
    }
}

/// Marks a list as a replacement of the stored one. A strategic merge patch would merge the addresses, but a pod cannot have two of one family.
fn replacing(items: impl Iterator<Item = Value>) -> Value {
    std::iter::once(json!({"$patch": "replace"})).chain(items).collect()
}

fn time(unix: i64) -> Value {
    if unix == 0 { Value::Null } else { Time::from_unix(unix).to_string().into() }
}
