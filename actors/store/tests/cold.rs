//! Cold bodies: a store with almost none in memory gives the same answers as one with all.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{PODS, Small, create, json, pod, soon, start_with, stop, system};
use bytes::Bytes;
use oarlock_meta::Revision;
use oarlock_storage::testing::rng::Rng;
use oarlock_storage::{Append, EmbeddedLog, Expect, Key, Log, MemoryLog, embedded};
use oarlock_store::{ColdOptions, Entry, EntryParts, EventKind, Indexer, Interest, Options, ReadError, Store, Write};

/// The expected bytes of reads, by key.
type Model = BTreeMap<String, Bytes>;

fn forgetful() -> Options {
    let prefixes = vec![PODS.to_owned()];
    let cold = ColdOptions { memory_bytes: 4 << 10, disk: None, prefixes, forgetful: true };
    Options { cold: Some(cold), ..Options::default() }
}

fn bytes(entry: &Entry) -> Bytes {
    entry.bytes().unwrap_or_else(|| panic!("{} is cold", entry.key)).clone()
}

async fn listed(store: &Store, at: Option<Revision>) -> Result<Model, ReadError> {
    let snapshot = match at {
        Some(revision) => store.view().list_at(PODS, revision)?,
        None => store.view().list(PODS),
    };
    let ready = store.view().ready(snapshot.iter().cloned().collect()).await?;
    Ok(ready.iter().map(|entry| entry.as_ref().unwrap()).map(|entry| (entry.name().to_owned(), bytes(entry))).collect())
}

async fn trial(log: Arc<dyn Log>, seed: u64) {
    let (system, mut rng) = (system().await, Rng::new(seed));
    let store = start_with(&system, log, forgetful()).await;
    let mut cursor = store.view().watch(PODS, Revision::ZERO, Interest::All, None).unwrap();
    let (mut model, mut history, mut cold) = (Model::new(), Vec::new(), 0);
    for step in 0..400 {
        let name = format!("p{}", rng.below(40));
        let (key, there) = (pod(&name), model.contains_key(&name));
        let write = if there && rng.percent(30) {
            Append { key, expect: Expect::Any, value: None, fence: None }
        } else {
            // Some bodies alone fill the cache, some are small.
            let data = "x".repeat(1 << rng.below(12));
            Append { key, expect: Expect::Any, value: Some(json(&name, format!("{step}{data}"))), fence: None }
        };
        let deletes = write.value.is_none();
        let entry = store.write(Write::new(write), soon()).await.unwrap();
        let kind = match (there, deletes) {
            (false, _) => EventKind::Added,
            (true, false) => EventKind::Modified,
            (true, true) => EventKind::Deleted,
        };
        if deletes {
            model.remove(&name);
        } else {
            model.insert(name.clone(), bytes(&entry));
        }
        history.push((kind, entry.revision, bytes(&entry), model.clone()));
        cold += store.view().list(PODS).iter().filter(|entry| entry.bytes().is_none()).count();
        if rng.percent(10) {
            let name = format!("p{}", rng.below(40));
            let got = store.view().get_ready(&pod(&name)).await.unwrap().map(|entry| bytes(&entry));
            assert_eq!(got.as_ref(), model.get(&name), "seed {seed}: {name}");
            assert_eq!(listed(&store, None).await.unwrap(), model, "seed {seed}");
            let (_, at, _, then) = &history[rng.below(history.len() as u64) as usize];
            assert_eq!(listed(&store, Some(*at)).await.unwrap(), *then, "seed {seed}: at {at}");
        }
    }
    assert!(cold > 1000, "seed {seed}: hardly anything was ever cold: {cold}");
    let mut received = Vec::new();
    while received.len() < history.len() {
        let batch = cursor.next_batch(64, soon()).await.unwrap();
        assert!(!batch.events.is_empty(), "seed {seed}: {} of {} events", received.len(), history.len());
        received.extend(batch.events.iter().map(|event| (event.kind, event.revision, bytes(&event.entry))));
    }
    assert!(
        received.iter().zip(&history).all(|(received, (kind, at, body, _))| *received == (*kind, *at, body.clone()))
    );
    stop(&system).await;
}

