//! Tests that a snapshot moves between any two backends, and that revisions only rise.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use oarlock_storage::embedded::Options;
use oarlock_storage::snapshot::{Digest, Object, ReadError, RestoreError, Summary, restore};
use oarlock_storage::testing::recording_hook;
use oarlock_storage::{Append, EmbeddedLog, Error, EtcdLog, Key, Log, MemoryLog, Outcome, Revision, etcd};
use oarlock_testkit::Etcd;

const RESTORE_REVISION_GAP: u64 = 1_000;

fn pod(name: impl ToString) -> Key {
    Key::namespaced("/registry/pods/", "default", &name.to_string())
}

async fn write(log: &dyn Log, append: Append) -> Revision {
    match log.append(append).await.unwrap() {
        Outcome::Committed(revision) => revision,
        other => panic!("{other:?}"),
    }
}

/// Creates, changes and deletes objects; returns the state and the last revision.
async fn lived(log: &dyn Log) -> (Vec<Object>, Revision) {
    let mut last = Revision::ZERO;
    for n in 0..600 {
        let made = write(log, Append::create(pod(n), Bytes::from(format!("{{\"n\":{n}}}")))).await;
        last = match n % 3 {
            0 => write(log, Append::delete(pod(n), made)).await,
            1 => write(log, Append::update(pod(n), made, Bytes::from_static(b"{}"))).await,
            _ => made,
        };
    }
    (state(log).await, last)
}

async fn state(log: &dyn Log) -> Vec<Object> {
    let mut state = BTreeMap::new();
    let mut each = |piece: oarlock_storage::LoadPart| {
        let Some(record) = piece.record() else { return };
        match record.value {
            Some(value) => state.insert(record.key, (record.revision, value)),
            None => state.remove(&record.key),
        };
    };
    log.load(&mut each).await.unwrap();
    state.into_iter().map(|(key, (at, value))| Object { key, revision: Some(at), value }).collect()
}

fn summary(objects: &[Object]) -> Summary {
    let mut digest = Digest::default();
    objects.iter().for_each(|object| digest.add(&object.key, &object.value).unwrap());
    digest.finish()
}

fn all(objects: &[Object]) -> impl Stream<Item = Result<Object, ReadError>> {
    futures::stream::iter(objects.iter().cloned().map(Ok))
}

/// Restores into an empty log, and again over existing objects; each time no earlier revision is handed out again.
async fn takes(name: &str, target: Arc<dyn Log>, objects: &[Object], revision: Revision) {
    let above = Revision(revision.get() + RESTORE_REVISION_GAP);
    let now = restore(&*target, above, false, all(objects)).await.unwrap();
    assert!(now > above, "{name}: {now} after a snapshot of {revision}");
    let there = state(&*target).await;
    assert_eq!(summary(&there), summary(objects), "{name}");
    assert!(there.iter().all(|object| object.revision > Some(above)), "{name}: an object is as old as before");
    // A client that read during the restore must also be refused. From the end of the restore on no event is missed.
    let first = there.iter().filter_map(|object| object.revision).min().unwrap();
    for old in [Revision(1), revision, above, first] {
        let refused = target.tail(old).await.map(|_| ());
        assert!(matches!(refused, Err(Error::Compacted { floor }) if floor > old), "{name}: {refused:?} after {old}");
    }
    let refused = restore(&*target, above, false, all(objects)).await;
    let Err(RestoreError::NotEmpty { count, .. }) = refused else { panic!("{name}: {refused:?}") };
    assert_eq!(count, objects.len());
    // An older snapshot over a newer state: objects outside the snapshot are deleted, and revisions still rise.
    let newer = write(&*target, Append::create(pod("newer"), Bytes::from_static(b"{}"))).await;
    assert!(newer > now, "{name}: {newer} after {now}");
    let again = restore(&*target, above, true, all(objects)).await.unwrap();
    assert!(again > newer, "{name}: {again} after {newer}");
    assert_eq!(summary(&state(&*target).await), summary(objects), "{name}");
    let refused = target.tail(newer).await.map(|_| ());
    assert!(matches!(refused, Err(Error::Compacted { .. })), "{name}: {refused:?}");
}

fn embedded(folder: &tempfile::TempDir, name: &str) -> Arc<dyn Log> {
    let (fatal, _) = recording_hook();
    let options = Options { reserve_bytes: 0, ..Options::new(fatal) };
    Arc::new(EmbeddedLog::open(&folder.path().join(name), &options).unwrap())
}

async fn over(endpoints: Vec<String>, prefix: &str) -> Arc<dyn Log> {
    let (resources, prefix) = (vec!["/registry/pods/".to_owned()], prefix.to_owned());
    let options = etcd::Options { endpoints, resources, prefix, ..etcd::Options::default() };
    Arc::new(EtcdLog::open(&options).await.unwrap())
}

