//! Charges to quotas, which commit atomically with the object.

use crate::common::{World, resource};
use oarlock_meta::Revision;
use oarlock_registry::index;
use oarlock_storage::Expect;
use serde_json::{Value, json};

fn world() -> World {
    let world = World::with_namespace("n");
    let amounts = |pods: &str, cpu: &str| json!({"pods": pods, "requests.cpu": cpu});
    world.put(
        "resourcequotas",
        &json!({
            "metadata": {"name": "q", "namespace": "n"}, "spec": {"hard": amounts("3", "1")},
            "status": {"hard": amounts("3", "1"), "used": {"pods": "1", "requests.cpu": "250m", "services": "7"}}
        }),
    );
    world
}

fn pod(cpu: &str) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
}

#[tokio::test]
async fn charges_used_and_leaves_the_rest_of_the_quota_alone() {
    let world = world();
    let admitted = world.create("pods", "n", &pod("500m")).await.unwrap();
    let [charge] = admitted.together.as_slice() else { panic!("one write: {:?}", admitted.together) };
    let stored: Value = serde_json::from_slice(charge.value.as_ref().unwrap()).unwrap();
    assert_eq!(stored["status"]["used"], json!({"pods": "2", "requests.cpu": "750m", "services": "7"}));
    assert_eq!(stored["spec"]["hard"], json!({"pods": "3", "requests.cpu": "1"}));
    assert!(stored["metadata"].get("resourceVersion").is_none(), "the stored form has no revision");
    assert!(index::decode(charge.value.as_ref().unwrap(), resource("resourcequotas").ty).is_ok());
}

#[tokio::test]
async fn charges_only_the_version_it_has_seen() {
    let world = world();
    let quotas = world.view.list("/registry/resourcequotas/");
    let seen = quotas.iter().next().unwrap().revision;
    let admitted = world.create("pods", "n", &pod("500m")).await.unwrap();
    assert_eq!(admitted.together[0].expect, Expect::At(seen));
    assert_ne!(seen, Revision::ZERO);
}

#[tokio::test]
async fn charges_nothing_when_refused_or_not_counted() {
    let world = world();
    let status = world.create("pods", "n", &pod("800m")).await.unwrap_err();
    assert_eq!(
        status.message,
        "pods \"p\" is forbidden: exceeded quota: q, requested: requests.cpu=800m, used: requests.cpu=250m, limited: requests.cpu=1"
    );
    let admitted = world.create("configmaps", "n", &json!({"metadata": {"name": "c"}})).await.unwrap();
    assert!(admitted.together.is_empty());
}

#[tokio::test]
async fn quotas_of_other_namespaces_do_not_count() {
    let world = world();
    world.put("namespaces", &json!({"metadata": {"name": "m"}}));
    world.put("serviceaccounts", &json!({"metadata": {"name": "default", "namespace": "m"}}));
    let admitted = world.create("pods", "m", &pod("100")).await.unwrap();
    assert!(admitted.together.is_empty());
}

#[tokio::test(start_paused = true)]
async fn requests_that_charge_one_namespace_take_turns() {
    let world = world();
    let first = world.create("pods", "n", &pod("100m")).await.unwrap();
    assert_eq!(first.held.len(), 1);
    let (pod, config) = (pod("100m"), json!({"metadata": {"name": "c"}}));
    let second = world.create("pods", "n", &pod);
    tokio::pin!(second);
    let waits = oarlock_runtime::clock::timeout(std::time::Duration::from_secs(1), second.as_mut()).await;
    assert!(waits.is_err(), "the first has not ended");
    assert!(
        world.create("configmaps", "n", &config).await.unwrap().held.is_empty(),
        "what charges nothing does not wait"
    );
    drop(first);
    assert_eq!(second.await.unwrap().together.len(), 1);
}
