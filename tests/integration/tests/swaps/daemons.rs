//! The life of DaemonSets on two nodes. The expectations hold for upstream's controller and for Oarlock's. Pods are simulated (`docs/guides/simulated-nodes.md`).

use oarlock_testkit::Kubectl;
use serde_json::{Value, json};

use super::sets::read;

/// The deadline of kubectl's own waits.
const WAIT: &str = "--timeout=120s";
const IMAGE: &str = "registry.k8s.io/pause:3.10";

/// A DaemonSet whose pods are ready half a second after their start, with a command whose text Go escapes in JSON.
pub(crate) fn manifest(name: &str, more: Value) -> String {
    let template = json!({
        "metadata": {"labels": {"app": name}, "annotations": {"sim.oarlock.dev/ready-after": "500ms"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": IMAGE, "command": ["sh", "-c", "a && b > c"]}],
        },
    });
    let mut spec = json!({"selector": {"matchLabels": {"app": name}}, "template": template});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}).to_string()
}

pub(super) fn create(kubectl: &Kubectl, name: &str, more: Value) {
    kubectl.run_with("create -f -", &manifest(name, more)).is(&format!("daemonset.apps/{name} created"));
}

pub(crate) fn rolled_out(kubectl: &Kubectl, name: &str) {
    kubectl
        .run(&format!("rollout status daemonset {name} {WAIT}"))
        .says([format!("daemon set \"{name}\" successfully rolled out").as_str()]);
}

/// Returns the names of all nodes, sorted.
pub(crate) fn nodes(kubectl: &Kubectl) -> Vec<String> {
    sorted(&kubectl.ok("get nodes -o jsonpath={.items[*].metadata.name}"))
}

/// Waits until a set has exactly one pod on each of these nodes.
pub(crate) fn runs_on(kubectl: &Kubectl, name: &str, nodes: &[String]) {
    kubectl
        .until(&format!("get pods -l app={name} -o jsonpath={{.items[*].spec.nodeName}}"), |out| sorted(out) == nodes);
}

fn sorted(words: &str) -> Vec<String> {
    let mut words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    words.sort();
    words
}

/// Waits until the status of a set counts so many nodes that are to run a pod, and so many others that have one.
fn counts(kubectl: &Kubectl, name: &str, desired: u8, misscheduled: u8) {
    let path = "{.status.desiredNumberScheduled}+{.status.numberMisscheduled}";
    kubectl.until(&format!("get daemonset {name} -o jsonpath={path}"), |out| {
        out.trim() == format!("{desired}+{misscheduled}")
    });
}

/// Waits until all pods of a set have this image.
fn has_image(kubectl: &Kubectl, name: &str, image: &str) {
    kubectl.until(&format!("get pods -l app={name} -o jsonpath={{.items[*].spec.containers[0].image}}"), |out| {
        let images = sorted(out);
        images.len() == 2 && images.iter().all(|one| one == image)
    });
}

/// Creates, updates, rolls back and deletes DaemonSets, and changes nodes.
pub(crate) fn tell(kubectl: &Kubectl) {
    let nodes = nodes(kubectl);
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    create(kubectl, "log", json!({}));
    rolled_out(kubectl, "log");
    on_each_node(kubectl, &nodes);
    follows_taints(kubectl, &nodes);
    follows_labels(kubectl, &nodes);
    updates(kubectl);
    rolls_back(kubectl);
    surges(kubectl, &nodes);
    kubectl.ok(&format!("delete daemonset log --cascade=foreground {WAIT}"));
    kubectl.until("get pods,controllerrevisions -l app=log -o name", |out| out.trim().is_empty());
}

