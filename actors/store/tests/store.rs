//! The store as its callers use it: answers, conflicts, durability before visibility, restarts, disk faults.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{PODS, create, json, pod, put, soon, start, start_with, stop, system};
use oarlock_runtime::clock;
use oarlock_storage::embedded;
use oarlock_storage::testing::faulty::{Faults, FaultyLog};
use oarlock_storage::testing::gated::GatedLog;
use oarlock_storage::testing::recording_hook;
use oarlock_storage::testing::sim_disk::SimDisk;
use oarlock_storage::{Append, Cause, EmbeddedLog, Expect, Fatal, Fence, Key, Log, MemoryLog, Outcome, Revision};
use oarlock_store::{EventKind, Interest, Options, ReadError, Write, WriteError};

#[tokio::test(start_paused = true)]
async fn a_write_is_answered_with_what_readers_see() {
    let system = system().await;
    let store = start(&system, Arc::new(MemoryLog::new())).await;
    let made = store.write(create("a", 1), soon()).await.unwrap();
    assert_eq!(
        made.bytes().unwrap(),
        &bytes::Bytes::from(r#"{"metadata":{"name":"a","resourceVersion":"1","uid":"u-a"},"data":"1"}"#)
    );
    assert!(Arc::ptr_eq(&made, &store.view().get(&pod("a")).unwrap()), "the very same entry");
    let clash = store.write(create("a", 2), soon()).await.unwrap_err();
    assert!(
        matches!(clash, WriteError::Conflict { index: 0, current: Some(Revision(1)), cause: Cause::Head }),
        "{clash:?}"
    );
    let gone = store.write(Write::new(Append::delete(pod("a"), made.revision)), soon()).await.unwrap();
    assert_eq!(gone.revision, Revision(2));
    assert!(gone.bytes().unwrap().windows(21).any(|window| window == br#""resourceVersion":"2""#), "{gone:?}");
    assert!(store.view().get(&pod("a")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_answered_when_its_winner_can_be_read() {
    let system = system().await;
    let store = start(&system, Arc::new(MemoryLog::new())).await;
    let writes = (0..50).map(|n| store.write(create("same", n), soon()));
    let mut winners = 0;
    for outcome in futures::future::join_all(writes).await {
        match outcome {
            Ok(_) => winners += 1,
            Err(WriteError::Conflict { current: Some(current), .. }) => assert!(store.view().applied() >= current),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(winners, 1);
}

#[tokio::test(start_paused = true)]
async fn a_group_is_answered_entry_by_entry() {
    let system = system().await;
    let store = start(&system, Arc::new(MemoryLog::new())).await;
    let address = Key::cluster("/registry/ipaddresses/", "10.0.0.1");
    let group = vec![create("a", 1), Write::new(Append::create(address.clone(), json("ip", 1)))];
    let entries = store.write_atomic(group, soon()).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>(), [pod("a"), address.clone()]);
    let group = vec![create("b", 1), Write::new(Append::create(address, json("ip", 1)))];
    let clash = store.write_atomic(group, soon()).await.unwrap_err();
    assert!(matches!(clash, WriteError::Conflict { index: 1, current: Some(Revision(2)), .. }), "{clash:?}");
    assert!(store.view().get(&pod("b")).is_none());
}

#[tokio::test(start_paused = true)]
async fn nobody_sees_a_write_before_it_is_durable() {
    let system = system().await;
    let log = GatedLog::new(Arc::new(MemoryLog::new()));
    let (gate, arrived) = (log.gate(), log.arrived());
    let store = start(&system, Arc::new(log)).await;
    let mut watch = store.view().watch(PODS, Revision::ZERO, Interest::All, None).unwrap();
    let mut write = Box::pin(store.write(create("a", 1), soon()));
    // The commit has begun and waits for its disk.
    tokio::select! {
        biased;
        answer = &mut write => panic!("answered before it was durable: {answer:?}"),
        permit = arrived.acquire() => permit.unwrap().forget(),
    }
    for _ in 0..20 {
        tokio::task::yield_now().await;
        assert!(store.view().get(&pod("a")).is_none(), "read before it was durable");
        assert!(store.view().list(PODS).is_empty(), "listed before it was durable");
        assert_eq!(store.view().applied(), Revision::ZERO);
        assert!(watch.take(9).unwrap().events.is_empty(), "watched before it was durable");
    }
    gate.add_permits(1);
    let made = write.await.unwrap();
    assert_eq!(watch.take(9).unwrap().events[0].revision, made.revision);
}

#[tokio::test(start_paused = true)]
async fn most_recent_reads_share_barriers_that_began_after_they_arrived() {
    let system = system().await;
    let log = Arc::new(GatedLog::of_barriers(Arc::new(MemoryLog::new())));
    let gate = log.barrier_gate().unwrap();
    let store = start(&system, Arc::clone(&log) as _).await;
    let mut first = Box::pin(store.fresh(soon()));
    assert!(futures::poll!(&mut first).is_pending());
    assert_eq!(log.barriers(), 1);
    let made = store.write(create("a", 1), soon()).await.unwrap();
    let mut later: Vec<_> = (0..100).map(|_| Box::pin(store.fresh(soon()))).collect();
    for read in &mut later {
        assert!(futures::poll!(read).is_pending(), "a barrier that began before the read does not serve it");
    }
    assert_eq!(log.barriers(), 1, "one runs, one waits");
    gate.add_permits(1);
    first.await.unwrap();
    for read in &mut later {
        assert!(futures::poll!(read).is_pending());
    }
    gate.add_permits(1);
    for read in later {
        assert!(read.await.unwrap() >= made.revision);
    }
    assert_eq!(log.barriers(), 2);
}

#[tokio::test]
async fn a_restart_finds_everything_and_a_warm_window() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let open = || {
        let (fatal, _) = recording_hook();
        Arc::new(EmbeddedLog::open(&path, &embedded::Options::new(fatal)).unwrap())
    };
    let before = {
        let system = system().await;
        let log = open();
        let store = start(&system, Arc::clone(&log) as Arc<dyn Log>).await;
        // More records than one batch of the initial load, with a state and a history, and long values among short ones.
        for some in 0..6 {
            let long = "x".repeat(if some % 2 == 0 { 10_000 } else { 1 });
            let writes = (0..200).map(|n| store.write(put(n % 50, &long), soon()));
            for outcome in futures::future::join_all(writes).await {
                outcome.unwrap();
            }
        }
        log.trim(Revision(500)).await.unwrap();
        let gone = store.view().get(&pod(7)).unwrap();
        store.write(Write::new(Append::delete(pod(7), gone.revision)), soon()).await.unwrap();
        let list = store.view().list(PODS);
        store.stop(soon()).await;
        stop(&system).await;
        list
    };
    let system = system().await;
    let store = start(&system, open()).await;
    let after = store.view().list(PODS);
    assert_eq!((before.revision(), before.len()), (after.revision(), after.len()));
    for (a, b) in before.iter().zip(after.iter()) {
        assert_eq!((&a.key, a.revision, a.bytes()), (&b.key, b.revision, b.bytes()));
    }
    // A watcher from before the restart continues at its position.
    let mut watch = store.view().watch(PODS, Revision(600), Interest::All, None).unwrap();
    let events = watch.take(1000).unwrap().events;
    assert_eq!(events.len() as u64, after.revision().get() - 600);
    assert!(store.view().watch(PODS, Revision(450), Interest::All, None).is_err(), "this is forgotten");
    assert_eq!(events.last().unwrap().kind, EventKind::Deleted);
    assert_eq!(store.view().list_at(PODS, Revision(700)).unwrap().len(), 50);
    assert!(store.write(put("next", 1), soon()).await.unwrap().revision > before.revision());
    stop(&system).await;
}

#[tokio::test]
async fn a_failed_sync_answers_nobody_ever() {
    let disk = SimDisk::new();
    let (fatal, seen) = recording_hook();
    let log = EmbeddedLog::open_on(Arc::new(disk.clone()), &embedded::Options::new(fatal)).unwrap();
    let system = system().await;
    let store = start(&system, Arc::new(log)).await;
    store.write(create("before", 1), soon()).await.unwrap();
    disk.fail_sync_at(1);
    let patience = clock::after(Duration::from_secs(3));
    let writes = (0..20).map(|n| store.write(create(n, 1), patience));
    for outcome in futures::future::join_all(writes).await {
        assert!(matches!(outcome, Err(WriteError::Unknown)), "{outcome:?}");
        assert!(patience.passed(), "answered although nobody knows");
    }
    assert!(matches!(seen.lock().as_slice(), [Fatal::Sync(_)]), "{:?}", seen.lock());
    assert_eq!(store.view().list(PODS).len(), 1, "what is not durable is not seen");
}

#[tokio::test]
async fn a_full_disk_is_said_and_deletes_go_on() {
    let disk = SimDisk::new();
    disk.limit(32 << 20, 4 << 20);
    let (fatal, _) = recording_hook();
    let log = EmbeddedLog::open_on(Arc::new(disk.clone()), &embedded::Options::new(fatal)).unwrap();
    let system = system().await;
    let store = start(&system, Arc::new(log)).await;
    let big = "x".repeat(500_000);
    let mut kept = Vec::new();
    let refused = loop {
        match store.write(create(kept.len(), &big), soon()).await {
            Ok(entry) => kept.push(entry),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, WriteError::Log(oarlock_storage::Error::ReadOnly)), "{refused:?}");
    assert_eq!(store.view().list(PODS).len(), kept.len());
    for entry in kept {
        store.write(Write::new(Append::delete(entry.key.clone(), entry.revision)), soon()).await.unwrap();
    }
    disk.limit(256 << 20, 4 << 20);
    store.write(create("again", 1), soon()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn history_older_than_the_window_is_compacted() {
    let system = system().await;
    let options =
        Options { window: Duration::from_secs(60), compact_every: Duration::from_secs(1), ..Options::default() };
    let store = start_with(&system, Arc::new(MemoryLog::new()), options).await;
    for n in 0..100 {
        store.write(put("a", n), soon()).await.unwrap();
        clock::sleep(Duration::from_secs(1)).await;
    }
    let floor = store.view().floor(PODS).get();
    assert!((35..=42).contains(&floor), "floor {floor} after 100 s with a window of 60 s");
    assert!(store.view().watch(PODS, Revision(floor - 1), Interest::All, None).is_err());
    assert!(store.view().list_at(PODS, Revision(floor + 1)).is_ok());
    let health = store.health();
    assert!(health.floor.get() >= 35 && health.history_bytes < 70 * 100, "{health:?}");
}

/// A resource that is written while another one is quiet.
fn lease(n: u64) -> Write {
    let key = Key::namespaced("/registry/leases/", "default", "busy");
    Write::new(Append { key, expect: Expect::Any, value: Some(json("busy", n)), fence: None })
}

#[tokio::test(start_paused = true)]
async fn exact_reads_of_a_quiet_resource_end_with_the_window_and_its_watches_do_not() {
    let system = system().await;
    let options =
        Options { window: Duration::from_secs(60), compact_every: Duration::from_secs(1), ..Options::default() };
    let store = start_with(&system, Arc::new(MemoryLog::new()), options).await;
    let quiet = store.write(create("a", 1), soon()).await.unwrap().revision;
    for n in 0..100 {
        let written = store.write(lease(n), soon()).await.unwrap().revision;
        let read = store.view().list_at(PODS, quiet);
        match n {
            0..=58 => assert_eq!(read.unwrap().len(), 1, "after {n} s"),
            63.. => {
                assert!(matches!(read, Err(ReadError::Expired { floor }) if floor > quiet), "after {n} s: {read:?}")
            }
            _ => {}
        }
        assert_eq!(store.view().list_at(PODS, written).unwrap().len(), 1, "the present is readable");
        clock::sleep(Duration::from_secs(1)).await;
    }
    assert!(store.view().watch(PODS, quiet, Interest::All, None).is_ok(), "no event of a pod is lost");
    assert!(store.view().list_at("/registry/never-written/", quiet).is_err(), "all resources are compacted at once");
}

#[tokio::test(start_paused = true)]
async fn a_compaction_by_another_process_ends_exact_reads_too() {
    let system = system().await;
    let log = Arc::new(MemoryLog::new());
    let every = Duration::from_secs(1);
    let mut stores = Vec::new();
    for (name, window) in [("compacts", Duration::from_secs(60)), ("never-compacts", Duration::ZERO)] {
        let log = FaultyLog::new(Arc::clone(&log) as Arc<dyn Log>, Faults::default(), 1);
        let options = Options { window, compact_every: every, name: name.to_owned(), ..Options::default() };
        stores.push(start_with(&system, Arc::new(log), options).await);
    }
    let quiet = stores[0].write(create("a", 1), soon()).await.unwrap().revision;
    for n in 0..50 {
        stores[1].write(lease(n), soon()).await.unwrap();
        clock::sleep(every).await;
    }
    for store in &stores {
        assert_eq!(store.view().list_at(PODS, quiet).unwrap().len(), 1);
    }
    for n in 0..20 {
        stores[1].write(lease(n), soon()).await.unwrap();
        clock::sleep(every).await;
    }
    for store in &stores {
        let read = store.view().list_at(PODS, quiet);
        assert!(matches!(read, Err(ReadError::Expired { .. })), "{read:?}");
        assert!(store.view().watch(PODS, quiet, Interest::All, None).is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_window_nothing_is_given_up_for_its_age() {
    let system = system().await;
    let options = Options { window: Duration::ZERO, ..Options::default() };
    let store = start_with(&system, Arc::new(MemoryLog::new()), options).await;
    let first = store.write(create("a", 1), soon()).await.unwrap().revision;
    for n in 0..100 {
        store.write(put("a", n), soon()).await.unwrap();
        clock::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(store.health().floor, Revision::ZERO);
    assert!(store.view().watch(PODS, first, Interest::All, None).is_ok());
    assert_eq!(store.view().list_at(PODS, first).unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_says_so_and_writes_nothing() {
    let system = system().await;
    let log = GatedLog::new(Arc::new(MemoryLog::new()));
    let gate = log.gate();
    let store = start(&system, Arc::new(log)).await;
    let patience = clock::after(Duration::from_secs(1));
    let writes = (0..6000).map(|n| store.write(create(n, 1), patience));
    let outcomes = futures::future::join_all(writes).await;
    let overloaded = outcomes.iter().filter(|outcome| matches!(outcome, Err(WriteError::Overloaded))).count();
    let unknown = outcomes.iter().filter(|outcome| matches!(outcome, Err(WriteError::Unknown))).count();
    assert_eq!(overloaded + unknown, 6000);
    assert!((800..2000).contains(&overloaded), "{overloaded} of 6000 refused");
    gate.add_permits(100);
    store.write(create("later", 1), soon()).await.unwrap();
    assert!(store.view().list(PODS).len() <= 6001 - overloaded);
}

/// How often the state is loaded again while a reader runs: on a busy machine the reader may get no processor during one reload.
const RELOADS: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_shows_no_older_state() {
    let system = system().await;
    let log = Arc::new(GatedLog::of_tails(Arc::new(MemoryLog::new())));
    let store = start(&system, Arc::clone(&log) as _).await;
    for n in 0..3000 {
        store.write(put("a", n), soon()).await.unwrap();
    }
    let last = store.view().applied();
    // The reader runs as long as the test holds this, however the test ends.
    let running = Arc::new(());
    let (view, wanted) = (store.view().clone(), Arc::clone(&running));
    let (looks_now, looking) = tokio::sync::oneshot::channel();
    let reader = tokio::task::spawn_blocking(move || {
        let (mut looks, mut looks_now) = (0_u64, Some(looks_now));
        while Arc::strong_count(&wanted) > 1 {
            let seen = view.get(&pod("a")).map(|entry| entry.revision);
            assert_eq!(seen, Some(last), "after {looks} looks, applied {}", view.applied());
            looks += 1;
            looks_now.take().map(|looks_now| looks_now.send(()));
        }
    });
    looking.await.unwrap();
    for n in 0..RELOADS {
        // An acknowledged write has arrived by the tail, so that a tail exists to be broken.
        store.write(put("b", n), soon()).await.unwrap();
        let mut watch = store.view().watch(PODS, store.view().applied(), Interest::All, None).unwrap();
        log.break_tails();
        let gone = watch.next_batch(1, soon()).await;
        assert!(gone.is_err(), "the view is not loaded again: {gone:?}");
    }
    drop(running);
    reader.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_delete_is_acknowledged_to_one_caller() {
    let system = system().await;
    let inner = MemoryLog::new();
    let Outcome::Committed(made) = inner.append(Append::create(pod("a"), json("a", 1))).await.unwrap() else {
        panic!()
    };
    let faults = Faults { lose_answer: 0, drop: 100, late: 0, refuse: 0, stall: 0, repeat: 0, compact: 0 };
    let faulty = FaultyLog::new(Arc::new(inner), faults, 1);
    let store = start(&system, Arc::new(faulty.clone())).await;
    let delete = || Write::new(Append::delete(pod("a"), made));
    let mut lost = Box::pin(store.write(delete(), soon()));
    while faulty.fault_counts().dropped.load(std::sync::atomic::Ordering::Relaxed) == 0 {
        assert!(futures::poll!(&mut lost).is_pending());
        tokio::task::yield_now().await;
    }
    faulty.calm();
    store.write(delete(), soon()).await.unwrap();
    let lost = lost.await;
    assert!(matches!(lost, Err(WriteError::Unknown)), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_lost_is_not_found_in_that_of_the_claims_next_holder() {
    let system = system().await;
    let (inner, claim) = (MemoryLog::new(), Key::new("/registry/oarlock.dev/assignments", "u"));
    let mut made = Vec::new();
    for key in [pod("a"), claim.clone()] {
        let Outcome::Committed(at) = inner.append(Append::create(key, json("a", 1))).await.unwrap() else { panic!() };
        made.push(at);
    }
    let faults = Faults { lose_answer: 0, drop: 100, late: 0, refuse: 0, stall: 0, repeat: 0, compact: 0 };
    let faulty = FaultyLog::new(Arc::new(inner), faults, 1);
    let store = start(&system, Arc::new(faulty.clone())).await;
    let write = |epoch| {
        let append = Append::update(pod("a"), made[0], json("a", 2));
        Write::new(append.fenced(Fence { key: claim.clone(), at: epoch }))
    };
    let mut lost = Box::pin(store.write(write(made[1]), soon()));
    while faulty.fault_counts().dropped.load(std::sync::atomic::Ordering::Relaxed) == 0 {
        assert!(futures::poll!(&mut lost).is_pending());
        tokio::task::yield_now().await;
    }
    faulty.calm();
    let moves = Write::new(Append::update(claim.clone(), made[1], json("a", 2)));
    let epoch = store.write(moves, soon()).await.unwrap().revision;
    store.write(write(epoch), soon()).await.unwrap();
    let lost = lost.await;
    assert!(matches!(lost, Err(WriteError::Conflict { cause: Cause::Fence, .. })), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_lost_does_not_keep_its_caller_for_all_the_time_it_has() {
    let system = system().await;
    let faults = Faults { lose_answer: 0, drop: 100, late: 0, refuse: 0, stall: 0, repeat: 0, compact: 0 };
    let store = start(&system, Arc::new(FaultyLog::new(Arc::new(MemoryLog::new()), faults, 1))).await;
    let began = clock::now();
    let lost = store.write(create("a", 1), clock::after(Duration::from_secs(600))).await;
    assert!(matches!(lost, Err(WriteError::Unknown)), "{lost:?}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}
