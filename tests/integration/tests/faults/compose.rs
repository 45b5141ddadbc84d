//! All of compose.yaml: schedulers come and go, and each container is killed and started again, under recorded clients and while a Deployment is scaled.
//!
//! Needs docker with compose v2 and the images (`cargo xtask images`); says loudly where they are not.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use oarlock_config::Kubeconfig;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::workload::{Collection, Replica};
use oarlock_testkit::{Kubectl, Secured, port};
use tempfile::TempDir;

use super::Scene;
use super::truth::EtcdHistory;

/// The services that are killed, in turn, with the name of each fault.
const VICTIMS: [(&str, &str); 18] = [
    ("etcd-0-1", "a member of etcd is killed"),
    ("etcd-1-1", "the next member of etcd is killed"),
    ("etcd-2-1", "the last member of etcd is killed"),
    ("apiserver-1", "an API server is killed"),
    ("apiserver-2", "the other API server is killed"),
    ("scheduler-1", "a scheduler is killed"),
    ("scheduler-2", "the other scheduler is killed"),
    ("controller-manager-1", "a controller manager is killed"),
    ("controller-manager-2", "the other controller manager is killed"),
    ("admission-1", "a process that judges policies is killed"),
    ("admission-2", "the other process that judges policies is killed"),
    ("nats-0-1", "a server of the bus is killed"),
    ("nats-1-1", "the next server of the bus is killed"),
    ("nats-2-1", "the last server of the bus is killed"),
    ("konnectivity-server-1", "the tunnel's server is killed"),
    ("konnectivity-agent-1", "the tunnel's agent is killed"),
    ("nodes-1", "the kubelets are killed"),
    (BALANCER, "the balancer is killed"),
];
/// The only way of kubectl: nothing can be asked without it.
const BALANCER: &str = "balancer-1";

/// A project of compose, taken down with this value.
pub(crate) struct Compose {
    project: String,
    profiles: &'static str,
    out: TempDir,
    port: u16,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn docker(words: &[&str]) -> Result<String, String> {
    said(Command::new("docker").args(words))
}

fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

impl Compose {
    /// Everything up and ready, and what these profiles have.
    pub(crate) fn up(profiles: &'static str) -> Result<Self, String> {
        docker(&["compose", "version"])?;
        docker(&["image", "inspect", "-f", "{{.Id}}", "oarlock:latest"])?;
        let out = tempfile::tempdir().map_err(|error| error.to_string())?;
        let project = Self { project: format!("oarlock-test-{}", port::own()), profiles, out, port: port::own() };
        // A missing image that cannot be pulled is a fault of the machine; an image that does not start is a fault of the project.
        project.compose(&["pull", "--policy", "missing", "--ignore-buildable", "--quiet"])?;
        // Pipelines run the same command and read its exit code.
        project.compose(&["up", "-d", "--no-build", "--wait"]).unwrap();
        let copy = project.kubeconfig();
        project.compose(&["cp", "ready:/keys/kubeconfig", copy.to_str().unwrap()]).unwrap();
        Ok(project)
    }

    pub(crate) fn compose(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new("docker");
        command.args(["compose", "-p", &self.project]).current_dir(root());
        let images = ".oarlock/compose/images.env";
        if root().join(images).exists() {
            command.args(["--env-file", images]);
        }
        command.env("OARLOCK_PORT", self.port.to_string());
        // The command waits for the restarted services.
        command.env("COMPOSE_PROFILES", self.profiles).env("HEALTH_INTERVAL", "2s");
        said(command.args(words))
    }

    pub(crate) fn container(&self, name: &str) -> String {
        format!("{}-{name}", self.project)
    }

    fn inspect(&self, name: &str, what: &str) -> String {
        docker(&["inspect", "-f", what, &self.container(name)]).unwrap()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.out.path().join("kubeconfig")
    }

    /// Runs kubectl as a user does.
    fn scale(&self, schedulers: usize) {
        let scale = format!("scheduler={schedulers}");
        self.compose(&["up", "-d", "--no-build", "--scale", &scale]).unwrap();
    }

