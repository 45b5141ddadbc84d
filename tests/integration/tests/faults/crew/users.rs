//! Users that change objects while faults are injected: they create, scale and delete Deployments with their Services; they run Jobs to their ends; they
//! create and delete pods without an owner, and whole namespaces. Sometimes a user tries what a policy forbids.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use oarlock_check::workloads::Wanted;
use oarlock_testkit::wait::{Deadline, gradually, pause};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::api::Api;

/// The namespace of most objects.
const HOME: &str = "work";
/// The most Deployments at a time: few, so that many operations concern the same one.
const DEPLOYMENTS: usize = 6;
const JOBS: usize = 4;
const COMPLETIONS: usize = 5;
const PODS: usize = 3;
const NAMESPACES: usize = 2;
const REPLICAS: usize = 4;
/// The constraints of a Deployment's pods besides resources, by the suffix of its name: none, a host port, a node without
/// another of the Deployment's pods, or an even spread over the nodes.
const WISHES: [&str; 4] = ["", "-port", "-apart", "-even"];
/// Number of pods that need a node each: there are enough nodes, even while one of the four fails.
const EACH_ALONE: usize = 3;
/// The prefix that [`policy`] forbids for names of ConfigMaps.
pub(super) const FORBIDDEN: &str = "bad-";
/// The pause of a user between two operations.
const THINKS: Duration = Duration::from_millis(150);

/// The users of one namespace. They repeat each request until it succeeds, so the wanted state is known at any time.
pub(super) struct Users {
    api: Api,
    work: Mutex<Work>,
    steps: AtomicU64,
    enough: AtomicBool,
}

#[derive(Default)]
struct Work {
    wanted: Wanted,
    made: u64,
    drawn: u64,
    /// How often the users were paused.
    rests: u64,
}

/// Pauses all users while the value lives.
pub(super) struct Pause<'a>(MutexGuard<'a, Work>);

impl Pause<'_> {
    pub(super) fn wanted(&self) -> &Wanted {
        &self.0.wanted
    }

    /// Creates one more Deployment, behind a load balancer, after the users have stopped; returns its name.
    pub(super) fn balanced(&mut self, api: &Api) -> String {
        self.0.made += 1;
        let name = format!("n{}", self.0.made);
        self.0.deployment(api, HOME, &name, 1, "LoadBalancer");
        name
    }
}

impl Users {
    /// Users that work through `api`, in a namespace of their own.
    pub(super) fn new(api: Api) -> Self {
        let mut work = Work::default();
        work.namespace(&api, HOME);
        policy(&api);
        Self { api, work: Mutex::new(work), steps: AtomicU64::new(0), enough: AtomicBool::new(false) }
    }

    /// Works until it is stopped.
    pub(super) fn run(&self) {
        while !self.enough.load(Ordering::Relaxed) {
            self.work.lock().step(&self.api);
            self.steps.fetch_add(1, Ordering::Relaxed);
            let thinks = Deadline::after(THINKS);
            while !thinks.passed() {
                pause();
            }
        }
    }

    pub(super) fn end(&self) {
        self.enough.store(true, Ordering::Relaxed);
    }

    pub(super) fn rest(&self) -> Pause<'_> {
        let mut work = self.work.lock();
        work.rests += 1;
        Pause(work)
    }

    /// Waits until this many further operations were done; returns `false` when the run ends before that.
    #[track_caller]
    pub(super) fn go_on(&self, steps: u64) -> bool {
        let until = self.steps.load(Ordering::Relaxed) + steps;
        gradually("users get on", || {
            // A user's rest may be long without being a hang, so the check of progress waits for the end of the rest.
            let rests = self.work.lock().rests;
            let (now, enough) = (self.steps.load(Ordering::Relaxed), self.enough.load(Ordering::Relaxed));
            if enough || now >= until { Ok(!enough) } else { Err(format!("{now} of {until} steps, {rests} rests")) }
        })
    }
}

