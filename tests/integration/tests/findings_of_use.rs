//! Bugs that users of kubectl found, one test for each: tolerations for a time, scheduling gates that are removed, owners of other versions and namespaces,
//! pods that wait for claims, Nodes without a kubelet.

use oarlock_testkit::{Cluster, Kubectl};

/// The deadline of kubectl's own waits, which bounds a hang.
const WAIT: &str = "--timeout=90s";

fn up() -> (Cluster, Kubectl) {
    let cluster = Cluster::up(&["--ephemeral"]);
    let kubectl = cluster.kubectl();
    kubectl.until_says("get nodes -o name", ["node/node-0", "node/node-1"]);
    kubectl.ok(&format!("wait --for=condition=Ready node --all {WAIT}"));
    kubectl.until_says("get serviceaccount default -o name", ["serviceaccount/default"]);
    (cluster, kubectl)
}

fn create(kubectl: &Kubectl, manifest: &str) {
    kubectl.run_with("create -f -", manifest).says(["created"]);
}

/// A pod on `node-0` that tolerates `mine` for ever and `other` for some seconds.
fn tolerant(name: &str, seconds: u32) -> String {
    format!(
        r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{name}"}}, "spec": {{
            "nodeName": "node-0", "containers": [{{"name": "c", "image": "nginx"}}],
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{{"key": "mine", "operator": "Exists"}},
                {{"key": "other", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": {seconds}}}]}}}}"#
    )
}

#[test]
fn a_taint_is_tolerated_for_as_long_as_was_said_and_no_longer() {
    let (_cluster, kubectl) = up();
    create(&kubectl, &tolerant("short", 2));
    create(&kubectl, &tolerant("long", 3600));
    kubectl.ok(&format!("wait --for=condition=Ready pod/short pod/long {WAIT}"));
    kubectl.ok("taint nodes node-0 mine=:NoExecute other=:NoExecute");
    kubectl.ok(&format!("wait --for=delete pod/short {WAIT}"));
    kubectl.until_says(
        "get events --field-selector reason=TaintManagerEviction",
        ["Marking for deletion Pod default/short"],
    );
    kubectl.ok("taint nodes node-0 other-");
    kubectl.until_says(
        "get events --field-selector reason=TaintManagerEviction",
        ["Cancelling deletion of Pod default/long"],
    );
    kubectl.run("get pod long -o jsonpath={.status.phase}").is("Running");
    // A removed taint keeps no pod away, not even a pod that is scheduled at once.
    kubectl.ok("taint nodes node-0 mine-");
    create(
        &kubectl,
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "next"}, "spec": {
            "nodeName": "node-0", "containers": [{"name": "c", "image": "nginx"}]}}"#,
    );
    kubectl.run(&format!("wait --for=condition=Ready pod/next {WAIT}")).is("pod/next condition met");
}

#[test]
fn a_pod_whose_gates_are_lifted_says_why_it_waits() {
    let (_cluster, kubectl) = up();
    create(
        &kubectl,
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gated"}, "spec": {
            "schedulingGates": [{"name": "example.com/hold"}], "nodeSelector": {"no": "such"},
            "containers": [{"name": "c", "image": "nginx"}]}}"#,
    );
    let condition = "get pod gated -o 'jsonpath={range .status.conditions[?(@.type==\"PodScheduled\")]}{.reason} {.lastTransitionTime}{end}'";
    kubectl.until(condition, |out| out.starts_with("SchedulingGated 20"));
    kubectl.ok("patch pod gated --type=json -p '[{\"op\":\"remove\",\"path\":\"/spec/schedulingGates\"}]'");
    kubectl.until(condition, |out| out.starts_with("Unschedulable 20"));
}

