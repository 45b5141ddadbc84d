//! Static pods: they run from files, with and without an API, and are shown as mirror pods.

use std::path::Path;

use oarlock_kubelet::cri::{ContainerState, Runtime, SandboxState};
use oarlock_testkit::Cluster;
use oarlock_testkit::wait::eventually;
use serde_json::Value;

use super::machine::Machine;
use super::{pod, ready, settled, until};

const STAYS: &str = "echo it serves; trap 'exit 0' TERM; sleep 1000 & wait";

/// Writes a manifest as one should: elsewhere, then into its place.
fn put(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(".next"), text).unwrap();
    std::fs::rename(dir.join(".next"), dir.join(name)).unwrap();
}

fn container(pod: &Value) -> &str {
    pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or("")
}

/// Returns the ids of the running containers, from containerd and not from the API.
fn running(machine: &Machine) -> Vec<String> {
    machine.cri(async |cri| {
        let mut found = Vec::new();
        for sandbox in cri.list_pod_sandbox(None).await.unwrap() {
            if sandbox.state == SandboxState::Ready {
                let containers = cri.list_containers(&sandbox.id).await.unwrap();
                let runs = containers.iter().filter(|container| container.state == ContainerState::Running);
                found.extend(runs.map(|container| container.id.to_string()));
            }
        }
        found
    })
}

#[test]
fn static_pods_are_shown_by_mirrors_and_follow_their_files_alone() {
    let Some(machine) = Machine::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "web.yaml", &pod("web", STAYS, "", ""));
    let cluster = machine.cluster_with(&["--pod-manifest-path", dir.path().to_str().unwrap()]);
    let kubectl = settled(&cluster);
    let node = kubectl.ok("get nodes -o jsonpath={.items[0].metadata.name}");
    let web = format!("web-{}", node.trim());
    let first = until(&kubectl, &web, ready);
    let meta = &first["metadata"];
    assert_eq!(meta["annotations"]["kubernetes.io/config.source"], "file");
    assert_eq!(meta["annotations"]["kubernetes.io/config.mirror"], meta["annotations"]["kubernetes.io/config.hash"]);
    assert_eq!(
        (&meta["ownerReferences"][0]["kind"], &meta["ownerReferences"][0]["controller"]),
        (&"Node".into(), &true.into())
    );
    assert!(first["status"]["podIP"].as_str().unwrap().starts_with(&machine.pods()));
    // The mirror pod gives access to the static pod.
    kubectl.until_says(&format!("logs {web}"), ["it serves"]);
    kubectl.run(&format!("exec {web} -- hostname")).is(&web);
    kubectl.until_says(&format!("describe pod {web}"), ["Controlled By:  Node/", "Container started"]);
    // Deleting the mirror pod does not stop the static pod. The mirror pod returns so soon that a waiting kubectl could miss its absence.
    kubectl.ok(&format!("delete pod {web} --wait=false"));
    let second = until(&kubectl, &web, |pod| pod["metadata"]["uid"] != meta["uid"] && ready(pod));
    assert_eq!(container(&second), container(&first), "it was not started again");
    // A file that is no Pod is reported, and the other static pods continue to run.
    put(dir.path(), "bad.yaml", "kind: Pod\nspec: [");
    put(dir.path(), "keys.yaml", &pod("keys", STAYS, "    envFrom: [{secretRef: {name: keys}}]", ""));
    let unread = |file: &str, why: &str| {
        eventually("a word about the manifest", || {
            let log = cluster.log_tail();
            let told = |line: &&str| {
                line.contains(file) && line.contains("could not process manifest file") && line.contains(why)
            };
            log.lines().find(told).map(str::to_owned).ok_or(log.clone())
        });
    };
    unread("bad.yaml", "couldn't parse as pod(");
    unread("keys.yaml", "static pods may not reference secrets");
    // A changed file replaces the pod.
    put(dir.path(), "web.yaml", &pod("web", "echo another; trap 'exit 0' TERM; sleep 1000 & wait", "", ""));
    let third = until(&kubectl, &web, |pod| ready(pod) && container(pod) != container(&first));
    assert_ne!(
        third["metadata"]["annotations"]["kubernetes.io/config.hash"],
        meta["annotations"]["kubernetes.io/config.hash"]
    );
    kubectl.until_says(&format!("logs {web}"), ["another"]);
    assert_eq!(running(&machine).len(), 1);
    std::fs::remove_file(dir.path().join("web.yaml")).unwrap();
    kubectl.until("get pods -o name", |out| out.trim().is_empty());
    machine.until_clean();
}

#[test]
fn static_pods_start_and_stop_without_an_api_and_survive_a_restart_of_the_kubelet() {
    let Some(machine) = Machine::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::up(&["--disable", "kubelet"]);
    let kubelet = |cluster: &Cluster| {
        let flags = ["--pod-manifest-path", dir.path().to_str().unwrap()];
        machine.kubelet_of(&cluster.kubeconfig(), cluster.data_dir().root(), "n1", &flags)
    };
    put(dir.path(), "web.yaml", &pod("web", STAYS, "", ""));
    let process = kubelet(&cluster);
    let kubectl = settled(&cluster);
    let web = until(&kubectl, "web-n1", ready);
    cluster.kill();
    // While the API server is down, one manifest is added and one is removed.
    put(dir.path(), "late.yaml", &pod("late", STAYS, "", ""));
    std::fs::remove_file(dir.path().join("web.yaml")).unwrap();
    let late = eventually("the other pod alone", || match running(&machine).as_slice() {
        [one] if !container(&web).ends_with(one.as_str()) => Ok(one.clone()),
        other => Err(format!("{other:?}\n{}", machine.kubelet_said())),
    });
    drop(process);
    cluster.start();
    let process = kubelet(&cluster);
    // After the restart the port and the kubeconfig are other ones.
    let kubectl = settled(&cluster);
    let shown = until(&kubectl, "late-n1", ready);
    assert_eq!(container(&shown), format!("containerd://{late}"), "it was taken up as it ran");
    assert_eq!(shown["status"]["containerStatuses"][0]["restartCount"], 0);
    kubectl.until("get pods -o name", |out| out.trim() == "pod/late-n1");
    std::fs::remove_file(dir.path().join("late.yaml")).unwrap();
    kubectl.until("get pods -o name", |out| out.trim().is_empty());
    machine.until_clean();
    drop(process);
}
