//! Expiry in virtual time: due objects are deleted, rewritten ones kept; objects older than the expirer count too.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{PODS, create, pod, put, soon, start, system};
use jiff::{SignedDuration, Timestamp};
use oarlock_runtime::clock;
use oarlock_storage::MemoryLog;
use oarlock_store::{Entry, expirer};

/// The `data` of an object is the second at which it expires; `never` means no expiry.
fn expiry(entry: &Entry) -> Option<Timestamp> {
    let text = std::str::from_utf8(entry.bytes()?).ok()?;
    let (_, data) = text.split_once(r#""data":""#)?;
    Timestamp::from_second(data.split('"').next()?.parse().ok()?).ok()
}

fn at(seconds: i64) -> i64 {
    (clock::wall() + SignedDuration::from_secs(seconds)).as_second()
}

#[tokio::test(start_paused = true)]
async fn objects_go_when_they_are_due_and_not_before() {
    clock::Clock::starting_at(Timestamp::from_second(1_800_000_000).unwrap()).install();
    let system = system().await;
    let store = start(&system, Arc::new(MemoryLog::new())).await;
    store.write(create("early", at(10)), soon()).await.unwrap();
    store.write(create("touched", at(10)), soon()).await.unwrap();
    store.write(create("never", "never"), soon()).await.unwrap();
    expirer::start(&system, store.clone(), PODS, Arc::new(expiry)).await.unwrap();
    for n in 0..300 {
        store.write(create(format!("many-{n}"), at(60)), soon()).await.unwrap();
    }
    clock::sleep(Duration::from_secs(5)).await;
    store.write(put("touched", at(100)), soon()).await.unwrap();
    clock::sleep(Duration::from_secs(4)).await;
    assert!(store.view().get(&pod("early")).is_some(), "not before its time");
    clock::sleep(Duration::from_secs(3)).await;
    assert!(store.view().get(&pod("early")).is_none());
    assert!(store.view().get(&pod("touched")).is_some(), "it was written again");
    clock::sleep(Duration::from_secs(52)).await;
    assert_eq!(store.view().list(PODS).len(), 2);
    clock::sleep(Duration::from_secs(60)).await;
    assert!(store.view().get(&pod("touched")).is_none());
    assert!(store.view().get(&pod("never")).is_some());
}