#[test]
fn an_owner_of_a_version_that_nobody_serves_is_not_taken_for_gone() {
    let (_cluster, kubectl) = up();
    let owned = |name: &str, version: &str, kind: &str, owner: &str, uid: &str| {
        format!(
            r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}", "ownerReferences": [
                {{"apiVersion": "{version}", "kind": "{kind}", "name": "{owner}", "uid": "{uid}"}}]}}}}"#
        )
    };
    kubectl.ok("create namespace far");
    kubectl.ok("create configmap owner -n far");
    let uid = kubectl.ok("get configmap owner -n far -o jsonpath={.metadata.uid}");
    create(&kubectl, &owned("kept", "v1beta1", "ConfigMap", "gone", "00000000-0000-4000-8000-000000000001"));
    create(&kubectl, &owned("lost", "v1", "ConfigMap", "gone", "00000000-0000-4000-8000-000000000002"));
    create(&kubectl, &owned("astray", "v1", "ConfigMap", "owner", uid.trim()));
    kubectl.until("get configmaps -o name", |out| !out.contains("lost") && !out.contains("astray"));
    let text = format!(
        "ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {}] does not exist in namespace \"default\"",
        uid.trim()
    );
    kubectl.until_says("get events --field-selector reason=OwnerRefInvalidNamespace", [&text]);
    kubectl.run("get configmap kept -o name").is("configmap/kept");
}

#[test]
fn a_pod_waits_for_its_claim_and_goes_where_its_volume_is() {
    let (_cluster, kubectl) = up();
    create(
        &kubectl,
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "image": "nginx", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}}"#,
    );
    let message = "get pod p -o 'jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].message}'";
    kubectl.until_says(message, ["0/2 nodes are available: persistentvolumeclaim \"data\" not found."]);
    create(
        &kubectl,
        r#"{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "local": {"path": "/data"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}]}}}}"#,
    );
    create(
        &kubectl,
        r#"{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", "resources": {"requests": {"storage": "1Gi"}}}}"#,
    );
    kubectl.until_says(message, ["0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."]);
    kubectl.ok("patch pvc data -p '{\"metadata\":{\"annotations\":{\"pv.kubernetes.io/bind-completed\":\"yes\"}},\"spec\":{\"volumeName\":\"pv\"}}'");
    kubectl.until("get pod p -o jsonpath={.spec.nodeName}", |out| out.trim() == "node-1");
}

#[test]
fn a_node_that_nobody_runs_is_registered_and_annotated() {
    let (_cluster, kubectl) = up();
    create(&kubectl, r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "empty"}}"#);
    kubectl.until("get node empty -o 'jsonpath={.metadata.annotations.node\\.alpha\\.kubernetes\\.io/ttl}'", |out| {
        out.trim() == "0"
    });
    kubectl.until_says(
        "get events --field-selector involvedObject.name=empty",
        ["RegisteredNode", "Node empty event: Registered Node empty in Controller"],
    );
    kubectl.ok("delete node empty");
    kubectl.until_says(
        "get events --field-selector involvedObject.name=empty",
        ["RemovingNode", "Node empty event: Removing Node empty from Controller"],
    );
}

#[test]
fn a_service_that_prefers_the_same_node_says_so_of_each_endpoint() {
    let (_cluster, kubectl) = up();
    kubectl.ok("create deployment web --image=nginx --replicas=2 --port=80");
    kubectl.ok(&format!("rollout status deployment/web {WAIT}"));
    create(
        &kubectl,
        r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
            "selector": {"app": "web"}, "ports": [{"port": 80}], "trafficDistribution": "PreferSameNode"}}"#,
    );
    let hints = "get endpointslices -l kubernetes.io/service-name=web \
        -o 'jsonpath={range .items[*].endpoints[*]}{.nodeName}={.hints.forNodes[0].name} {end}'";
    kubectl.until(hints, |out| {
        let mut pairs = out.split_whitespace().filter_map(|pair| pair.split_once('='));
        out.split_whitespace().count() == 2 && pairs.all(|(node, hint)| node == hint)
    });
}
