//! The README's first steps, as a newcomer types them: the commands run as they stand, and do what the text says.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use oarlock_testkit::{Cluster, Kubectl, Process, oarlock, port};

use super::root;

/// Starts the cluster in a terminal of its own. The test starts the same program itself, out of its own build.
const START: &str = "cargo run --release -- up";

/// Returns the blocks of commands of a section of the README.
fn blocks(section: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, text) = readme.split_once(&format!("\n## {section}\n")).unwrap();
    let text = text.split("\n## ").next().unwrap();
    text.split("```\n").skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_commands_of_the_first_cluster_run_as_they_stand() {
    let blocks = blocks("A cluster");
    let (start, commands) = blocks.split_first().unwrap();
    assert_eq!(start.trim_end(), START);
    let cluster = Cluster::up(&[]);
    // The folder in which the newcomer has built the program and started the cluster.
    let folder = tempfile::tempdir().unwrap();
    let release = folder.path().join("target/release");
    std::fs::create_dir_all(&release).unwrap();
    symlink(oarlock(), release.join("oarlock")).unwrap();
    symlink(cluster.data_dir().root(), folder.path().join(".oarlock")).unwrap();
    let ran = Command::new("sh").args(["-exc", &commands.concat()]).current_dir(folder.path()).output().unwrap();
    let (said, steps) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{steps}");
    for text in [
        "node-0 ",
        "deployment.apps/web created",
        "deployment.apps/web scaled",
        "successfully rolled out",
        "REVISION",
        "deployment.apps/web rolled back",
        "pause: line 1",
        "deployment update ",
        "pod create ",
    ] {
        assert!(said.contains(text), "nothing says {text:?}:\n{said}");
    }
}

#[test]
fn the_commands_for_parts_in_processes_of_their_own_make_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let own = |name: &str| folder.path().join(name).display().to_string();
    let port = port::own().to_string();
    let blocks = blocks("The parts as processes");
    let mut parts = Vec::new();
    for line in blocks.first().unwrap().lines() {
        // The default ports may belong to another test.
        let line = line.replace("DIR", &own("parts")).replace("6443", &port);
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("oarlock"));
        let words: Vec<&str> = words.collect();
        let part = *words.first().unwrap();
        let mut command = Command::new(oarlock());
        command.args(&words).args(own_port(part)).current_dir(folder.path());
        parts.push(Process::start(command, part));
        if part == "apiserver" {
            oarlock_testkit::wait::eventually("the API server makes the others' keys", || ready(folder.path()));
        }
    }
    assert_eq!(parts.len(), 4);
    let kubectl = Kubectl::new(&folder.path().join("parts/kubeconfig"));
    kubectl.until_says("get serviceaccount default -o name", ["serviceaccount/default"]);
    kubectl.ok("create deployment web --image=registry.k8s.io/pause:3.10 --replicas=3");
    kubectl.ok("rollout status deploy/web --timeout=90s");
    for part in &mut parts {
        assert!(!part.ended(), "{}", part.said());
    }
}

/// Returns flags by which a part listens on no port that other tests may use.
fn own_port(part: &str) -> Vec<String> {
    match part {
        "controller-manager" | "scheduler" => vec!["--secure-port=0".to_owned()],
        "kubelet" => vec!["--port=0".to_owned()],
        _ => Vec::new(),
    }
}

fn ready(folder: &Path) -> Result<(), String> {
    let kubeconfig = folder.join("parts/kubeconfig");
    if !kubeconfig.is_file() {
        return Err("no kubeconfig yet".to_owned());
    }
    let ran = Kubectl::new(&kubeconfig).run("get --raw /readyz");
    if ran.out.contains("ok") { Ok(()) } else { Err(format!("{ran:?}")) }
}