#[tokio::test]
async fn after_a_restore_revisions_have_risen() {
    let folder = tempfile::tempdir().unwrap();
    let source = embedded(&folder, "source");
    let (objects, revision) = lived(&*source).await;
    assert_eq!(objects.len(), 400);
    takes("memory", Arc::new(MemoryLog::new()), &objects, revision).await;
    takes("embedded", embedded(&folder, "target"), &objects, revision).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_goes_into_etcd_and_back() {
    let quick = ["--heartbeat-interval", "20", "--election-timeout", "200"];
    let cluster = tokio::task::block_in_place(|| Etcd::of("etcd", 1, false, &quick));
    let Ok(cluster) = cluster.map_err(|why| oarlock_testkit::skipped!("{why}: snapshots of etcd were not tried"))
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (objects, revision) = lived(&*embedded(&folder, "source")).await;
    takes("etcd", over(cluster.endpoints(), "").await, &objects, revision).await;
    // A log opened later continues above the restored revisions.
    let late = over(cluster.endpoints(), "").await;
    assert!(late.barrier().await.unwrap() > Revision(revision.get() + RESTORE_REVISION_GAP));
    let (back, now) = (state(&*late).await, late.barrier().await.unwrap());
    takes("embedded", embedded(&folder, "target"), &back, now).await;
    takes("etcd, elsewhere", over(cluster.endpoints(), "/elsewhere").await, &back, now).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_servers_restore_ends_the_tails_of_this_one() {
    let quick = ["--heartbeat-interval", "20", "--election-timeout", "200"];
    let cluster = tokio::task::block_in_place(|| Etcd::of("etcd", 1, false, &quick));
    let Ok(cluster) = cluster.map_err(|why| oarlock_testkit::skipped!("{why}: raised revisions were not tried")) else {
        return;
    };
    let (here, there) = (over(cluster.endpoints(), "").await, over(cluster.endpoints(), "").await);
    let made = write(&*here, Append::create(pod("a"), Bytes::from_static(b"1"))).await;
    let mut tail = here.tail(made).await.unwrap();
    there.raise(Revision(made.get() + RESTORE_REVISION_GAP)).await.unwrap();
    let ended = loop {
        match tail.next(8).await {
            Ok(batch) => assert!(batch.records.is_empty(), "{batch:?}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(ended, Error::Corrupt(_)), "{ended:?}");
    // The log fails every call until everything has been loaded again.
    assert!(here.tail(made).await.is_err());
    assert!(here.barrier().await.is_err());
    let objects = state(&*here).await;
    let at = objects[0].revision.unwrap();
    assert!(at.get() > made.get(), "{at} after {made}");
    let old = here.append(Append::update(pod("a"), made, Bytes::from_static(b"2"))).await.unwrap();
    assert!(matches!(old, Outcome::Rejected { current, .. } if current == Some(at)), "{old:?}");
    let next = write(&*here, Append::update(pod("a"), at, Bytes::from_static(b"2"))).await;
    assert!(next.get() > made.get() + RESTORE_REVISION_GAP);
    assert!(there.barrier().await.unwrap() >= next);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_older_state_of_etcd_revisions_go_on_above_the_newer() {
    let quick = ["--heartbeat-interval", "20", "--election-timeout", "200"];
    let cluster = tokio::task::block_in_place(|| Etcd::of("etcd", 1, false, &quick));
    let Ok(mut cluster) = cluster.map_err(|why| oarlock_testkit::skipped!("{why}: older states were not tried")) else {
        return;
    };
    let log = over(cluster.endpoints(), "").await;
    write(&*log, Append::create(pod("kept"), Bytes::from_static(b"1"))).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("etcd.db");
    let _said = tokio::task::block_in_place(|| cluster.ctl(0, &["snapshot", "save", file.to_str().unwrap()]));
    let mut last = Revision::ZERO;
    for n in 0..3 {
        last = write(&*log, Append::create(pod(n), Bytes::from_static(b"1"))).await;
    }
    tokio::task::block_in_place(|| cluster.restore(&file, &[]));
    // The first answers come from the older state. None may count as an answer of the newer state, however far writes move the revision meanwhile.
    let mut refused = 0;
    for n in 0..10 {
        match log.append(Append::create(pod(format!("late-{n}")), Bytes::from_static(b"1"))).await {
            Ok(Outcome::Unknown) | Err(Error::Unavailable(_)) => refused += 1,
            other => panic!("{other:?} is said of another history"),
        }
    }
    assert_eq!(refused, 10);
    assert!(log.tail(last).await.is_err());
    let there = state(&*log).await;
    assert!(there.iter().any(|object| object.key == pod("kept")) && there.iter().all(|object| object.key != pod(2)));
    assert!(there.iter().all(|object| object.revision > Some(last)), "{there:?} after {last}");
    let next = write(&*log, Append::create(pod("next"), Bytes::from_static(b"1"))).await;
    assert!(next > last, "{next} after {last}");
    let refused = log.tail(last).await.map(|_| ());
    assert!(matches!(refused, Err(Error::Compacted { .. })), "{refused:?}");
}
