//! The checks of C1.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Finding, State, Wanted, Wrong};

pub(super) struct Judge<'a> {
    state: &'a State,
    wanted: &'a Wanted,
    wrong: Vec<Wrong>,
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a number; 0 if absent.
fn number(object: &Value, path: &str) -> u64 {
    object.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

fn each<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// Returns `namespace/name`.
fn name(object: &Value) -> String {
    format!("{}/{}", namespace(object), text(object, "/metadata/name"))
}

fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Whether `owner` is the controller of `object`.
fn owns(owner: &Value, object: &Value) -> bool {
    each(object, "/metadata/ownerReferences").any(|reference| text(reference, "/uid") == uid(owner))
}

fn is_ready(pod: &Value) -> bool {
    let ready = |one: &Value| text(one, "/type") == "Ready" && text(one, "/status") == "True";
    each(pod, "/status/conditions").any(ready)
}

/// Whether labels satisfy a selector of equalities.
fn selects(selector: &Value, labels: Option<&Value>) -> bool {
    let wanted = selector.as_object().into_iter().flatten();
    let mut wanted = wanted.map(|(name, value)| labels.and_then(|labels| labels.get(name)) == Some(value));
    wanted.all(|same| same)
}

impl<'a> Judge<'a> {
    pub(super) fn new(state: &'a State, wanted: &'a Wanted) -> Self {
        Self { state, wanted, wrong: Vec::new() }
    }

    pub(super) fn run(mut self) -> Vec<Wrong> {
        self.namespaces();
        let State { deployments, replica_sets, jobs, pods, services, endpoint_slices, endpoints, .. } = self.state;
        for (kind, objects) in [
            ("Deployment", deployments),
            ("ReplicaSet", replica_sets),
            ("Job", jobs),
            ("Pod", pods),
            ("Service", services),
            ("EndpointSlice", endpoint_slices),
            ("Endpoints", endpoints),
        ] {
            self.belongs(kind, objects);
        }
        let deployed: BTreeSet<String> = self.wanted.deployments.keys().cloned().collect();
        self.compare("Deployment", deployments, &deployed);
        self.compare("Job", jobs, &self.wanted.jobs.keys().cloned().collect());
        self.compare("Service", services, &self.wanted.services);
        let alone: Vec<Value> =
            pods.iter().filter(|pod| each(pod, "/metadata/ownerReferences").next().is_none()).cloned().collect();
        self.compare("Pod", &alone, &self.wanted.pods);
        for deployment in self.asked(deployments) {
            if let Some(replicas) = self.wanted.deployments.get(&name(deployment)) {
                self.deployment(deployment, *replicas);
            }
        }
        for set in self.asked(replica_sets) {
            self.replica_set(set);
        }
        for job in self.asked(jobs) {
            if let Some(completions) = self.wanted.jobs.get(&name(job)) {
                self.job(job, *completions);
            }
        }
        for pod in self.asked(pods).filter(|pod| !jobs.iter().any(|job| owns(job, pod))) {
            if text(pod, "/spec/nodeName").is_empty() || !is_ready(pod) {
                self.found(Finding::NotAtSpec, "Pod", &name(pod), "it has no node, or is not ready".to_owned());
            }
        }
        let named: BTreeSet<String> = services.iter().map(name).collect();
        for one in self.asked(endpoints).filter(|one| !named.contains(&name(one))) {
            self.found(Finding::Orphan, "Endpoints", &name(one), "its Service is gone".to_owned());
        }
        for service in self.asked(services) {
            self.service(service);
        }
        self.wrong.sort();
        self.wrong
    }

    fn found(&mut self, finding: Finding, kind: &str, name: &str, what: String) {
        self.wrong.push(Wrong { finding, object: format!("{kind} {name}"), what });
    }

    /// Returns the objects in the judged namespaces.
    fn asked(&self, objects: &'a [Value]) -> impl Iterator<Item = &'a Value> + use<'a> {
        let wanted = self.wanted;
        objects.iter().filter(|object| wanted.namespaces.contains(namespace(object)))
    }

    fn namespaces(&mut self) {
        let there: BTreeSet<&str> = self.state.namespaces.iter().map(|one| text(one, "/metadata/name")).collect();
        let wanted = self.wanted;
        for missing in wanted.namespaces.iter().filter(|name| !there.contains(name.as_str())) {
            self.found(Finding::Missing, "Namespace", missing, "it is wanted".to_owned());
        }
        let state = self.state;
        for one in state.namespaces.iter().filter(|one| !text(one, "/metadata/deletionTimestamp").is_empty()) {
            let why: Vec<&str> = each(one, "/status/conditions").map(|condition| text(condition, "/message")).collect();
            self.found(Finding::Stuck, "Namespace", text(one, "/metadata/name"), format!("{why:?}"));
        }
    }

    /// Checks that each object has its namespace and its owners, and is not being deleted.
    fn belongs(&mut self, kind: &str, objects: &'a [Value]) {
        let State { namespaces, deployments, replica_sets, jobs, services, .. } = self.state;
        let there: BTreeSet<&str> = namespaces.iter().map(|one| text(one, "/metadata/name")).collect();
        let owners: BTreeSet<&str> =
            [deployments, replica_sets, jobs, services].into_iter().flatten().map(uid).collect();
        for object in objects {
            let name = name(object);
            if !there.contains(namespace(object)) {
                self.found(Finding::Orphan, kind, &name, "its namespace is gone".to_owned());
            }
            let known = ["Deployment", "ReplicaSet", "Job", "Service"];
            let gone = |one: &&Value| known.contains(&text(one, "/kind")) && !owners.contains(text(one, "/uid"));
            for owner in each(object, "/metadata/ownerReferences").filter(gone) {
                let what = format!("{} {} is gone", text(owner, "/kind"), text(owner, "/name"));
                self.found(Finding::Orphan, kind, &name, what);
            }
            if !text(object, "/metadata/deletionTimestamp").is_empty() {
                let finalizers: Vec<&str> = each(object, "/metadata/finalizers").filter_map(Value::as_str).collect();
                self.found(Finding::Stuck, kind, &name, format!("finalizers {finalizers:?}"));
            }
        }
    }

    /// Checks that exactly the wanted objects exist.
    fn compare(&mut self, kind: &str, objects: &[Value], wanted: &BTreeSet<String>) {
        let asked = objects.iter().filter(|object| self.wanted.namespaces.contains(namespace(object)));
        let there: BTreeSet<String> = asked.map(name).collect();
        for missing in wanted.difference(&there) {
            self.found(Finding::Missing, kind, missing, "it is wanted".to_owned());
        }
        for more in there.difference(wanted) {
            self.found(Finding::LeftOver, kind, more, "nobody wants it".to_owned());
        }
    }

    fn deployment(&mut self, deployment: &Value, replicas: u64) {
        let name = name(deployment);
        let is = |path| number(deployment, path);
        let seen = [
            ("spec", is("/spec/replicas")),
            ("replicas", is("/status/replicas")),
            ("updated", is("/status/updatedReplicas")),
            ("ready", is("/status/readyReplicas")),
            ("available", is("/status/availableReplicas")),
        ];
        let behind = is("/status/observedGeneration") != is("/metadata/generation");
        if behind || seen.iter().any(|(_, count)| *count != replicas) {
            let what = format!("{replicas} wanted; {seen:?}, observed {}", !behind);
            self.found(Finding::NotAtSpec, "Deployment", &name, what);
        }
        let sets = self.asked(&self.state.replica_sets).filter(|set| owns(deployment, set));
        let working = sets.filter(|set| number(set, "/spec/replicas") > 0).count();
        let due = usize::from(replicas > 0);
        if working > due {
            self.found(Finding::Duplicate, "Deployment", &name, format!("{working} ReplicaSets want pods"));
        }
    }

    /// Checks that a ReplicaSet has the wanted number of pods; each pod is judged by itself.
    fn replica_set(&mut self, set: &Value) {
        let (wanted, has) =
            (number(set, "/spec/replicas"), self.asked(&self.state.pods).filter(|pod| owns(set, pod)).count() as u64);
        let finding = match has.cmp(&wanted) {
            std::cmp::Ordering::Less => Finding::NotAtSpec,
            std::cmp::Ordering::Equal => return,
            std::cmp::Ordering::Greater => Finding::Duplicate,
        };
        self.found(finding, "ReplicaSet", &name(set), format!("{wanted} pods wanted, {has} there"));
    }

    /// Checks that a Job is complete, and that each of its successes is counted once.
    fn job(&mut self, job: &Value, completions: u64) {
        let name = name(job);
        let is = |path| number(job, path);
        let complete = |one: &Value| text(one, "/type") == "Complete" && text(one, "/status") == "True";
        let done = each(job, "/status/conditions").any(complete);
        if !done || is("/status/succeeded") != completions || is("/status/active") != 0 {
            let what = format!("{completions} successes wanted; {}", job["status"]);
            self.found(Finding::NotAtSpec, "Job", &name, what);
        }
        let pods: Vec<&Value> = self.asked(&self.state.pods).filter(|pod| owns(job, pod)).collect();
        let ended = |pod: &&&Value, phase: &str| text(pod, "/status/phase") == phase;
        let good = pods.iter().filter(|pod| ended(pod, "Succeeded")).count() as u64;
        if done && good != is("/status/succeeded") {
            let finding = if good > is("/status/succeeded") { Finding::Duplicate } else { Finding::NotAtSpec };
            let what = format!("it counts {} successes, {good} pods have ended well", is("/status/succeeded"));
            self.found(finding, "Job", &name, what);
        }
        for pod in pods.iter().filter(|_| done) {
            if !ended(&pod, "Succeeded") && !ended(&pod, "Failed") {
                self.found(Finding::LeftOver, "Pod", &self::name(pod), "its Job is complete".to_owned());
            }
            if each(pod, "/metadata/finalizers").any(|one| one == "batch.kubernetes.io/job-tracking") {
                self.found(Finding::Stuck, "Pod", &self::name(pod), "its Job is complete".to_owned());
            }
        }
    }

    /// Checks that the endpoints of a Service are its ready pods.
    fn service(&mut self, service: &Value) {
        let Some(selector) = service.pointer("/spec/selector") else { return };
        let of_it = |pod: &&Value| {
            namespace(pod) == namespace(service) && selects(selector, pod.pointer("/metadata/labels")) && is_ready(pod)
        };
        let due: BTreeSet<&str> = self.state.pods.iter().filter(of_it).map(|pod| text(pod, "/status/podIP")).collect();
        let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let slices = self.state.endpoint_slices.iter().filter(|slice| owns(service, slice));
        let ready = |endpoint: &&Value| endpoint.pointer("/conditions/ready") == Some(&Value::Bool(true));
        let sliced = slices.flat_map(|slice| each(slice, "/endpoints").filter(ready));
        let sliced = sliced.flat_map(|endpoint| each(endpoint, "/addresses")).filter_map(Value::as_str);
        found.insert("EndpointSlices", sliced.collect());
        let same = self.state.endpoints.iter().filter(|one| name(one) == name(service));
        let subsets = same.flat_map(|one| each(one, "/subsets")).flat_map(|subset| each(subset, "/addresses"));
        found.insert("Endpoints", subsets.map(|address| text(address, "/ip")).collect());
        for (kind, found) in found.into_iter().filter(|(_, found)| *found != due) {
            let what = format!("{kind} name {found:?}, its ready pods have {due:?}");
            self.found(Finding::Endpoints, "Service", &name(service), what);
        }
    }
}