/// Each node has one pod, which is pinned to the node and belongs to the set.
fn on_each_node(kubectl: &Kubectl, nodes: &[String]) {
    runs_on(kubectl, "log", nodes);
    let set = read(kubectl, "daemonset log");
    let pods = read(kubectl, "pods -l app=log");
    let revision = read(kubectl, "controllerrevisions -l app=log");
    let hash = &revision["items"][0]["metadata"]["labels"]["controller-revision-hash"];
    for pod in pods["items"].as_array().unwrap() {
        let (meta, spec) = (&pod["metadata"], &pod["spec"]);
        assert_eq!(meta["ownerReferences"][0]["uid"], set["metadata"]["uid"]);
        assert_eq!(
            (&meta["labels"]["controller-revision-hash"], &meta["labels"]["pod-template-generation"]),
            (hash, &json!("1"))
        );
        let pin = json!({"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [spec["nodeName"]]}]}]});
        assert_eq!(spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"], pin);
        let tolerations = json!([
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
        ]);
        assert_eq!(spec["tolerations"], tolerations);
    }
    let status = json!({
        "currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberAvailable": 2, "numberMisscheduled": 0, "numberReady": 2,
        "observedGeneration": 1, "updatedNumberScheduled": 2,
    });
    assert_eq!(set["status"], status);
    kubectl.until_says(
        "get events --field-selector involvedObject.kind=DaemonSet -o jsonpath={.items[*].message}",
        ["Created pod: log-"],
    );
}

/// A taint that keeps new pods away lets a pod stay, one that expels pods does not.
fn follows_taints(kubectl: &Kubectl, nodes: &[String]) {
    let [first, second] = nodes else { panic!("{nodes:?}") };
    kubectl.ok(&format!("taint node {first} dedicated=x:NoSchedule"));
    counts(kubectl, "log", 1, 1);
    runs_on(kubectl, "log", nodes);
    let path = "jsonpath={.items[0].metadata.name}";
    let pod = kubectl.ok(&format!("get pods -l app=log --field-selector spec.nodeName={first} -o {path}"));
    kubectl.ok(&format!("delete pod {} {WAIT}", pod.trim()));
    counts(kubectl, "log", 1, 0);
    runs_on(kubectl, "log", std::slice::from_ref(second));
    kubectl.ok(&format!("taint node {first} dedicated-"));
    runs_on(kubectl, "log", nodes);
    kubectl.ok(&format!("taint node {second} dedicated=x:NoExecute"));
    runs_on(kubectl, "log", std::slice::from_ref(first));
    counts(kubectl, "log", 1, 0);
    kubectl.ok(&format!("taint node {second} dedicated-"));
    runs_on(kubectl, "log", nodes);
}

/// A node that loses a label that the template selects loses its pod.
fn follows_labels(kubectl: &Kubectl, nodes: &[String]) {
    let [first, second] = nodes else { panic!("{nodes:?}") };
    kubectl.ok("label node --all logs=yes");
    kubectl.ok("patch daemonset log -p '{\"spec\":{\"template\":{\"spec\":{\"nodeSelector\":{\"logs\":\"yes\"}}}}}'");
    rolled_out(kubectl, "log");
    kubectl.ok(&format!("label node {first} logs-"));
    runs_on(kubectl, "log", std::slice::from_ref(second));
    counts(kubectl, "log", 1, 0);
    kubectl.ok(&format!("label node {first} logs=yes"));
    runs_on(kubectl, "log", nodes);
    rolled_out(kubectl, "log");
}

/// An update replaces the pods of all nodes.
fn updates(kubectl: &Kubectl) {
    kubectl.ok("set image daemonset log main=new:1");
    rolled_out(kubectl, "log");
    has_image(kubectl, "log", "new:1");
    let path = "{range .items[*]}{.metadata.labels.pod-template-generation} {end}";
    kubectl.until(&format!("get pods -l app=log -o jsonpath='{path}'"), |out| sorted(out) == ["3", "3"]);
}

/// A rollback gives the old revision a new number, and makes no new revision.
fn rolls_back(kubectl: &Kubectl) {
    kubectl.run("rollout history daemonset log").says(["1         <none>", "2         <none>", "3         <none>"]);
    kubectl.run("rollout history daemonset log --revision=2").says([IMAGE]);
    kubectl.run("rollout undo daemonset log").is("daemonset.apps/log rolled back");
    rolled_out(kubectl, "log");
    has_image(kubectl, "log", IMAGE);
    kubectl.run("rollout history daemonset log").says(["1         <none>", "3         <none>", "4         <none>"]);
    assert_eq!(kubectl.ok("get controllerrevisions -l app=log -o name").lines().count(), 3);
    // A rollback to the template that the set has replaces nothing.
    let uids = "get pods -l app=log -o jsonpath={.items[*].metadata.uid}";
    let before = sorted(&kubectl.ok(uids));
    // A kubectl of before 1.34 does not recognize the template, whose bytes have no `creationTimestamp` since.
    kubectl.ok("rollout undo daemonset log --to-revision=4");
    assert_eq!(sorted(&kubectl.ok(uids)), before);
}

/// An update with a surge starts the new pod of a node beside the old one.
fn surges(kubectl: &Kubectl, nodes: &[String]) {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    create(kubectl, "fast", json!({"updateStrategy": strategy}));
    rolled_out(kubectl, "fast");
    kubectl.ok("set image daemonset fast main=new:1");
    rolled_out(kubectl, "fast");
    has_image(kubectl, "fast", "new:1");
    runs_on(kubectl, "fast", nodes);
    kubectl.ok("delete daemonset fast");
    kubectl.until("get pods,controllerrevisions -l app=fast -o name", |out| out.trim().is_empty());
}
