//! DaemonSets against a real API server, under the controllers' own roles. What `kubectl` shows of them is in `transcript::daemon_sets`.
//!
//! No scheduler runs, so pods stay unbound; the controller knows their nodes by the affinity that pins them.

use serde_json::{Value, json};

use crate::cluster::Cluster;

/// The annotation with the failures before a pod.
const FORMER_FAILURES: &str = "daemonset.oarlock.dev/former-failures";

/// A DaemonSet whose pods have the label `app: log`.
fn set(more: Value) -> Value {
    let template = json!({
        "metadata": {"labels": {"app": "log"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "a:1"}]},
    });
    let mut spec = json!({"selector": {"matchLabels": {"app": "log"}}, "template": template});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log", "namespace": "default"}, "spec": spec})
}

/// Starts a cluster with nodes of these names, whose pods run at once.
async fn started(nodes: &[&str]) -> Cluster {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
    cluster.run_pods().await;
    for node in nodes {
        cluster.node(node).await;
    }
    cluster
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the node to which a pod is bound or pinned.
fn node(pod: &Value) -> &str {
    let pin = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    match text(pod, "/spec/nodeName") {
        "" => text(pod, pin),
        node => node,
    }
}

/// Returns the pods of the set, in the order of their nodes.
async fn pods(cluster: &Cluster) -> Vec<Value> {
    let mut pods = cluster.list("pods", "default").await;
    pods.retain(|pod| pod["metadata"]["labels"]["app"] == "log");
    pods.sort_by_key(|pod| node(pod).to_owned());
    pods
}

/// Waits until the set has exactly one pod on each of these nodes, all of which run; returns the pods.
async fn until_on(cluster: &Cluster, nodes: &[&str]) -> Vec<Value> {
    cluster
        .eventually(&format!("pods on {nodes:?}"), || async {
            let pods = pods(cluster).await;
            let run = pods.iter().all(|pod| pod["status"]["phase"] == "Running");
            (run && pods.iter().map(node).eq(nodes.iter().copied())).then_some(pods)
        })
        .await
}

/// Waits until the status of the set fits.
async fn until(cluster: &Cluster, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    cluster
        .eventually(what, || async {
            let set = cluster.get("daemonsets", "default", "log").await?;
            let is_new = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            (is_new && fits(&set["status"])).then_some(set)
        })
        .await
}

async fn until_event(cluster: &Cluster, reason: &str, message: &str) {
    cluster
        .eventually(reason, || async {
            let events = cluster.list("events", "default").await;
            let is_it = |event: &Value| event["reason"] == reason && text(event, "/message").contains(message);
            events.iter().any(is_it).then_some(())
        })
        .await;
}

fn set_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_come_and_leave_and_change_get_and_lose_their_pods() {
    let cluster = started(&["n1", "n2"]).await;
    cluster.create("daemonsets", set(json!({}))).await;
    let first = until_on(&cluster, &["n1", "n2"]).await;
    until(&cluster, "both available", |status| status["numberAvailable"] == 2).await;
    cluster.node("n3").await;
    until_on(&cluster, &["n1", "n2", "n3"]).await;
    // The pods were never bound: no kubelet and no pod garbage collector deletes them.
    cluster.delete("nodes", "", "n3").await;
    until_on(&cluster, &["n1", "n2"]).await;
    until(&cluster, "two nodes", |status| status["desiredNumberScheduled"] == 2).await;
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "x", "effect": effect}]}});
    cluster.merge("nodes", ("", "n2"), taint("NoSchedule")).await;
    until(&cluster, "a pod where none would be created", |status| {
        status["desiredNumberScheduled"] == 1 && status["numberMisscheduled"] == 1
    })
    .await;
    cluster.merge("nodes", ("", "n2"), taint("NoExecute")).await;
    until_on(&cluster, &["n1"]).await;
    cluster.merge("nodes", ("", "n2"), json!({"spec": {"taints": null}})).await;
    let last = until_on(&cluster, &["n1", "n2"]).await;
    assert_eq!(last[0]["metadata"]["uid"], first[0]["metadata"]["uid"], "the pod of the other node was left alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_fits_is_adopted_and_one_that_does_not_any_more_is_released() {
    let cluster = started(&["n1", "n2"]).await;
    let orphan = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orphan", "namespace": "default", "labels": {"app": "log"}},
        "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "a:0"}]}});
    cluster.create("pods", orphan).await;
    cluster.create("daemonsets", set(json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    let pods = until_on(&cluster, &["n1", "n2"]).await;
    assert_eq!(
        (text(&pods[0], "/metadata/name"), text(&pods[0], "/metadata/ownerReferences/0/name")),
        ("orphan", "log")
    );
    until(&cluster, "an old pod", |status| {
        status["currentNumberScheduled"] == 2 && status["updatedNumberScheduled"] == 1
    })
    .await;
    cluster.merge("pods", ("default", "orphan"), json!({"metadata": {"labels": {"app": "other"}}})).await;
    until_on(&cluster, &["n1", "n2"]).await;
    cluster
        .eventually("release", || async {
            let pod = cluster.get("pods", "default", "orphan").await?;
            pod["metadata"]["ownerReferences"].is_null().then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_ended_is_replaced_and_its_successor_carries_on_the_count_of_failures() {
    let cluster = started(&["n1"]).await;
    cluster.create("daemonsets", set(json!({}))).await;
    let mut pod = until_on(&cluster, &["n1"]).await.remove(0);
    for failures in ["1", "2", "3"] {
        let name = text(&pod, "/metadata/name").to_owned();
        cluster.patch("pods", "status", ("default", &name), json!({"status": {"phase": "Failed"}})).await;
        cluster
            .eventually("the failed pod is deleted", || async {
                cluster.get("pods", "default", &name).await.is_none().then_some(())
            })
            .await;
        until_event(
            &cluster,
            "FailedDaemonPod",
            &format!("Found failed daemon pod default/{name} on node n1, will try to kill it"),
        )
        .await;
        pod = until_on(&cluster, &["n1"]).await.remove(0);
        assert_eq!(pod["metadata"]["annotations"][FORMER_FAILURES], failures);
    }
    let name = text(&pod, "/metadata/name").to_owned();
    cluster.patch("pods", "status", ("default", &name), json!({"status": {"phase": "Succeeded"}})).await;
    until_event(&cluster, "SucceededDaemonPod", &format!("Found succeeded daemon pod default/{name} on node n1")).await;
    cluster
        .eventually("another pod", || async {
            let pods = pods(&cluster).await;
            (pods.len() == 1 && text(&pods[0], "/metadata/name") != name).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_creation_leaves_one_pod_on_a_node() {
    let cluster = started(&["n1"]).await;
    cluster.create("daemonsets", set(json!({}))).await;
    let first = until_on(&cluster, &["n1"]).await.remove(0);
    let mut again = json!({"apiVersion": "v1", "kind": "Pod", "metadata": first["metadata"], "spec": first["spec"]});
    let meta = again["metadata"].as_object_mut().unwrap();
    for field in ["name", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        meta.remove(field);
    }
    cluster.create("pods", again).await;
    cluster
        .eventually("one is deleted", || async {
            let events = cluster.list("events", "default").await;
            events.iter().any(|event| event["reason"] == "SuccessfulDelete").then_some(())
        })
        .await;
    until_on(&cluster, &["n1"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_whose_name_is_in_use_gets_another_and_old_ones_are_deleted() {
    let cluster = started(&["n1"]).await;
    let revisions = || cluster.list("controllerrevisions", "default");
    cluster.create("daemonsets", set(json!({}))).await;
    until_on(&cluster, &["n1"]).await;
    let name = text(&revisions().await[0], "/metadata/name").to_owned();
    cluster.delete("daemonsets", "default", "log").await;
    cluster.eventually("the revision is deleted", || async { revisions().await.is_empty().then_some(()) }).await;
    let other = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": name, "namespace": "default"},
        "data": {"a": "b"}, "revision": 1});
    cluster.create("controllerrevisions", other).await;
    cluster.create("daemonsets", set(json!({"revisionHistoryLimit": 1}))).await;
    until(&cluster, "updated", |status| status["updatedNumberScheduled"] == 1 && status["collisionCount"] == 1).await;
    for image in ["a:2", "a:3", "a:4"] {
        cluster.merge("daemonsets", ("default", "log"), set_image(image)).await;
        let has_image = |pods: &[Value]| pods.len() == 1 && text(&pods[0], "/spec/containers/0/image") == image;
        cluster.eventually(image, || async { has_image(&pods(&cluster).await).then_some(()) }).await;
        until(&cluster, image, |status| status["updatedNumberScheduled"] == 1).await;
    }
    cluster
        .eventually("of the earlier revisions one is left", || async {
            let mut numbers: Vec<i64> = revisions()
                .await
                .iter()
                .filter(|one| one["metadata"]["name"] != name.as_str())
                .filter_map(|one| one["revision"].as_i64())
                .collect();
            numbers.sort_unstable();
            (numbers == [3, 4]).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_revisions_with_one_template_the_newest_takes_over_the_pods() {
    let cluster = started(&["n1"]).await;
    cluster.create("daemonsets", set(json!({}))).await;
    let before = until_on(&cluster, &["n1"]).await.remove(0);
    let revision = cluster.list("controllerrevisions", "default").await.remove(0);
    let copy = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": "copy", "namespace": "default", "labels": {"app": "log"}}, "data": revision["data"], "revision": 9});
    cluster.create("controllerrevisions", copy).await;
    cluster
        .eventually("one revision, which the pod has", || async {
            let revisions = cluster.list("controllerrevisions", "default").await;
            let pods = pods(&cluster).await;
            let hash = "/metadata/labels/controller-revision-hash";
            let [revision] = revisions.as_slice() else { return None };
            let is_whole =
                text(revision, "/metadata/ownerReferences/0/name") == "log" && text(revision, hash) == "copy";
            (is_whole && pods.len() == 1 && text(&pods[0], hash) == "copy").then_some(())
        })
        .await;
    let after = until_on(&cluster, &["n1"]).await.remove(0);
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "the pod was not replaced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_is_deleted_keeps_its_pods_only_if_they_are_orphaned() {
    let cluster = started(&["n1"]).await;
    cluster.create("daemonsets", set(json!({}))).await;
    let before = until_on(&cluster, &["n1"]).await.remove(0);
    cluster.delete_by("daemonsets", "default", "log", oarlock_client::Propagation::Orphan).await;
    cluster
        .eventually("orphans", || async {
            let pods = pods(&cluster).await;
            let set = cluster.get("daemonsets", "default", "log").await;
            (set.is_none() && pods.iter().all(|pod| pod["metadata"]["ownerReferences"].is_null())).then_some(())
        })
        .await;
    cluster.create("daemonsets", set(json!({}))).await;
    until(&cluster, "adopted", |status| status["updatedNumberScheduled"] == 1 && status["numberAvailable"] == 1).await;
    let after = until_on(&cluster, &["n1"]).await.remove(0);
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "adopted with its revision");
    assert_eq!(cluster.list("controllerrevisions", "default").await.len(), 1);
    cluster.delete_by("daemonsets", "default", "log", oarlock_client::Propagation::Foreground).await;
    cluster
        .eventually("nothing is left", || async {
            let revisions = cluster.list("controllerrevisions", "default").await;
            (pods(&cluster).await.is_empty() && revisions.is_empty()).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_nodes_get_one_pod_each() {
    let names: Vec<String> = (0..300).map(|number| format!("n{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let cluster = started(&names).await;
    cluster.create("daemonsets", set(json!({}))).await;
    cluster
        .gradually("300 pods", || async {
            let set = cluster.get("daemonsets", "default", "log").await.unwrap_or_default();
            let available = set["status"]["numberAvailable"].clone();
            if available == 300 { Ok(()) } else { Err(available) }
        })
        .await;
    let pods = pods(&cluster).await;
    assert!(pods.iter().map(node).eq(names.iter().copied()), "{} pods", pods.len());
}
