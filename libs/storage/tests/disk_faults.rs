//! Tests of a failed sync and of a full disk.

use std::sync::Arc;

use bytes::Bytes;
use oarlock_storage::embedded::Options;
use oarlock_storage::testing::recording_hook;
use oarlock_storage::testing::sim_disk::SimDisk;
use oarlock_storage::{Append, EmbeddedLog, Error, Expect, Fatal, Key, Log, Outcome, Revision};

fn pod(name: impl ToString) -> Key {
    Key::namespaced("/registry/pods/", "default", &name.to_string())
}

fn put(name: impl ToString, bytes: usize) -> Append {
    Append { key: pod(name), expect: Expect::Any, value: Some(Bytes::from(vec![b'x'; bytes])), fence: None }
}

async fn state(log: &dyn Log) -> Vec<Key> {
    let mut state = std::collections::BTreeSet::new();
    log.load(&mut |piece| {
        let Some(record) = piece.record() else { return };
        match record.value {
            Some(_) => state.insert(record.key),
            None => state.remove(&record.key),
        };
    })
    .await
    .unwrap();
    state.into_iter().collect()
}

#[tokio::test]
async fn a_failed_sync_is_fatal_at_once_and_never_answered_or_retried() {
    for nth in 1..6 {
        let disk = SimDisk::new();
        let (fatal, seen) = recording_hook();
        let log = EmbeddedLog::open_on(Arc::new(disk.clone()), &Options::new(fatal)).unwrap();
        disk.fail_sync_at(nth);
        let mut answered = 0;
        loop {
            match log.append(put(answered, 100)).await {
                Ok(Outcome::Committed(_)) => answered += 1,
                Err(Error::Dead) => break,
                other => panic!("sync {nth}: unexpected answer {other:?}"),
            }
            assert!(answered < 10, "sync {nth} was never reached");
        }
        let told = seen.lock().clone();
        assert!(matches!(told.as_slice(), [Fatal::Sync(error)] if error.raw_os_error() == Some(5)), "{told:?}");
        assert!(matches!(log.append(put("later", 100)).await, Err(Error::Dead)));
        assert!(matches!(log.barrier().await, Err(Error::Dead)));
        assert!(matches!(log.trim(Revision(1)).await, Err(Error::Dead)));
        assert!(matches!(log.tail(Revision::ZERO).await, Err(Error::Dead)));
        assert!(log.health().dead);
        drop(log);
        assert_eq!(disk.operations_after_failed_sync(), 0, "sync {nth}: the disk was touched after its sync failed");
    }
}

#[tokio::test]
async fn a_full_disk_is_read_only_until_there_is_room() {
    let disk = SimDisk::new();
    disk.limit(48 << 20, 4 << 20);
    let (fatal, seen) = recording_hook();
    let log = EmbeddedLog::open_on(Arc::new(disk.clone()), &Options::new(fatal)).unwrap();
    let mut kept: Vec<(Key, Revision)> = Vec::new();
    let refused = loop {
        match log.append(put(kept.len(), 256 << 10)).await {
            Ok(Outcome::Committed(revision)) => kept.push((pod(kept.len()), revision)),
            other => break other,
        }
        assert!(kept.len() < 1000, "the disk never filled");
    };
    assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    assert!(!log.health().writable);
    let mut there = state(&log).await;
    there.sort();
    let mut wanted: Vec<Key> = kept.iter().map(|(key, _)| key.clone()).collect();
    wanted.sort();
    assert_eq!(there, wanted, "everything acknowledged is there");
    // Deletes and a trim still work and free space.
    for (key, revision) in kept.drain(..kept.len() - 4) {
        let outcome = log.append(Append::delete(key.clone(), revision)).await;
        assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{key}: {outcome:?}");
    }
    log.trim(log.health().revision).await.unwrap();
    disk.limit(96 << 20, 4 << 20);
    let outcome = log.append(put("again", 256 << 10)).await;
    assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
    assert!(log.health().writable && disk.holds_reserve());
    assert!(seen.lock().is_empty(), "a full disk is no fatal fault: {:?}", seen.lock());
}

#[tokio::test]
async fn a_disk_that_fills_in_the_middle_of_a_commit_keeps_what_it_acknowledged() {
    // The engine cannot foresee this case: free space shrinks during the write.
    for spare in 0..24 {
        let disk = SimDisk::new();
        let (fatal, seen) = recording_hook();
        disk.limit(1 << 30, 2 << 20);
        let log = EmbeddedLog::open_on(Arc::new(disk.clone()), &Options::new(fatal)).unwrap();
        let mut kept = Vec::new();
        for index in 0..8 {
            let Ok(Outcome::Committed(revision)) = log.append(put(index, 100 << 10)).await else { panic!() };
            kept.push((pod(index), revision));
        }
        disk.fill_leaving((spare * 16) << 10);
        let big = (0..40).map(|index| put(format!("big-{index}"), 60 << 10)).collect();
        let outcomes = log.append_batch(big).await;
        let landed = outcomes.iter().filter(|outcome| matches!(outcome, Ok(Outcome::Committed(_)))).count();
        let readonly = outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::ReadOnly))).count();
        assert_eq!((landed, readonly), (0, 40), "spare {spare}: {:?}", outcomes.first());
        assert_eq!(state(&log).await, kept.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), "spare {spare}");
        for (key, revision) in &kept {
            let outcome = log.append(Append::delete(key.clone(), *revision)).await;
            assert!(matches!(outcome, Ok(Outcome::Committed(_))), "spare {spare}, {key}: {outcome:?}");
        }
        assert!(!disk.holds_reserve(), "spare {spare}: the reserve was never needed");
        disk.limit(2 << 30, 2 << 20);
        assert!(matches!(log.append(put("again", 100)).await, Ok(Outcome::Committed(_))), "spare {spare}");
        assert!(seen.lock().is_empty(), "{:?}", seen.lock());
    }
}
