//! StatefulSets against a real API server, under the controllers' own roles. What `kubectl` shows of them is in `transcript::stateful_sets`.

use serde_json::{Value, json};

use crate::cluster::Cluster;

/// A StatefulSet whose pods have the label `app: web`.
fn set(name: &str, more: Value) -> Value {
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "a:1"}]},
    });
    let mut spec =
        json!({"serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "replicas": 2, "template": template});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn with_claims(more: Value) -> Value {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let mut spec = json!({"volumeClaimTemplates": [claim]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

fn orphan(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "a:1"}]}})
}

async fn started() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
    cluster
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

async fn pods(cluster: &Cluster) -> String {
    let pods = cluster.list("pods", "default").await;
    pods.iter().map(name).collect::<Vec<_>>().join(" ")
}

async fn until_pods(cluster: &Cluster, wanted: &str) {
    cluster.eventually(wanted, || async { (pods(cluster).await == wanted).then_some(()) }).await;
}

/// Waits until the status of a set fits.
async fn until(cluster: &Cluster, set: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    cluster
        .eventually(what, || async {
            let set = cluster.get("statefulsets", "default", set).await?;
            let is_new = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            (is_new && fits(&set["status"])).then_some(set)
        })
        .await
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_fits_is_adopted_and_a_stray_one_is_replaced() {
    let cluster = started().await;
    cluster.run_pods().await;
    for pod in ["web-1", "web-01", "other-0"] {
        cluster.create("pods", orphan(pod)).await;
    }
    cluster.create("statefulsets", set("web", json!({}))).await;
    until_pods(&cluster, "other-0 web-0 web-01 web-1").await;
    cluster
        .eventually("adoption, and the labels of its identity", || async {
            let pod = cluster.get("pods", "default", "web-1").await?;
            let labels = &pod["metadata"]["labels"];
            (pod["metadata"]["ownerReferences"][0]["name"] == "web" && labels["apps.kubernetes.io/pod-index"] == "1")
                .then_some(())
        })
        .await;
    for pod in ["web-01", "other-0"] {
        let pod = cluster.get("pods", "default", pod).await.unwrap();
        assert!(pod["metadata"]["ownerReferences"].is_null(), "{pod}");
    }
    // The adopted pod has no revision, so it is replaced.
    until(&cluster, "web", "all updated", |status| status["updatedReplicas"] == 2).await;
    cluster.merge("pods", ("default", "web-0"), json!({"metadata": {"labels": {"app": "other"}}})).await;
    cluster
        .eventually("release", || async {
            let pod = cluster.get("pods", "default", "web-0").await?;
            pod["metadata"]["ownerReferences"].is_null().then_some(())
        })
        .await;
    let stray = cluster.get("pods", "default", "web-0").await.unwrap();
    cluster.delete("pods", "default", "web-0").await;
    cluster
        .eventually("a successor", || async {
            let pod = cluster.get("pods", "default", "web-0").await?;
            (pod["metadata"]["uid"] != stray["metadata"]["uid"] && pod["metadata"]["labels"]["app"] == "web")
                .then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_ended_is_made_again() {
    let cluster = started().await;
    cluster.run_pods().await;
    cluster.create("statefulsets", set("web", json!({}))).await;
    until(&cluster, "web", "both ready", |status| status["readyReplicas"] == 2).await;
    for phase in ["Failed", "Succeeded"] {
        let ended = cluster.get("pods", "default", "web-0").await.unwrap();
        cluster.patch("pods", "status", ("default", "web-0"), json!({"status": {"phase": phase}})).await;
        cluster
            .eventually("a new pod of the name", || async {
                let pod = cluster.get("pods", "default", "web-0").await?;
                (pod["metadata"]["uid"] != ended["metadata"]["uid"]).then_some(())
            })
            .await;
        until(&cluster, "web", "both ready", |status| status["readyReplicas"] == 2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_goes_with_a_surplus_pod_and_the_next_pod_of_the_ordinal_waits_for_its_end() {
    let cluster = started().await;
    cluster.run_pods().await;
    let policy = json!({"whenDeleted": "Retain", "whenScaled": "Delete"});
    let spec = with_claims(json!({"persistentVolumeClaimRetentionPolicy": policy}));
    cluster.create("statefulsets", set("web", spec)).await;
    until(&cluster, "web", "both ready", |status| status["readyReplicas"] == 2).await;
    let claim = |name: &'static str| cluster.get("persistentvolumeclaims", "default", name);
    for name in ["data-web-0", "data-web-1"] {
        let claim = claim(name).await.unwrap();
        assert!(
            claim["metadata"]["ownerReferences"].is_null() && claim["metadata"]["labels"]["app"] == "web",
            "{claim}"
        );
    }
    cluster.merge("statefulsets", ("default", "web"), json!({"spec": {"replicas": 1}})).await;
    until_pods(&cluster, "web-0").await;
    let going = cluster
        .eventually("the claim is being deleted", || async {
            claim("data-web-1").await.filter(|claim| !claim["metadata"]["deletionTimestamp"].is_null())
        })
        .await;
    assert_eq!(going["metadata"]["ownerReferences"][0]["kind"], "Pod");
    cluster.merge("statefulsets", ("default", "web"), json!({"spec": {"replicas": 2}})).await;
    until(&cluster, "web", "the set waits", |status| status["replicas"] == 1).await;
    assert_eq!(pods(&cluster).await, "web-0");
    // The claim's finalizer is removed by a controller that the cluster does not have.
    cluster.merge("persistentvolumeclaims", ("default", "data-web-1"), json!({"metadata": {"finalizers": null}})).await;
    until_pods(&cluster, "web-0 web-1").await;
    let new = claim("data-web-1").await.unwrap();
    assert!(
        new["metadata"]["uid"] != going["metadata"]["uid"] && new["metadata"]["ownerReferences"].is_null(),
        "{new}"
    );
    assert!(claim("data-web-0").await.unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_is_deleted_takes_its_claims_along_if_it_wants_to() {
    let cluster = started().await;
    let policy = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    let spec = with_claims(json!({"persistentVolumeClaimRetentionPolicy": policy, "podManagementPolicy": "Parallel"}));
    cluster.create("statefulsets", set("web", spec)).await;
    until_pods(&cluster, "web-0 web-1").await;
    for claim in cluster.list("persistentvolumeclaims", "default").await {
        let owner = &claim["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["controller"]), (&json!("StatefulSet"), &json!(true)));
    }
    cluster.delete("statefulsets", "default", "web").await;
    until_pods(&cluster, "").await;
    cluster
        .eventually("both claims are being deleted", || async {
            let claims = cluster.list("persistentvolumeclaims", "default").await;
            let going = |claim: &Value| !claim["metadata"]["deletionTimestamp"].is_null();
            (claims.len() == 2 && claims.iter().all(going)).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_whose_name_is_in_use_gets_the_next_name_and_old_ones_are_deleted() {
    let cluster = started().await;
    let empty = |more: Value| {
        let mut spec = json!({"replicas": 0, "revisionHistoryLimit": 1});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        set("web", spec)
    };
    let observed = |status: &Value| !status["updateRevision"].is_null();
    cluster.create("statefulsets", empty(json!({}))).await;
    let first = until(&cluster, "web", "a revision", observed).await;
    let name = text(&first, "/status/updateRevision").to_owned();
    cluster.delete("statefulsets", "default", "web").await;
    cluster
        .eventually("the revision is deleted", || async {
            cluster.get("controllerrevisions", "default", &name).await.is_none().then_some(())
        })
        .await;
    let other = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": name, "namespace": "default"},
        "data": {"a": "b"}, "revision": 1});
    cluster.create("controllerrevisions", other).await;
    cluster.create("statefulsets", empty(json!({}))).await;
    let second = until(&cluster, "web", "a revision", observed).await;
    assert_eq!(second["status"]["collisionCount"], 1);
    let next = text(&second, "/status/updateRevision").to_owned();
    assert_ne!(next, name);
    let revision = cluster.get("controllerrevisions", "default", &next).await.unwrap();
    let hash = text(&revision, "/metadata/labels/controller.kubernetes.io~1hash");
    assert_eq!(format!("web-{hash}"), name, "the label keeps the hash of the first name");
    for image in ["a:2", "a:3", "a:4"] {
        let containers = json!([{"name": "main", "image": image}]);
        cluster
            .merge(
                "statefulsets",
                ("default", "web"),
                json!({"spec": {"template": {"spec": {"containers": containers}}}}),
            )
            .await;
        let before = next.clone();
        until(&cluster, "web", image, |status| {
            status["updateRevision"] != before.as_str() && status["currentRevision"] == status["updateRevision"]
        })
        .await;
    }
    cluster
        .eventually("of the earlier revisions one is left", || async {
            let all = cluster.list("controllerrevisions", "default").await;
            let numbers: Vec<i64> = all
                .iter()
                .filter(|one| one["metadata"]["name"] != name.as_str())
                .filter_map(|one| one["revision"].as_i64())
                .collect();
            (numbers.len() == 2 && numbers.contains(&3) && numbers.contains(&4)).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_pods_of_a_parallel_set_are_made_once_each() {
    let cluster = started().await;
    cluster.create("statefulsets", set("many", json!({"replicas": 600, "podManagementPolicy": "Parallel"}))).await;
    cluster
        .gradually("600 pods", || async {
            let set = cluster.get("statefulsets", "default", "many").await.unwrap_or_default();
            if set["status"]["replicas"] == 600 { Ok(()) } else { Err(set["status"]["replicas"].clone()) }
        })
        .await;
    assert_eq!(cluster.list("pods", "default").await.len(), 600);
}
