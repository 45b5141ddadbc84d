//! A thousand pods of which 1 % are exported, and then a calm hour with a hundred watches.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use oarlock_check::traces as judge;
use oarlock_client::{ListOptions, PatchType, WriteOptions};
use oarlock_runtime::{Universe, clock};
use oarlock_telemetry::traces::{self, ExportQueue, Ratio, Sampler, Settings};
use serde_json::json;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::alone::alone;
use super::lives::World;
use super::spans::{judged, life, none};
use super::users::{NAMESPACE, NODES, kind, surely};

const PODS: usize = 1000;
const WATCHES: usize = 100;
/// The steps of a pod's creation, which the next change replaces: no kubelet runs here.
const STEPS: [&str; 5] = ["commit", "queue", "decide", "bind", "pod create"];

#[test]
fn of_a_thousand_lives_each_is_exported_whole_or_not_and_a_calm_hour_leaves_no_span_open() {
    let name = "crew::hour::of_a_thousand_lives_each_is_exported_whole_or_not_and_a_calm_hour_leaves_no_span_open";
    alone(name, || {
        let queue = Arc::new(ExportQueue::new(1 << 16, 1 << 16));
        let sampler = Sampler::parent_based(Ratio::per_million(10_000).unwrap());
        assert!(traces::start(Settings::exported(sampler, Arc::clone(&queue))));
        let _layer = tracing_subscriber::registry().with(traces::layer()).set_default();
        let (first, pods) = Universe::run(43, a_calm_hour).value;

        assert_eq!(traces::open(), 0);
        let kept = judged(&traces::ring().unwrap().all());
        none(&judge::none_missing(&kept, &[first], &STEPS));
        none(&judge::none_outlives(&kept));
        let exported = judged(&queue.take());
        none(&judge::whole_or_absent(&exported, &pods, &STEPS));
    });
}

/// Returns the life of the pod that was created first, and of all.
async fn a_calm_hour() -> (u128, Vec<u128>) {
    let mut world = World::new(PODS).await;
    make_room(&world).await;
    world.join().await;
    world.apply().await;
    world.until_bound().await;
    change_images(&world).await;
    world.until_complete().await;
    tokio::select! {
        _ = join_all((0..WATCHES).map(|_| watch(&world))) => panic!("watches never end"),
        () = clock::sleep(Duration::from_secs(3600)) => {}
    }
    world.end().await;
    let mut pods = world.list("", "pods").await;
    pods.sort_by_key(|pod| pod["metadata"]["creationTimestamp"].to_string());
    let pods: Vec<u128> = pods.iter().map(|pod| life(pod["metadata"]["uid"].as_str().unwrap())).collect();
    (pods[0], pods)
}

/// Lets each node hold all pods.
async fn make_room(world: &World) {
    let nodes = kind("", "nodes");
    let room = json!({"cpu": "64", "memory": "256Gi", "pods": PODS.to_string()});
    let patch = (PatchType::Merge, json!({"status": {"capacity": room, "allocatable": room}}).to_string());
    for name in (0..NODES).map(|number| format!("node-{number}")) {
        let key = ("", name.as_str());
        surely(async || world.admin.patch(nodes, "status", key, patch.clone(), WriteOptions::default()).await).await;
    }
}

/// Begins the second change of each pod's life.
async fn change_images(world: &World) {
    let pods = kind("", "pods");
    let change = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "y"}]);
    let patch = (PatchType::Json, change.to_string());
    for pod in world.list("", "pods").await {
        let key = (NAMESPACE, pod["metadata"]["name"].as_str().unwrap());
        surely(async || world.admin.patch(pods, "", key, patch.clone(), WriteOptions::default()).await).await;
    }
}

/// Watches all pods from now on, again after each end.
async fn watch(world: &World) {
    let pods = kind("", "pods");
    loop {
        let one = ListOptions { limit: 1, ..ListOptions::default() };
        let now = surely(async || world.admin.list(pods, NAMESPACE, one.clone()).await).await.revision;
        let from = ListOptions { resource_version: Some(now), allow_bookmarks: true, ..ListOptions::default() };
        match world.admin.watch(pods, NAMESPACE, from).await {
            Ok(mut stream) => while stream.next().await.is_some() {},
            Err(_) => clock::sleep(Duration::from_secs(1)).await,
        }
    }
}