impl Work {
    fn draw(&mut self, below: usize) -> usize {
        self.drawn = self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.drawn >> 33).unwrap() % below
    }

    /// Returns one of the names at random, if there is one.
    fn one_of<'a>(&mut self, mut names: impl ExactSizeIterator<Item = &'a String>) -> Option<&'a String> {
        let count = names.len();
        if count == 0 { None } else { names.nth(self.draw(count)) }
    }

    fn step(&mut self, api: &Api) {
        self.made += 1;
        let (name, what) = (format!("n{}", self.made), self.draw(24));
        let wanted = self.wanted.clone();
        match what {
            0..4 if wanted.deployments.len() < DEPLOYMENTS => {
                let name = name + WISHES[self.draw(WISHES.len())];
                let replicas = self.replicas(&name);
                let service = self.service();
                self.deployment(api, HOME, &name, replicas, service);
            }
            0..6 => {
                let own = wanted.deployments.keys().filter(|name| name.starts_with(HOME)).collect::<Vec<_>>();
                if let Some(key) = self.one_of(own.into_iter()) {
                    self.deployment_goes(api, key);
                }
            }
            6..11 => {
                if let Some(key) = self.one_of(wanted.deployments.keys()) {
                    let replicas = self.replicas(key);
                    api.surely("PATCH", &deployment_path(key), Some(&json!({"spec": {"replicas": replicas}})), &[200]);
                    self.wanted.deployments.insert(key.clone(), replicas);
                }
            }
            11..13 if wanted.pods.len() < PODS => {
                let pod = json!({"metadata": {"name": name}, "spec": spec()});
                api.create(&format!("/api/v1/namespaces/{HOME}/pods"), &pod);
                self.wanted.pods.insert(format!("{HOME}/{name}"));
            }
            11..14 => {
                if let Some(key) = self.one_of(wanted.pods.iter()) {
                    api.delete(&path("/api/v1", key, "pods"), "Background");
                    self.wanted.pods.remove(key);
                }
            }
            14..16 if wanted.jobs.len() < JOBS => self.job(api, HOME, &name),
            14..18 => {
                let own = wanted.jobs.keys().filter(|name| name.starts_with(HOME)).collect::<Vec<_>>();
                if let Some(key) = self.one_of(own.into_iter()) {
                    // The deleted Job may still be running, with pods that are not counted yet.
                    let propagation = ["Background", "Foreground"][self.draw(2)];
                    api.delete(&path("/apis/batch/v1", key, "jobs"), propagation);
                    self.wanted.jobs.remove(key);
                }
            }
            18..20 => {
                if let Some(key) = self.one_of(wanted.services.iter()) {
                    let spec = json!({"ports": [{"port": 81 + self.draw(1000), "targetPort": 80}]});
                    api.surely("PATCH", &path("/api/v1", key, "services"), Some(&json!({"spec": spec})), &[200]);
                }
            }
            // Writes that the policy admits and writes that it denies; the outcome must not depend on the state of the admission processes.
            20..22 => {
                api.create(&format!("/api/v1/namespaces/{HOME}/configmaps"), &json!({"metadata": {"name": name}}));
                api.refused(&format!("/api/v1/namespaces/{HOME}/configmaps"), &format!("{FORBIDDEN}{name}"));
            }
            _ if wanted.namespaces.len() < NAMESPACES => {
                self.namespace(api, &name);
                let service = self.service();
                self.deployment(api, &name, "web", 2, service);
                self.job(api, &name, "job");
            }
            _ => {
                let gone: Vec<&String> = wanted.namespaces.iter().filter(|name| *name != HOME).collect();
                for name in gone {
                    api.delete(&format!("/api/v1/namespaces/{name}"), "Background");
                    let within = format!("{name}/");
                    self.wanted.namespaces.remove(name);
                    self.wanted.deployments.retain(|key, _| !key.starts_with(&within));
                    self.wanted.jobs.retain(|key, _| !key.starts_with(&within));
                    self.wanted.services.retain(|key| !key.starts_with(&within));
                }
            }
        }
    }

    fn namespace(&mut self, api: &Api, name: &str) {
        api.create("/api/v1/namespaces", &json!({"metadata": {"name": name}}));
        self.wanted.namespaces.insert(name.to_owned());
    }

    /// A new size for a Deployment.
    fn replicas(&mut self, name: &str) -> u64 {
        let alone = name.ends_with("-port") || name.ends_with("-apart");
        self.draw(if alone { EACH_ALONE } else { REPLICAS } + 1) as u64
    }

    /// The type of a new Service.
    fn service(&mut self) -> &'static str {
        ["ClusterIP", "LoadBalancer"][self.draw(2)]
    }

    /// A Deployment, and a Service of this type in front of it.
    fn deployment(&mut self, api: &Api, namespace: &str, name: &str, replicas: u64, service: &str) {
        let labels = json!({"app": name});
        let mut template = json!({"metadata": {"labels": labels}, "spec": spec()});
        wish(&mut template["spec"], name, &json!({"matchLabels": labels}), 20_000 + self.made);
        let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
        let deployment = json!({"metadata": {"name": name}, "spec": spec});
        api.create(&format!("/apis/apps/v1/namespaces/{namespace}/deployments"), &deployment);
        let spec = json!({"type": service, "selector": labels, "ports": [{"port": 80}]});
        let service = json!({"metadata": {"name": name}, "spec": spec});
        api.create(&format!("/api/v1/namespaces/{namespace}/services"), &service);
        let key = format!("{namespace}/{name}");
        self.wanted.deployments.insert(key.clone(), replicas);
        self.wanted.services.insert(key);
    }

    /// A Job whose pods end well, one after the other or all at once, with indexes or without.
    fn job(&mut self, api: &Api, namespace: &str, name: &str) {
        let (completions, parallelism) = (self.draw(COMPLETIONS) as u64 + 1, self.draw(COMPLETIONS) as u64 + 1);
        let mode = ["NonIndexed", "Indexed"][self.draw(2)];
        let mut template =
            json!({"metadata": {"annotations": {"sim.oarlock.dev/exit-after": "300ms"}}, "spec": spec()});
        template["spec"]["restartPolicy"] = json!("Never");
        let spec = json!({"completions": completions, "parallelism": parallelism, "completionMode": mode, "template": template});
        let job = json!({"metadata": {"name": name}, "spec": spec});
        api.create(&format!("/apis/batch/v1/namespaces/{namespace}/jobs"), &job);
        self.wanted.jobs.insert(format!("{namespace}/{name}"), completions);
    }

    fn deployment_goes(&mut self, api: &Api, key: &str) {
        // With foreground deletion the Deployment is deleted last, when its finalizer is removed.
        let propagation = ["Background", "Foreground"][self.draw(2)];
        api.delete(&deployment_path(key), propagation);
        api.delete(&path("/api/v1", key, "services"), "Background");
        self.wanted.deployments.remove(key);
        self.wanted.services.remove(key);
    }
}

