//! A reflector whose history is compacted: it lists anew and holds what the server holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, ResourceExt};
use oarlock_testkit::Cluster;
use oarlock_testkit::http::Who;
use oarlock_testkit::wait::eventually;
use serde_json::json;
use tokio::task::JoinSet;

use super::{client, map, maps};
use crate::link::Link;
use crate::watch::TINY_WINDOW;

const OBJECTS: usize = 30;

/// The events of the reflector's stream so far.
#[derive(Default)]
pub(crate) struct Deliveries {
    pub(crate) states: AtomicU32,
    pub(crate) expired: AtomicU32,
}

pub(crate) async fn follow(
    stream: impl Stream<Item = watcher::Result<watcher::Event<ConfigMap>>>,
    told: Arc<Deliveries>,
) {
    pin_mut!(stream);
    while let Some(event) = stream.next().await {
        match event {
            Ok(watcher::Event::InitDone) => told.states.fetch_add(1, Ordering::SeqCst),
            Err(watcher::Error::WatchError(status)) if status.code == 410 => {
                assert_eq!(status.reason, "Expired");
                told.expired.fetch_add(1, Ordering::SeqCst)
            }
            _ => 0,
        };
    }
}

/// Names and revisions, which say everything: an object of one revision is one object.
fn versions<'a>(objects: impl IntoIterator<Item = &'a ConfigMap>) -> BTreeMap<String, String> {
    objects.into_iter().map(|map| (map.name_any(), map.resource_version().unwrap())).collect()
}

pub(crate) async fn served(maps: &Api<ConfigMap>) -> BTreeMap<String, String> {
    versions(&maps.list(&ListParams::default()).await.unwrap().items)
}

pub(crate) fn holds(store: &reflector::Store<ConfigMap>, wanted: &BTreeMap<String, String>) {
    eventually("the reflector's store is the server's state", || {
        let state = store.state();
        let held = versions(state.iter().map(AsRef::as_ref));
        if held == *wanted { Ok(()) } else { Err(format!("{held:?} is held, {wanted:?} served")) }
    });
}

async fn through_a_410(config: watcher::Config) {
    let cluster = Cluster::up(TINY_WINDOW);
    let http = cluster.http(Who::Admin);
    let link = Link::to(http.address()).await;
    let maps = maps(&client(&cluster, None).await);
    for n in 0..OBJECTS {
        maps.create(&PostParams::default(), &map(&format!("here-{n}"), &[])).await.unwrap();
    }
    let (store, writer) = reflector::store();
    let watched = watcher(super::maps(&client(&cluster, Some(&link)).await), config).default_backoff();
    let told = Arc::new(Deliveries::default());
    let mut tasks = JoinSet::new();
    tasks.spawn(follow(reflector(writer, watched), Arc::clone(&told)));
    holds(&store, &served(&maps).await);
    maps.create(&PostParams::default(), &map("live", &[])).await.unwrap();
    let before = served(&maps).await;
    holds(&store, &before);

    link.cut();
    for n in 0..OBJECTS {
        let name = format!("here-{n}");
        match n % 3 {
            0 => drop(maps.delete(&name, &DeleteParams::default()).await.unwrap()),
            1 => {
                let change = Patch::Merge(json!({"data": {"changed": "yes"}}));
                maps.patch(&name, &PatchParams::default(), &change).await.unwrap();
            }
            _ => drop(maps.create(&PostParams::default(), &map(&format!("new-{n}"), &[])).await.unwrap()),
        }
    }
    crate::watch::pass_the_window(&http);
    let after = served(&maps).await;
    // The reflector still holds the previous state, because no event has arrived.
    holds(&store, &before);
    assert_eq!(told.expired.load(Ordering::SeqCst), 0);
    link.mend();

    holds(&store, &after);
    let seen = (told.expired.load(Ordering::SeqCst), told.states.load(Ordering::SeqCst));
    assert_eq!(seen, (1, 2), "one 410, and one more whole state");
    // The reflector's watch is live again.
    maps.delete("live", &DeleteParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &map("last", &[])).await.unwrap();
    holds(&store, &served(&maps).await);
    assert_eq!(told.states.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reflector_that_lists_comes_through_a_410() {
    through_a_410(watcher::Config::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reflector_that_streams_its_list_comes_through_a_410() {
    through_a_410(watcher::Config::default().streaming_lists()).await;
}
