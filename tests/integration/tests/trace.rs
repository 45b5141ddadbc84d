//! `oarlock trace` against `oarlock up` in a process of its own: the stages of a pod in their order, a Deployment and a Job with their pods, a Node, pods that do not start, and errors.

use std::process::{Command, Output};

use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Kubectl, oarlock};
use serde_json::Value;

/// The deadline of kubectl's own waits, which bounds a hang.
const WAIT: &str = "--timeout=90s";

fn up() -> (Cluster, Kubectl) {
    let cluster = Cluster::up(&["--ephemeral", "--nodes", "1"]);
    let kubectl = cluster.kubectl();
    kubectl.until_says("get nodes -o name", ["node/node-0"]);
    kubectl.ok(&format!("wait --for=condition=Ready node --all {WAIT}"));
    kubectl.until_says("get serviceaccount default -o name", ["serviceaccount/default"]);
    (cluster, kubectl)
}

fn trace(kubectl: &Kubectl, words: &[&str]) -> Output {
    let mut command = Command::new(oarlock());
    kubectl.configure(command.arg("trace").args(words));
    command.output().unwrap()
}

/// Repeats the command until its output has these texts, in this order.
pub(crate) fn shows(kubectl: &Kubectl, words: &[&str], texts: &[&str]) -> String {
    eventually(&format!("oarlock trace {words:?}"), || {
        let output = trace(kubectl, words);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut rest = text.as_str();
        let ordered = texts.iter().all(|wanted| match rest.split_once(wanted) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        });
        if output.status.success() && ordered {
            return Ok(text);
        }
        Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)))
    })
}

fn create(kubectl: &Kubectl, name: &str, annotations: &str, container: &str) {
    let manifest = format!(
        r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{name}", "annotations": {annotations}}},
            "spec": {{"containers": [{{"name": "main", "image": "nginx:1" {container}}}]}}}}"#
    );
    kubectl.run_with("create -f -", &manifest).says(["created"]);
}

#[test]
fn the_stages_of_a_pod_are_shown_in_order() {
    let (_cluster, kubectl) = up();
    create(&kubectl, "web", r#"{"sim.oarlock.dev/ready-after": "1s"}"#, "");
    kubectl.ok(&format!("wait --for=condition=Ready pod/web {WAIT}"));
    let stages = ["pod/web", "pod create", "admit", "sandbox", "pull main", "start main", "ready", "pod/web took"];
    let text = shows(&kubectl, &["pod/web", "--width", "90"], &stages);
    assert!(text.contains("most of it: ready") && !text.contains("is not Ready"), "{text}");
    assert!(text.lines().filter(|line| line.contains('━')).all(|line| line.chars().count() <= 90), "{text}");

    let uid = kubectl.ok("get pod web -o jsonpath={.metadata.uid}");
    let json: Value = serde_json::from_str(&shows(&kubectl, &["po/web", "-o", "json"], &[])).unwrap();
    assert_eq!(json["traceId"].as_str().unwrap(), uid.replace('-', ""), "the uid is the trace id");
    let spans = &json["traces"]["resourceSpans"][0]["scopeSpans"][0]["spans"];
    let names: Vec<&str> = spans.as_array().unwrap().iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"pod create") && names.contains(&"ready"), "{names:?}");
    let sum: u64 =
        json["objects"][0]["stages"].as_array().unwrap().iter().map(|s| s["nanoseconds"].as_u64().unwrap()).sum();
    let object = &json["objects"][0];
    assert_eq!(sum, object["ended"].as_u64().unwrap() - object["began"].as_u64().unwrap());
}

#[test]
fn a_deployment_is_shown_with_what_it_owns() {
    let (_cluster, kubectl) = up();
    kubectl.ok("create deployment web --image=nginx:1 --replicas=2");
    kubectl.ok(&format!("rollout status deployment/web {WAIT}"));
    let text = shows(
        &kubectl,
        &["deploy/web"],
        &["deployment/web\n", "replicaset/web-", "pod/web-", "ready", "pod/web-", "ready", "2 of 2 pods are available"],
    );
    assert_eq!(text.matches("  pod create").count(), 2, "{text}");
    let pod = kubectl.ok("get pods -o jsonpath={.items[0].metadata.name}");
    shows(&kubectl, &[&format!("pod/{pod}")], &["deployment/web", "replicaset/web-", "pod create"]);
}