/// A policy that forbids some names, in force at every server.
fn policy(api: &Api) {
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    let validations = json!([{"expression": format!("!object.metadata.name.startsWith('{FORBIDDEN}')")}]);
    let policy = json!({"matchConstraints": {"resourceRules": rules}, "validations": validations});
    let binding = json!({"policyName": "names", "validationActions": ["Deny"]});
    let group = "/apis/admissionregistration.k8s.io/v1";
    for (plural, spec) in [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)] {
        api.create(&format!("{group}/{plural}"), &json!({"metadata": {"name": "names"}, "spec": spec}));
    }
    api.refused_by_all(&format!("/api/v1/namespaces/{HOME}/configmaps?dryRun=All"), FORBIDDEN);
}

fn path(group: &str, key: &str, plural: &str) -> String {
    let (namespace, name) = key.split_once('/').unwrap();
    format!("{group}/namespaces/{namespace}/{plural}/{name}")
}

fn deployment_path(key: &str) -> String {
    path("/apis/apps/v1", key, "deployments")
}

/// A container with requests of which about twenty fill a node.
fn spec() -> Value {
    let container = json!({"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "350m", "memory": "64Mi"}}});
    json!({"terminationGracePeriodSeconds": 1, "containers": [container]})
}

/// Adds the constraint that a Deployment's name asks for to its pods, which `alike` selects; no other Deployment uses the port.
fn wish(spec: &mut Value, name: &str, alike: &Value, port: u64) {
    let host = "kubernetes.io/hostname";
    match name.rsplit_once('-').map(|(_, wish)| wish) {
        Some("port") => spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": port}]),
        Some("apart") => {
            let terms = json!([{"topologyKey": host, "labelSelector": alike}]);
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        }
        Some("even") => {
            let spread = json!({"maxSkew": 1, "topologyKey": host, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": alike});
            spec["topologySpreadConstraints"] = json!([spread]);
            // The spread must ignore nodes with a taint, which a lost node has.
            spec["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = json!("Honor");
        }
        _ => {}
    }
}
