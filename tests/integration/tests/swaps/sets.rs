//! The life of StatefulSets. The expectations hold for upstream's controller and for Oarlock's. Pods are simulated (`docs/guides/simulated-nodes.md`).

use oarlock_testkit::Kubectl;
use serde_json::{Value, json};

/// The deadline of kubectl's own waits.
const WAIT: &str = "--timeout=120s";
const IMAGE: &str = "registry.k8s.io/pause:3.10";

/// A StatefulSet whose pods are ready a second after their start, with a command whose text Go escapes in JSON.
pub(super) fn manifest(name: &str, more: Value) -> String {
    let template = json!({
        "metadata": {"labels": {"app": name}, "annotations": {"sim.oarlock.dev/ready-after": "1s"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": IMAGE, "command": ["sh", "-c", "a && b > c"]}],
        },
    });
    let mut spec =
        json!({"serviceName": name, "replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": template});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}).to_string()
}

pub(super) fn create(kubectl: &Kubectl, name: &str, more: Value) {
    kubectl.run_with("create -f -", &manifest(name, more)).is(&format!("statefulset.apps/{name} created"));
}

pub(super) fn read(kubectl: &Kubectl, what: &str) -> Value {
    serde_json::from_str(&kubectl.ok(&format!("get {what} -o json"))).unwrap()
}

pub(super) fn rolled_out(kubectl: &Kubectl, name: &str) {
    kubectl.ok(&format!("rollout status statefulset {name} {WAIT}"));
}

/// Waits until a set has exactly these pods, each with its image: `db-0=a:1 db-1=a:2`.
fn has(kubectl: &Kubectl, name: &str, pods: &str) {
    let path = "{range .items[*]}{.metadata.name}={.spec.containers[0].image} {end}";
    kubectl.until(&format!("get pods -l app={name} -o jsonpath='{path}'"), |out| out.trim() == pods);
}

/// Deletes a pod and waits for its successor of the same name. `kubectl delete` may wait forever for the end of a pod whose successor it takes for the pod.
fn replace(kubectl: &Kubectl, pod: &str) {
    let line = format!("get pod {pod} --ignore-not-found -o jsonpath={{.metadata.uid}}");
    let former = kubectl.ok(&line);
    kubectl.ok(&format!("delete pod {pod} --wait=false"));
    kubectl.until(&line, |uid| !uid.trim().is_empty() && uid.trim() != former.trim());
}

