//! Runs real Helm on the chart.

use std::path::{Path, PathBuf};
use std::process::Command;

use oarlock_testkit::Ran;
use serde_json::Value;
use tempfile::TempDir;

/// What each mode needs besides its name.
pub(super) const MODES: [(&str, &[&str]); 4] = [
    ("full", &[]),
    ("scheduler-only", &["scheduler.replicas=1"]),
    ("controllers-only", &["controllerManager.replicas=1", "controllerManager.controllers={deployment,replicaset}"]),
    (
        "apiserver-over-existing-etcd",
        &["etcd.external.endpoints={https://etcd.example.org:2379}", "etcd.external.secret=etcd"],
    ),
];
/// Everything that is off by default.
pub(super) const EVERYTHING: [&str; 9] = [
    "cloudControllerManager.enabled=true",
    "cloudControllerManager.endpoint=https://cloud.example.org:9443",
    "cloudControllerManager.clusterName=one",
    "cloudControllerManager.secret=provider",
    "apiserver.autoscaling.enabled=true",
    "antiAffinity=hard",
    "etcd.replicas=5",
    "api.url=https://api.example.org",
    "keys.nodes.edge-1=10.0.0.11",
];

/// Folder of a file of the repository.
pub(super) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Real Helm with folders of its own.
pub(super) struct Helm {
    program: PathBuf,
    home: TempDir,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// Returns Helm as `cargo xtask peer` builds it; `None` where it cannot be built.
    pub(super) fn new() -> Option<Self> {
        let bin = crate::swaps::programs(&["helm"])?;
        Some(Self { program: bin.join("helm"), home: tempfile::tempdir().unwrap(), kubeconfig: None })
    }

    /// As [`Helm::new`], for the cluster of this kubeconfig.
    pub(super) fn of(kubeconfig: PathBuf) -> Option<Self> {
        Self::new().map(|helm| Self { kubeconfig: Some(kubeconfig), ..helm })
    }

    /// Runs Helm with these words.
    pub(super) fn run(&self, words: &[&str]) -> Ran {
        let mut command = Command::new(&self.program);
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HOME"] {
            command.env(name, self.home.path());
        }
        command.env_remove("HTTPS_PROXY").env_remove("https_proxy");
        // Without a cluster Helm must not find the machine's own.
        command.env("KUBECONFIG", self.kubeconfig.clone().unwrap_or_else(|| self.home.path().join("none")));
        let output = command.args(words).output().unwrap();
        let ran = Ran {
            line: format!("helm {}", words.join(" ")),
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        eprintln!("{} ended with {}\n{}", ran.line, ran.code, ran.err);
        ran
    }

    /// Runs a verb of Helm on the chart as `release`, with values of the form `path=value`.
    pub(super) fn chart(&self, verb: &str, release: &str, values: &[&str], flags: &[&str]) -> Ran {
        let chart = repository("helm/oarlock");
        let mut words = vec![verb, release, chart.to_str().unwrap()];
        values.iter().for_each(|value| words.extend(["--set", *value]));
        words.extend(flags);
        if verb == "template" {
            // Helm has no cluster to ask here.
            words.extend(["--kube-version", "1.35.0"]);
        }
        self.run(&words)
    }

    /// Renders the chart's manifests.
    pub(super) fn template(&self, release: &str, values: &[&str], flags: &[&str]) -> Vec<Value> {
        objects(&self.chart("template", release, values, flags).ok().out)
    }

    /// Renders a mode, with further values.
    pub(super) fn mode(&self, mode: &str, more: &[&str]) -> Vec<Value> {
        let (_, needed) = MODES.iter().find(|(name, _)| *name == mode).unwrap();
        let mode = format!("mode={mode}");
        self.template("rel", &[[mode.as_str()].as_slice(), needed, more].concat(), &[])
    }
}

/// Reads the documents of Helm's output, which separates them by lines.
pub(super) fn objects(yaml: &str) -> Vec<Value> {
    let documents = yaml.split("\n---\n").map(|document| serde_norway::from_str(document).expect("YAML"));
    documents.filter(|object: &Value| !object.is_null()).collect()
}
