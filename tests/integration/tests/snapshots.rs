//! `oarlock snapshot` from the outside: state that moves between stores while clients watch, and what is refused.

mod moved;
mod raw;
mod refused;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Ran};
use serde_json::json;
use tokio::task::JoinSet;

use crate::kube_rs::reflector::{Deliveries, follow, holds, served};
use crate::kube_rs::{client, map, maps};

const API_ONLY: [&str; 2] = ["--disable", "scheduler,controller-manager,kubelet"];
const OBJECTS: usize = 30;

/// Runs `oarlock snapshot` with these words.
pub(crate) fn snapshot(words: &[&str]) -> Ran {
    let output = Command::new(oarlock_testkit::oarlock()).arg("snapshot").args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let ran = Ran {
        line: format!("oarlock snapshot {}", words.join(" ")),
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    };
    eprintln!("{ran}");
    ran
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns the value of a line of the command's output.
fn said<'a>(ran: &'a Ran, name: &str) -> &'a str {
    let line = ran.out.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name}: {ran}")).trim()
}

/// A kube-rs informer of the ConfigMaps of `default`.
struct Informer {
    store: reflector::Store<ConfigMap>,
    told: Arc<Deliveries>,
    _tasks: JoinSet<()>,
}

impl Informer {
    async fn start(cluster: &Cluster) -> Self {
        let (store, writer) = reflector::store();
        let watched = watcher(maps(&client(cluster, None).await), watcher::Config::default()).default_backoff();
        let told = Arc::new(Deliveries::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(follow(reflector(writer, watched), Arc::clone(&told)));
        Self { store, told, _tasks: tasks }
    }

    /// Checks that the reflector holds the served objects, after this many 410s, each of which made it list once.
    async fn agrees(&self, maps: &Api<ConfigMap>, expired: u32) -> BTreeMap<String, String> {
        let served = served(maps).await;
        holds(&self.store, &served);
        let told = (self.told.expired.load(Ordering::SeqCst), self.told.states.load(Ordering::SeqCst));
        assert_eq!(told, (expired, expired + 1), "410s, and whole states");
        served
    }
}

async fn fill(maps: &Api<ConfigMap>) {
    for n in 0..OBJECTS {
        maps.create(&PostParams::default(), &map(&format!("here-{n}"), &[("n", "0")])).await.unwrap();
    }
}

/// Deletes, changes and makes some.
async fn change(maps: &Api<ConfigMap>) {
    for n in 0..OBJECTS {
        let name = format!("here-{n}");
        match n % 3 {
            0 => drop(maps.delete(&name, &DeleteParams::default()).await.unwrap()),
            1 => {
                let change = Patch::Merge(json!({"data": {"n": "1"}}));
                maps.patch(&name, &PatchParams::default(), &change).await.unwrap();
            }
            _ => drop(maps.create(&PostParams::default(), &map(&format!("ghost-{n}"), &[])).await.unwrap()),
        }
    }
}

/// Names and what is in them: what an older state and its restored copy have in common.
async fn content(maps: &Api<ConfigMap>) -> BTreeMap<String, Option<String>> {
    let list = maps.list(&ListParams::default()).await.unwrap();
    list.items.iter().map(|map| (map.name_any(), map.data.as_ref().and_then(|data| data.get("n").cloned()))).collect()
}

/// Waits until this is served.
async fn until_content(cluster: &Cluster, maps: &Api<ConfigMap>, wanted: &BTreeMap<String, Option<String>>) {
    let http = cluster.http(oarlock_testkit::http::Who::Admin);
    let path = "/api/v1/namespaces/default/configmaps";
    eventually("the restored state is served", || {
        let answer = http.get(path);
        let names = |answer: &oarlock_testkit::http::Answer| -> Vec<String> {
            let items = answer.json()["items"].as_array().cloned().unwrap_or_default();
            items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
        };
        if answer.code == 200 && names(&answer).iter().eq(wanted.keys()) { Ok(()) } else { Err(answer.to_string()) }
    });
    assert_eq!(content(maps).await, *wanted);
}

/// The highest revision in a state.
fn highest(served: &BTreeMap<String, String>) -> u64 {
    served.values().map(|revision| revision.parse().unwrap()).max().unwrap()
}

fn lowest(served: &BTreeMap<String, String>) -> u64 {
    served.values().map(|revision| revision.parse().unwrap()).min().unwrap()
}
