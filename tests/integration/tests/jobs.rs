//! Jobs against a real API server, with pods whose ends are written by hand. What `kubectl` shows of them is in `transcript::jobs`.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// A Job of pods that end.
fn job(name: &str, mut spec: Value, labels: Value) -> Value {
    let containers = json!([{"name": "main", "image": "a:1"}]);
    spec["template"] =
        json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": containers}});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn bare(name: &str, metadata: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "a:1"}],
    }});
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["namespace"] = "default".into();
    pod
}

fn tracked(pod: &Value) -> bool {
    pod["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|one| one == TRACKING))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn stands(job: &Value, kind: &str) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == kind && one["status"] == "True"))
}

async fn started() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.controllers().await;
    cluster.eventually("account", || cluster.get("serviceaccounts", "default", "default")).await;
    cluster
}

/// Returns the pods that have not ended.
async fn alive(cluster: &Cluster) -> Vec<Value> {
    let mut pods = cluster.list("pods", "default").await;
    pods.retain(|pod| pod["status"]["phase"] != "Succeeded" && pod["status"]["phase"] != "Failed");
    pods
}

async fn ends(cluster: &Cluster, pod: &str, phase: &str) {
    cluster.patch("pods", "status", ("default", pod), json!({"status": {"phase": phase}})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_fits_is_adopted_and_counts_and_a_stray_one_is_let_go() {
    let cluster = started().await;
    cluster.create("pods", bare("found", json!({"labels": {"app": "job"}}))).await;
    let selector = json!({"manualSelector": true, "selector": {"matchLabels": {"app": "job"}}, "completions": 2});
    cluster.create("jobs", job("work", selector, json!({"app": "job"}))).await;
    cluster
        .eventually("adoption", || async {
            let pod = cluster.get("pods", "default", "found").await?;
            (pod["metadata"]["ownerReferences"][0]["name"] == "work" && tracked(&pod)).then_some(())
        })
        .await;
    assert_eq!(cluster.list("pods", "default").await.len(), 1, "it is enough");
    ends(&cluster, "found", "Succeeded").await;
    let second = cluster.eventually("the next pod", || async { alive(&cluster).await.into_iter().next() }).await;
    cluster.merge("pods", ("default", name(&second)), json!({"metadata": {"labels": {"app": "other"}}})).await;
    cluster
        .eventually("release", || async {
            let pod = cluster.get("pods", "default", name(&second)).await?;
            (pod["metadata"]["ownerReferences"].is_null() && !tracked(&pod)).then_some(())
        })
        .await;
    let third = cluster
        .eventually("a successor", || async {
            alive(&cluster).await.into_iter().find(|pod| name(pod) != name(&second))
        })
        .await;
    ends(&cluster, name(&third), "Succeeded").await;
    let done = cluster
        .eventually("the end", || async {
            cluster.get("jobs", "default", "work").await.filter(|job| stands(job, "Complete"))
        })
        .await;
    assert_eq!((&done["status"]["succeeded"], &done["status"]["failed"]), (&json!(2), &Value::Null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_pod_is_kept_that_nobody_will_count() {
    let cluster = started().await;
    let others = json!({"managedBy": "example.com/other"});
    let others = cluster.create("jobs", job("others", others, json!({}))).await;
    let owned = |name: &str, uid: &str| {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": true});
        json!({"finalizers": [TRACKING], "ownerReferences": [owner]})
    };
    cluster.create("pods", bare("theirs", owned("others", &others.uid()))).await;
    cluster.create("pods", bare("nobodys", json!({"finalizers": [TRACKING]}))).await;
    cluster.create("pods", bare("orphan", owned("gone", "00000000-0000-0000-0000-000000000000"))).await;
    cluster
        .eventually("a pod without a finalizer", || async {
            let pod = cluster.get("pods", "default", "nobodys").await?;
            (!tracked(&pod)).then_some(())
        })
        .await;
    cluster
        .eventually("the end of an orphan", || async {
            cluster.get("pods", "default", "orphan").await.is_none().then_some(())
        })
        .await;
    // The manager of that Job must count the pod.
    let theirs = cluster.get("pods", "default", "theirs").await.unwrap();
    assert!(tracked(&theirs), "{theirs}");
    let job = cluster.get("jobs", "default", "others").await.unwrap();
    assert!(job["status"].as_object().is_none_or(|status| status.is_empty()), "{job}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_indexed_job_shrinks_and_grows() {
    let cluster = started().await;
    let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3});
    cluster.create("jobs", job("work", spec, json!({}))).await;
    let indexes = || async {
        let label = |pod: &Value| pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"].clone();
        let mut all: Vec<Value> = alive(&cluster).await.iter().map(label).collect();
        all.sort_by_key(Value::to_string);
        all
    };
    for (count, wanted) in [(3, json!(["0", "1", "2"])), (1, json!(["0"])), (2, json!(["0", "1"]))] {
        let size = json!({"spec": {"completions": count, "parallelism": count}});
        cluster.merge("jobs", ("default", "work"), size).await;
        cluster
            .eventually(&format!("{count} indexes"), || async { (json!(indexes().await) == wanted).then_some(()) })
            .await;
    }
    for pod in alive(&cluster).await {
        ends(&cluster, name(&pod), "Succeeded").await;
    }
    let done = cluster
        .eventually("the end", || async {
            cluster.get("jobs", "default", "work").await.filter(|job| stands(job, "Complete"))
        })
        .await;
    let status = &done["status"];
    assert_eq!(
        (&status["completedIndexes"], &status["succeeded"], &status["failed"]),
        (&json!("0,1"), &json!(2), &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_pods_are_counted_once_each() {
    let cluster = started().await;
    cluster.pods_become(json!({"phase": "Succeeded"})).await;
    cluster.create("jobs", job("work", json!({"completions": 1_000, "parallelism": 300}), json!({}))).await;
    let done = cluster
        .gradually("pods are counted", || async {
            let job = cluster.get("jobs", "default", "work").await.unwrap();
            if stands(&job, "Complete") { Ok(job) } else { Err(job["status"]["succeeded"].clone()) }
        })
        .await;
    assert_eq!(done["status"]["succeeded"], 1_000);
    let pods = cluster.list("pods", "default").await;
    assert_eq!((pods.len(), pods.iter().filter(|pod| tracked(pod)).count()), (1_000, 0));
}
