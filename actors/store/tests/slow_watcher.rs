//! A watcher that reads nothing for 30 s under 5,000 writes a second then gets every event, or exactly one 410; memory stays within the window all
//! the time, and a second watcher that keeps reading misses nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{PODS, pod, put, soon, start_with, stop, system};
use oarlock_runtime::clock;
use oarlock_storage::{MemoryLog, Revision};
use oarlock_store::{Interest, Options, WatchCursor};

const SECONDS: u64 = 30;
const RATE: u64 = 5_000;
const PER_TICK: u64 = 50;

/// How far the window may be exceeded, in bytes: one commit's worth.
const SLACK: usize = 1 << 20;

struct Tally {
    events: u64,
    last: Revision,
    gone: u64,
}

fn drain(cursor: &mut WatchCursor, tally: &mut Tally) {
    loop {
        match cursor.take(512) {
            Ok(batch) if batch.events.is_empty() => return,
            Ok(batch) => {
                for event in batch.events {
                    assert_eq!(event.revision, tally.last.next(), "an event is missing or came twice");
                    tally.last = event.revision;
                    tally.events += 1;
                }
            }
            Err(_) => {
                tally.gone += 1;
                return;
            }
        }
    }
}

/// Runs the writes with one watcher that sleeps and one that reads; returns what the sleeping one received afterwards.
async fn run(window_bytes: usize) -> Tally {
    let system = system().await;
    let store = start_with(&system, Arc::new(MemoryLog::new()), Options { window_bytes, ..Options::default() }).await;
    let watch = || store.view().watch(PODS, Revision::ZERO, Interest::All, None).unwrap();
    let (mut sleeper, mut reader) = (watch(), watch());
    let mut quick = Tally { events: 0, last: Revision::ZERO, gone: 0 };
    let began = clock::now();
    let mut written = 0;
    for tick in 0..SECONDS * RATE / PER_TICK {
        let writes = (0..PER_TICK).map(|n| store.write(put(n % 20, tick), soon()));
        for outcome in futures::future::join_all(writes).await {
            outcome.unwrap();
            written += 1;
        }
        drain(&mut reader, &mut quick);
        let held = store.view().window_bytes();
        assert!(held <= window_bytes + SLACK, "{held} bytes held, {window_bytes} allowed");
        clock::sleep_until(began + Duration::from_millis((tick + 1) * PER_TICK * 1000 / RATE)).await;
    }
    assert!(began.elapsed() >= Duration::from_secs(SECONDS));
    assert_eq!((written, quick.events, quick.gone), (SECONDS * RATE, SECONDS * RATE, 0), "the reader missed something");
    let mut slow = Tally { events: 0, last: Revision::ZERO, gone: 0 };
    drain(&mut sleeper, &mut slow);
    if slow.gone > 0 {
        // A second call fails, too; a new list and watch works.
        assert!(sleeper.take(1).is_err());
        let list = store.view().list(PODS);
        let mut again = store.view().watch(PODS, list.revision(), Interest::All, None).unwrap();
        let next = store.write(put("after", 1), soon()).await.unwrap();
        assert_eq!(again.take(9).unwrap().events[0].revision, next.revision);
        assert!(store.view().get(&pod("after")).is_some());
    }
    stop(&system).await;
    slow
}

#[tokio::test(start_paused = true)]
async fn overtaken_it_gets_exactly_one_gone() {
    let slow = run(4 << 20).await;
    assert_eq!((slow.events, slow.gone), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn inside_the_window_it_gets_every_event() {
    let slow = run(1 << 30).await;
    assert_eq!((slow.events, slow.gone), (SECONDS * RATE, 0));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_sleepers_cost_what_one_costs() {
    let system = system().await;
    let window_bytes = 2 << 20;
    let store = start_with(&system, Arc::new(MemoryLog::new()), Options { window_bytes, ..Options::default() }).await;
    let watch = |n: u64| {
        let interest = match n % 4 {
            0 => Interest::All,
            1 => Interest::Namespace("default".into()),
            2 => Interest::Object { namespace: "default".into(), name: (n % 20).to_string().into() },
            _ => Interest::Field { field: "metadata.name".into(), value: (n % 20).to_string().into() },
        };
        store.view().watch(PODS, Revision::ZERO, interest, None).unwrap()
    };
    let mut sleepers: Vec<WatchCursor> = (0..1000).map(watch).collect();
    for n in 0..20_000 {
        store.write(put(n % 20, n), soon()).await.unwrap();
        if n % 1000 == 0 {
            let held = store.view().window_bytes();
            assert!(held <= window_bytes + SLACK, "{held} bytes held, {window_bytes} allowed");
        }
    }
    for sleeper in &mut sleepers {
        assert!(sleeper.take(1).is_err());
    }
    stop(&system).await;
}