#[tokio::test]
async fn a_store_that_keeps_no_bodies_answers_as_one_that_does() {
    for seed in 0..4 {
        trial(Arc::new(MemoryLog::new()), seed).await;
        let folder = tempfile::tempdir().unwrap();
        let options = embedded::Options::new(Arc::new(|fatal| panic!("{fatal}")));
        trial(Arc::new(EmbeddedLog::open(&folder.path().join("store"), &options).unwrap()), seed).await;
    }
}

#[tokio::test]
async fn bodies_rest_when_no_window_needs_them_and_after_a_restart() {
    let (log, system) = (MemoryLog::new(), system().await);
    let cold = |name: &str| {
        let cold = forgetful().cold.map(|cold| ColdOptions { forgetful: false, memory_bytes: 1 << 20, ..cold });
        Options { cold, window_bytes: 16 << 10, name: name.to_owned(), ..Options::default() }
    };
    let resting = |store: &Store| store.view().list(PODS).iter().filter(|entry| entry.bytes().is_none()).count();
    let store = start_with(&system, Arc::new(log.clone()), cold("first")).await;
    for n in 0..100 {
        store.write(create(n, "x".repeat(1000)), soon()).await.unwrap();
    }
    assert!((60..100).contains(&resting(&store)), "{} rest, the window has room for a few", resting(&store));
    let (before, revision) = (listed(&store, None).await.unwrap(), store.view().applied());
    assert_eq!(before.len(), 100);
    // After a new load, bodies from before the window are cold, too.
    log.trim(revision).await.unwrap();
    let again = start_with(&system, Arc::new(log), cold("second")).await;
    again.view().trim(revision);
    assert_eq!(resting(&again), 100);
    assert_eq!(listed(&again, None).await.unwrap(), before);
    stop(&system).await;
}

#[tokio::test]
async fn what_memory_has_no_room_for_comes_back_from_the_disk() {
    let (folder, system) = (tempfile::tempdir().unwrap(), system().await);
    let disk = Some((folder.path().join("cache"), 64 << 20));
    let cold = forgetful().cold.map(|cold| ColdOptions { forgetful: false, memory_bytes: 64 << 10, disk, ..cold });
    let options = Options { cold, window_bytes: 16 << 10, ..Options::default() };
    let store = start_with(&system, Arc::new(MemoryLog::new()), options).await;
    for n in 0..1000 {
        store.write(create(n, "x".repeat(1000)), soon()).await.unwrap();
    }
    let all = listed(&store, None).await.unwrap();
    assert!((0..1000).all(|n| all[&n.to_string()].len() > 1000));
    stop(&system).await;
}

/// Indexes values that another program wrote in its own form.
struct Foreign;

impl Indexer for Foreign {
    fn parts(&self, key: &Key, value: &Bytes) -> EntryParts {
        Small.parts(key, value)
    }

    fn entry(&self, key: &Key, value: &Bytes, revision: Revision) -> Entry {
        let value = if value.starts_with(FOREIGN) { value.slice(FOREIGN.len()..) } else { value.clone() };
        Entry::new(key.clone(), &value, revision, self.parts(key, &value))
    }
}

const FOREIGN: &[u8] = b"k8s\0";

#[tokio::test]
async fn what_the_log_has_in_another_form_comes_back_as_it_was_read() {
    let (log, system) = (MemoryLog::new(), system().await);
    for n in 0..20 {
        let value = [FOREIGN, &json(n, "x")].concat();
        log.append(Append::create(pod(n), value.into())).await.unwrap();
    }
    let store = Store::start(&system, Arc::new(log), Arc::new(Foreign), forgetful()).await.unwrap();
    let before = listed(&store, None).await.unwrap();
    assert!(before.values().all(|bytes| bytes.starts_with(b"{")));
    store.view().trim(store.view().applied());
    assert!(store.view().list(PODS).iter().all(|entry| entry.bytes().is_none()));
    assert_eq!(listed(&store, None).await.unwrap(), before);
    stop(&system).await;
}