    /// Returns the certificate with which an API server connects to etcd.
    fn etcd_client(&self) -> Secured {
        let read =
            |name: &str| self.compose(&["exec", "-T", "apiserver", "cat", &format!("/keys/etcd/{name}")]).unwrap();
        Secured { authority: read("ca.crt"), certificate: read("client.crt"), key: read("client.key") }
    }

    fn start(&self, name: &str) {
        docker(&["start", &self.container(name)]).unwrap();
        eventually("the container is well again", || {
            let state = self.inspect(name, "{{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{end}}");
            if matches!(state.trim(), "running" | "running healthy") { Ok(()) } else { Err(state) }
        });
    }
}

impl Drop for Compose {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.compose(&["logs", "--tail", "40"]).unwrap_or_else(|error| error));
        }
        if let Err(error) = self.compose(&["down", "-v", "-t", "5"]) {
            eprintln!("docker compose down: {error}");
        }
    }
}

/// Whether this many schedulers hold shards, by `kubectl get assignments`.
fn shared(assignments: &str, schedulers: usize) -> bool {
    let rows = assignments.lines().map(|line| line.split_whitespace());
    let holders = rows.filter_map(|mut cells| cells.next()?.starts_with("shards-").then(|| cells.next())?);
    holders.collect::<BTreeSet<_>>().len() == schedulers
}

#[test]
fn every_container_is_killed_and_nothing_is_lost() {
    let Ok(compose) = Compose::up("").map_err(|why| oarlock_testkit::skipped!("{why}: compose.yaml was not tried"))
    else {
        return;
    };
    let kubectl = Kubectl::new(&compose.kubeconfig());
    let ready = "get nodes -o jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
    kubectl.until(ready, |said| said == "True True True");
    kubectl.ok("create deployment web --image=registry.k8s.io/pause:3.10 --replicas=2");
    let last = compose.container("ready-1");
    let advice = docker(&["logs", &last]).unwrap();
    assert!(advice.contains("docker compose cp ready:/keys/kubeconfig"), "{advice}");

    let mut scene = Scene::over("compose");
    scene.options.collections = vec![Collection::secrets("default")];
    let endpoint = Kubeconfig::read(&compose.kubeconfig()).and_then(|file| file.resolve(None)).unwrap();
    let http = Http::new(&endpoint, Who::Admin);
    let workload = scene.start(vec![Replica { name: "balancer".to_owned(), http }]);
    workload.goes_on(50, 20);
    for schedulers in [4, 2] {
        compose.scale(schedulers);
        kubectl.until("get assignments", |said| shared(said, schedulers));
        workload.goes_on(50, 20);
    }
    for ((name, fault), replicas) in VICTIMS.iter().zip(3..) {
        let dead = || [u64::from(compose.inspect(name, "{{.State.Running}}") == "false")];
        let kill = || drop(docker(&["kill", &compose.container(name)]).unwrap());
        scene.bites(fault, kill, dead);
        // Services without a replica are started again first.
        let alone = matches!(*name, BALANCER | "nodes-1");
        if alone {
            compose.start(name);
        }
        kubectl.until(&format!("scale deployment web --replicas={replicas}"), |_| true);
        let at_spec = |said: &str| said == replicas.to_string();
        kubectl.until("get deployment web -o jsonpath={.status.readyReplicas}", at_spec);
        scene.done();
        if !alone {
            compose.start(name);
        }
        workload.goes_on(50, 20);
    }
    // Through the tunnel, as it was started again.
    kubectl.until("logs deployment/web", |said| said.contains("line 1"));
    let address = compose.inspect("etcd-0-1", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}");
    let truth = scene.chaos.link("recorder", "etcd-0", format!("{address}:2379").parse().unwrap());
    scene.judge(workload, || (), &EtcdHistory::secured(truth.address().port(), &compose.etcd_client()));
}
