//! The store over a log that loses answers, drops and delays writes, stalls, repeats and compacts: the answers that callers received are compared
//! with the log's real history, by a checker that shares no code with the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{PODS, json, pod, start, stop, system};
use bytes::Bytes;
use oarlock_runtime::{Gate, clock};
use oarlock_storage::testing::faulty::{Faults, FaultyLog};
use oarlock_storage::testing::recording::{History, RecordingLog};
use oarlock_storage::testing::rng::Rng;
use oarlock_storage::{Append, Key, MemoryLog, Revision, Value};
use oarlock_store::{Interest, Store, Write, WriteError};
use parking_lot::Mutex;

/// The outcome of one write as reported to its caller.
#[derive(Debug)]
enum Reported {
    Made(Revision),
    NotMade,
    Unknown,
}

type Calls = Arc<Mutex<Vec<(Key, Option<Value>, Reported)>>>;

const COUNTERS: u64 = 3;

/// Increments a counter by compare-and-swap, `rounds` times; sometimes deletes it.
async fn count(store: Store, writer: u64, rounds: u64, mut rng: Rng, calls: Calls) {
    for round in 0..rounds {
        let key = pod(rng.below(COUNTERS));
        let before = store.view().get(&key);
        let number = before.as_ref().map_or(0, |entry| number(entry.bytes().unwrap())) + 1;
        let value = json(key.name(), format!("{number}/{writer}/{round}"));
        let append = match &before {
            None => Append::create(key.clone(), value),
            Some(entry) if rng.percent(10) => Append::delete(key.clone(), entry.revision),
            Some(entry) => Append::update(key.clone(), entry.revision, value),
        };
        let value = append.value.clone();
        let outcome = store.write(Write::new(append), clock::after(Duration::from_secs(2))).await;
        let reported = match outcome {
            Ok(entry) => {
                assert!(store.view().applied() >= entry.revision, "read your writes");
                Reported::Made(entry.revision)
            }
            Err(WriteError::Unknown) => Reported::Unknown,
            Err(_) => Reported::NotMade,
        };
        calls.lock().push((key, value, reported));
        if rng.percent(30) {
            clock::sleep(Duration::from_millis(rng.below(5))).await;
        }
    }
}

