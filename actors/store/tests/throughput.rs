//! Measurements, not guarantees: `cargo test --release -p oarlock-store --test throughput -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

#[expect(dead_code, reason = "the other tests use the rest")]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::{PODS, soon, start, stop, system};
use oarlock_runtime::clock;
use oarlock_storage::testing::recording_hook;
use oarlock_storage::{Append, EmbeddedLog, Expect, Key, Log, MemoryLog, embedded};
use oarlock_store::{EntryParts, Interest, Options, Store, Write};

const POD_BYTES: usize = 2600;

fn value(name: &str) -> Bytes {
    let head = format!(r#"{{"metadata":{{"name":"{name}","uid":"0c0f8c5e-7f0c-4a8e-9f6e-3d3b1f3a2a10"}},"pad":""#);
    let pad = "x".repeat(POD_BYTES.saturating_sub(head.len() + 2));
    format!("{head}{pad}\"}}").into()
}

fn write(name: &str) -> Write {
    let value = value(name);
    let labels = [("app", "web"), ("pod-template-hash", "5d4f8c7b9d")].map(|(k, v)| (k.into(), v.into()));
    let parts = EntryParts {
        splice: Some(21 + name.len() as u32 + 2),
        uid: "0c0f8c5e-7f0c-4a8e-9f6e-3d3b1f3a2a10".into(),
        labels: labels.into(),
        ..EntryParts::default()
    };
    Write::with_parts(Append::create(Key::namespaced(PODS, "default", name), value), parts)
}

/// Creates `total` pods, `writers` at a time; prints rate and latency.
async fn creates(store: &Store, label: &str, writers: u64, total: u64) {
    let gate = oarlock_runtime::Gate::new("bench");
    let next = Arc::new(AtomicU64::new(0));
    let began = clock::now();
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let (store, next, label) = (store.clone(), Arc::clone(&next), format!("{label}-{writers}"));
            let work = async move {
                let mut took = Vec::new();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= total {
                        return took;
                    }
                    let spread = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
                    let write = write(&format!("{label}-{spread:07}-{n}").replace([' ', ','], "-"));
                    let began = clock::now();
                    store.write(write, soon()).await.unwrap();
                    took.push(began.elapsed());
                }
            };
            gate.spawn("writer", work).unwrap()
        })
        .collect();
    let mut took: Vec<Duration> = Vec::new();
    for task in tasks {
        took.extend(task.await.unwrap());
    }
    let elapsed = began.elapsed();
    took.sort_unstable();
    let at = |permille: usize| took[(took.len() - 1) * permille / 1000];
    let rate = total as f64 / elapsed.as_secs_f64();
    println!("{label}: {writers} writers, {rate:.0} creates/s, p50 {:?} p99 {:?} max {:?}", at(500), at(990), at(1000));
}

fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn open(path: &std::path::Path) -> Arc<dyn Log> {
    let (fatal, _) = recording_hook();
    Arc::new(EmbeddedLog::open(path, &embedded::Options::new(fatal)).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn durable_creates() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let path = directory.path().join("store.db");
    let system = system().await;
    let store = start(&system, open(&path)).await;
    let empty = rss();
    creates(&store, "embedded", 1, 3_000).await;
    creates(&store, "embedded", 16, 30_000).await;
    let before = (rss(), store.view().list(PODS).len());
    creates(&store, "embedded", 64, 100_000).await;
    let pods = store.view().list(PODS).len() as u64;
    store.view().trim(store.view().applied());
    println!("rss: {empty} empty, {} after {}, {} after {pods} pods", before.0, before.1, rss());
    println!("per pod: {} bytes all in, window {}", (rss() - empty) / pods, store.view().window_bytes());
    store.stop(soon()).await;
    drop(store);
    stop(&system).await;
    let began = clock::now();
    let log = open(&path);
    println!("reopened {} MB in {:?}", std::fs::metadata(&path).unwrap().len() >> 20, began.elapsed());
    let again = common::system().await;
    let store = start(&again, log).await;
    println!("loaded {} pods in {:?} with the opening", store.view().list(PODS).len(), began.elapsed());
    stop(&again).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn durable_updates_beside_compaction() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let path = directory.path().join("store.db");
    let system = system().await;
    let options = Options { history_bytes: 32 << 20, compact_every: Duration::from_secs(1), ..Options::default() };
    let store = common::start_with(&system, open(&path), options).await;
    let gate = oarlock_runtime::Gate::new("bench");
    let began = clock::now();
    let tasks: Vec<_> = (0..64)
        .map(|writer: u64| {
            let store = store.clone();
            let work = async move {
                let mut took = Vec::new();
                for n in 0..3_000_u64 {
                    let name = format!("pod-{writer}-{}", n % 50);
                    let mut write = write(&name);
                    write.append.expect = Expect::Any;
                    let began = clock::now();
                    store.write(write, soon()).await.unwrap();
                    took.push(began.elapsed());
                }
                took
            };
            gate.spawn("writer", work).unwrap()
        })
        .collect();
    let mut took: Vec<Duration> = Vec::new();
    for task in tasks {
        took.extend(task.await.unwrap());
    }
    took.sort_unstable();
    let at = |permille: usize| took[(took.len() - 1) * permille / 1000];
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    println!("updates: {rate:.0}/s, p50 {:?} p99 {:?} max {:?}, {:?}", at(500), at(990), at(1000), store.health());
    store.stop(soon()).await;
    drop(store);
    stop(&system).await;
    let file = std::fs::metadata(&path).unwrap();
    let blocks = std::os::unix::fs::MetadataExt::blocks(&file) * 512;
    println!("500 MB written over 3,200 pods: file {} MB, on disk {} MB", file.len() >> 20, blocks >> 20);
    let began = clock::now();
    drop(open(&path));
    println!("reopened in {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn memory_creates() {
    let system = system().await;
    let store = start(&system, Arc::new(MemoryLog::new())).await;
    creates(&store, "memory", 1, 50_000).await;
    creates(&store, "memory", 64, 100_000).await;
    stop(&system).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn fan_out() {
    let system = system().await;
    let store = start(&system, Arc::new(MemoryLog::new())).await;
    let gate = oarlock_runtime::Gate::new("bench");
    for (label, interest) in [
        ("idle, by name", Some(Interest::Object { namespace: "default".into(), name: "nobody".into() })),
        ("all", None),
    ] {
        let seen = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..1000)
            .map(|n| {
                let interest = match &interest {
                    Some(Interest::Object { namespace, name }) => {
                        Interest::Object { namespace: namespace.clone(), name: format!("{name}-{n}").into() }
                    }
                    _ => Interest::All,
                };
                let mut cursor = store.view().watch(PODS, store.view().applied(), interest, None).unwrap();
                let seen = Arc::clone(&seen);
                let read = async move {
                    while let Ok(batch) = cursor.next_batch(64, soon()).await {
                        seen.fetch_add(batch.events.len() as u64, Ordering::Relaxed);
                    }
                };
                gate.spawn("watcher", read).unwrap()
            })
            .collect();
        let began = clock::now();
        let writes = if interest.is_some() { 50_000 } else { 5_000 };
        creates(&store, &format!("1000 watchers {label}"), 64, writes).await;
        let wanted = if interest.is_some() { 0 } else { writes * 1000 };
        while seen.load(Ordering::Relaxed) < wanted {
            clock::sleep(Duration::from_millis(1)).await;
        }
        let rate = wanted as f64 / began.elapsed().as_secs_f64();
        println!("1000 watchers {label}: {rate:.0} deliveries/s");
        drop(tasks);
    }
    stop(&system).await;
}