#[test]
fn a_job_is_shown_with_its_pods_up_to_their_ends() {
    let (_cluster, kubectl) = up();
    let job = r#"{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": {"completions": 2, "parallelism": 2, "template": {
        "metadata": {"annotations": {"sim.oarlock.dev/exit-after": "1s"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "nginx:1"}]}}}}"#;
    kubectl.run_with("create -f -", job).says(["created"]);
    kubectl.ok(&format!("wait --for=condition=Complete job/sum {WAIT}"));
    let pod = ["pod/sum-", "  pod create", "commit", "start main"];
    let sentences = ["job/sum took", "most of it: ", "stage succeeded", "stage succeeded"];
    let stages = [&["job/sum\n", "  job create", "commit", "reconcile"][..], &pod, &pod, &sentences].concat();
    let text = shows(&kubectl, &["job/sum"], &stages);
    assert_eq!(text.matches("  pod create").count(), 2, "{text}");
    let name = kubectl.ok("get pods -o jsonpath={.items[0].metadata.name}");
    shows(
        &kubectl,
        &[&format!("pod/{name}")],
        &["job/sum\n", "  job create", &format!("pod/{name}\n"), "  pod create"],
    );
}

#[test]
fn a_node_is_shown_with_its_creation_and_its_state() {
    let (_cluster, kubectl) = up();
    shows(&kubectl, &["node/node-0"], &["node/node-0\n", "  node create", "    commit", "node/node-0: Ready since 20"]);
    let silent = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "silent"}}"#;
    kubectl.run_with("create -f -", silent).says(["created"]);
    shows(
        &kubectl,
        &["no/silent"],
        &["node/silent\n", "  node create", "node/silent: its kubelet has written no status"],
    );
}

#[test]
fn a_pod_that_does_not_start_is_explained() {
    let (_cluster, kubectl) = up();
    create(&kubectl, "large", "{}", r#", "resources": {"requests": {"cpu": "1000"}}"#);
    shows(
        &kubectl,
        &["pod/large"],
        &["pod/large is not Ready: stage decide since 20", "Unschedulable", "Insufficient cpu"],
    );
    create(&kubectl, "unpulled", r#"{"sim.oarlock.dev/fail": "pull: no such image"}"#, "");
    let stages = ["pull main", "✗", "error: ErrImagePull", "no such image", "stage pull", "main: "];
    shows(&kubectl, &["pod/unpulled"], &stages);
}

#[test]
fn errors_say_what_to_do() {
    let (_cluster, kubectl) = up();
    for (words, why) in [
        (&["web"][..], "write KIND/NAME"),
        (&["pod/web"], "pods \"web\" not found"),
        (&["foo/web"], "doesn't have a resource type \"foo\""),
    ] {
        let output = trace(&kubectl, words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(why), "{text}");
    }
    // Who may read a pod may not for that reason read traces.
    let path = "/debug/traces?trace=6d0a3c529e1f4b7a8c550123456789ab";
    let refused = kubectl.run(&format!("get --raw {path} --as somebody"));
    assert!(refused.code != 0 && refused.err.contains("forbidden"), "{refused}");
    let refused = kubectl.run("get --raw /debug/traces");
    assert!(refused.code != 0 && refused.err.contains("trace: Required value"), "{refused}");
    assert!(kubectl.ok(&format!("get --raw {path}")).contains("\"recording\":true"));
    // Leases have no life.
    let lease = r#"{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "quiet"}}"#;
    kubectl.run_with("create -f -", lease).says(["created"]);
    shows(&kubectl, &["lease/quiet"], &["No process keeps steps of this change"]);
}