fn at(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Creates, scales, updates, rolls back and deletes StatefulSets.
pub(crate) fn tell(kubectl: &Kubectl) {
    create(kubectl, "db", json!({}));
    rolled_out(kubectl, "db");
    in_order(kubectl);
    scales(kubectl);
    updates(kubectl);
    rolls_back(kubectl);
    replaces(kubectl);
    kubectl.ok("delete statefulset db");
    kubectl.until("get pods,controllerrevisions -l app=db -o name", |out| out.trim().is_empty());
    claims(kubectl);
}

/// Each pod is created when the one before it is ready, and has its identity.
fn in_order(kubectl: &Kubectl) {
    let pods = read(kubectl, "pods -l app=db");
    let items = pods["items"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    for pair in items.windows(2) {
        let ready = pair[0]["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Ready");
        let (ready, created) = (at(ready.unwrap(), "/lastTransitionTime"), at(&pair[1], "/metadata/creationTimestamp"));
        assert!(ready <= created, "created at {created}, before the one before it was ready at {ready}");
    }
    for (index, pod) in items.iter().enumerate() {
        let (name, labels) = (format!("db-{index}"), &pod["metadata"]["labels"]);
        assert_eq!(at(pod, "/metadata/name"), name);
        assert_eq!((at(pod, "/spec/hostname"), at(pod, "/spec/subdomain")), (name.clone(), "db".to_owned()));
        assert_eq!(labels["statefulset.kubernetes.io/pod-name"], name.as_str());
        assert_eq!(labels["apps.kubernetes.io/pod-index"], index.to_string().as_str());
    }
    let set = read(kubectl, "statefulset db");
    let revision = at(&set, "/status/updateRevision");
    assert_eq!(items[0]["metadata"]["labels"]["controller-revision-hash"], revision.as_str());
    let status = json!({
        "availableReplicas": 3, "collisionCount": 0, "currentReplicas": 3, "currentRevision": revision, "observedGeneration": 1,
        "readyReplicas": 3, "replicas": 3, "updateRevision": revision, "updatedReplicas": 3,
    });
    assert_eq!(set["status"], status);
}

fn scales(kubectl: &Kubectl) {
    kubectl.ok("scale statefulset db --replicas=4");
    rolled_out(kubectl, "db");
    has(kubectl, "db", &(0..4).map(|index| format!("db-{index}={IMAGE}")).collect::<Vec<_>>().join(" "));
    kubectl.ok("scale statefulset db --replicas=2");
    has(kubectl, "db", &format!("db-0={IMAGE} db-1={IMAGE}"));
    kubectl.until_says(
        "get events --field-selector involvedObject.kind=StatefulSet -o jsonpath={.items[*].message}",
        ["Create Pod db-3 in StatefulSet db successful", "Delete Pod db-3 in StatefulSet db successful"],
    );
}

/// An update replaces the pods above the partition, and those below it when the partition is removed.
fn updates(kubectl: &Kubectl) {
    let patch = |partition: u8| {
        format!("{{\"spec\":{{\"updateStrategy\":{{\"rollingUpdate\":{{\"partition\":{partition}}}}}}}}}")
    };
    kubectl.ok(&format!("patch statefulset db -p '{}'", patch(1)));
    kubectl.ok("set image statefulset db main=new:1");
    kubectl
        .run(&format!("rollout status statefulset db {WAIT}"))
        .says(["partitioned roll out complete: 1 new pods have been updated"]);
    has(kubectl, "db", &format!("db-0={IMAGE} db-1=new:1"));
    let set = read(kubectl, "statefulset db");
    assert_ne!(at(&set, "/status/currentRevision"), at(&set, "/status/updateRevision"));
    // A pod below the partition comes back with the old template.
    replace(kubectl, "db-0");
    has(kubectl, "db", &format!("db-0={IMAGE} db-1=new:1"));
    kubectl.ok(&format!("patch statefulset db -p '{}'", patch(0)));
    rolled_out(kubectl, "db");
    has(kubectl, "db", "db-0=new:1 db-1=new:1");
    kubectl.until("get statefulset db -o jsonpath='{.status.currentRevision}={.status.updateRevision}'", |out| {
        out.trim().split_once('=').is_some_and(|(current, update)| current == update)
    });
}

/// A rollback gives the old revision a new number, and makes no new revision.
fn rolls_back(kubectl: &Kubectl) {
    kubectl.run("rollout history statefulset db").says(["1         <none>", "2         <none>"]);
    kubectl.run("rollout history statefulset db --revision=1").says([IMAGE]);
    kubectl.run("rollout undo statefulset db").is("statefulset.apps/db rolled back");
    rolled_out(kubectl, "db");
    has(kubectl, "db", &format!("db-0={IMAGE} db-1={IMAGE}"));
    kubectl.run("rollout history statefulset db").says(["2         <none>", "3         <none>"]);
    assert_eq!(kubectl.ok("get controllerrevisions -l app=db -o name").lines().count(), 2);
}

/// A deleted pod is replaced by another one of its name.
fn replaces(kubectl: &Kubectl) {
    let uid = "get pod db-0 -o jsonpath={.metadata.uid}";
    let first = kubectl.ok(uid);
    replace(kubectl, "db-1");
    rolled_out(kubectl, "db");
    assert_eq!(kubectl.ok(uid), first);
}

/// Claims are created with their pod, whose volumes they are, and belong to the set if the set's deletion is to delete them.
fn claims(kubectl: &Kubectl) {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let keep = json!({"whenDeleted": "Delete", "whenScaled": "Retain"});
    create(
        kubectl,
        "disk",
        json!({"volumeClaimTemplates": [claim], "persistentVolumeClaimRetentionPolicy": keep, "podManagementPolicy": "Parallel",
            "replicas": 2, "ordinals": {"start": 4}}),
    );
    let owners = "get persistentvolumeclaims -l app=disk -o jsonpath='{range .items[*]}{.metadata.name}={.metadata.ownerReferences[0].kind} {end}'";
    kubectl.until(owners, |out| out.trim() == "data-disk-4=StatefulSet data-disk-5=StatefulSet");
    let volume =
        "get pod disk-4 -o jsonpath={.spec.volumes[0].name}={.spec.volumes[0].persistentVolumeClaim.claimName}";
    kubectl.until(volume, |out| out.trim() == "data=data-disk-4");
    kubectl.ok("patch statefulset disk -p '{\"spec\":{\"persistentVolumeClaimRetentionPolicy\":{\"whenDeleted\":\"Retain\"}}}'");
    kubectl.until(owners, |out| out.trim() == "data-disk-4= data-disk-5=");
    kubectl.ok("delete statefulset disk");
    kubectl.until("get pods -l app=disk -o name", |out| out.trim().is_empty());
    assert_eq!(kubectl.ok("get persistentvolumeclaims -l app=disk -o name").lines().count(), 2, "they are retained");
}