fn number(bytes: &Bytes) -> u64 {
    let text = std::str::from_utf8(bytes).unwrap();
    let (_, data) = text.split_once(r#""data":""#).unwrap();
    data.split('/').next().unwrap().parse().unwrap()
}

/// Watches everything, listing again after a 410, and keeps the state as an informer would.
async fn inform(store: Store, seen: Arc<Mutex<BTreeMap<Key, Revision>>>, relists: Arc<AtomicU64>) {
    loop {
        let list = store.view().list(PODS);
        *seen.lock() = list.iter().map(|entry| (entry.key.clone(), entry.revision)).collect();
        let Ok(mut watch) = store.view().watch(PODS, list.revision(), Interest::All, None) else { continue };
        let mut last = list.revision();
        while let Ok(batch) = watch.next_batch(7, clock::after(Duration::from_secs(1))).await {
            let mut seen = seen.lock();
            for event in &batch.events {
                assert!(event.revision > last, "{} after {last}", event.revision);
                last = event.revision;
                let known = seen.get(&event.entry.key).copied();
                assert_eq!(known, event.prev.as_ref().map(|prev| prev.revision), "a step was skipped");
                match event.kind {
                    oarlock_store::EventKind::Deleted => seen.remove(&event.entry.key),
                    _ => seen.insert(event.entry.key.clone(), event.revision),
                };
            }
            assert!(batch.progress >= last);
        }
        relists.fetch_add(1, Ordering::Relaxed);
    }
}

/// Compares the reported outcomes with the log's history.
fn check(seed: u64, history: &History, calls: &Calls) -> BTreeMap<Key, (Revision, Value)> {
    let history = history.lock();
    let mut state: BTreeMap<Key, (Revision, Value)> = BTreeMap::new();
    let mut last = Revision::ZERO;
    for (revision, key, value) in history.iter() {
        assert!(*revision > last, "seed {seed}: revision {revision} after {last}");
        last = *revision;
        let before = state.get(key).map_or(0, |(_, value)| number(value));
        match value {
            Some(value) => {
                assert_eq!(number(value), before + 1, "seed {seed}: an update of {key} at {revision} was lost");
                state.insert(key.clone(), (*revision, value.clone()));
            }
            None => {
                state.remove(key);
            }
        }
    }
    let made = |key: &Key, value: &Option<Value>| history.iter().filter(|(_, k, v)| k == key && v == value).count();
    for (key, value, reported) in calls.lock().iter() {
        match reported {
            Reported::Made(at) => {
                let there = history.iter().any(|(revision, k, v)| revision == at && k == key && v == value);
                assert!(there, "seed {seed}: told that {key} was written at {at}, it was not");
            }
            // Deletes carry no value that would tell them apart.
            Reported::NotMade if value.is_some() => {
                assert_eq!(made(key, value), 0, "seed {seed}: told that {key} was not written, it was: {value:?}");
            }
            _ => {}
        }
    }
    state
}

#[derive(Default)]
struct Sums {
    bites: BTreeMap<&'static str, u64>,
    reported: [u64; 3],
    relists: u64,
}

async fn trial(seed: u64, sums: &mut Sums) {
    let recording = RecordingLog::new(Arc::new(MemoryLog::new()));
    let history = recording.history();
    let faulty = FaultyLog::new(Arc::new(recording), Faults::MANY, seed);
    let bites = faulty.fault_counts();
    let system = system().await;
    let store = start(&system, Arc::new(faulty.clone())).await;
    let (calls, seen, relists) = (Calls::default(), Arc::default(), Arc::new(AtomicU64::new(0)));
    let gate = Gate::new("test");
    let informer = gate.spawn("informer", inform(store.clone(), Arc::clone(&seen), Arc::clone(&relists))).unwrap();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let rng = Rng::new(seed << 8 | writer);
            gate.spawn("writer", count(store.clone(), writer, 25, rng, Arc::clone(&calls))).unwrap()
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    faulty.calm();
    let fresh = loop {
        if let Ok(revision) = store.fresh(clock::after(Duration::from_secs(5))).await {
            break revision;
        }
    };
    let state = check(seed, &history, &calls);
    let list = store.view().list(PODS);
    assert!(list.revision() >= fresh);
    let got: BTreeMap<Key, Revision> = list.iter().map(|entry| (entry.key.clone(), entry.revision)).collect();
    let wanted: BTreeMap<Key, Revision> = state.iter().map(|(key, (revision, _))| (key.clone(), *revision)).collect();
    assert_eq!(got, wanted, "seed {seed}: the view is not what the log has");
    clock::sleep(Duration::from_secs(2)).await;
    assert_eq!(*seen.lock(), wanted, "seed {seed}: the informer is not where the log is");
    assert!(!informer.is_finished(), "seed {seed}: the informer failed");
    for (what, count) in bites.all() {
        *sums.bites.entry(what).or_default() += count;
    }
    for (_, _, reported) in calls.lock().iter() {
        sums.reported[match reported {
            Reported::Made(_) => 0,
            Reported::NotMade => 1,
            Reported::Unknown => 2,
        }] += 1;
    }
    sums.relists += relists.load(Ordering::Relaxed);
    informer.abort();
    stop(&system).await;
}

#[tokio::test(start_paused = true)]
async fn callers_are_told_the_truth_over_a_faulty_log() {
    let mut sums = Sums::default();
    for seed in 0..60 {
        trial(seed, &mut sums).await;
    }
    let [made, not, unknown] = sums.reported;
    println!("{made} made, {not} not made, {unknown} unknown, {} relists, faults {:?}", sums.relists, sums.bites);
    assert!(sums.bites.values().all(|bites| *bites > 20), "a fault that never struck proves nothing: {:?}", sums.bites);
    assert!(made > 1000 && not > 500 && sums.relists > 10, "too little happened");
    assert!(unknown < made / 4, "lost answers are mostly found again: {unknown} of {made}");
}
