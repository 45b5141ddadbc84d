//! An export is the state at one revision, unaffected by later writes, and equal to a read of the log itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{Small, json, pod, soon, start_with, system};
use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::{join, join_all};
use oarlock_storage::snapshot::Object;
use oarlock_storage::{Append, Expect, Key, Log, MemoryLog, Record, Revision};
use oarlock_store::{ColdOptions, Export, Indexer, Options, Store, Write, export};

const WRITERS: usize = 8;
const WRITES: usize = 200;

fn key(n: usize) -> Key {
    match n % 3 {
        0 => pod(n),
        1 => Key::cluster("/registry/minions/", &n.to_string()),
        _ => Key::namespaced("/registry/services/specs/", "default", &n.to_string()),
    }
}

async fn write(store: &Store, writer: usize) {
    for n in 0..WRITES {
        // A few keys that all writers overwrite and delete.
        let (at, gone) = ((writer * 7 + n) % 40, n % 5 == 4);
        let value = (!gone).then(|| json(at, format!("{writer}-{n}")));
        let append = Append { key: key(at), expect: Expect::Any, value, fence: None };
        // A delete of a missing object is refused.
        assert!(store.write(Write::new(append), soon()).await.is_ok() || gone);
    }
}

async fn exported(export: Export) -> (Revision, BTreeMap<Key, Bytes>) {
    let header = export.header();
    let objects: Vec<Object> = export.objects().try_collect().await.unwrap();
    assert!(objects.is_sorted_by(|a, b| a.key < b.key), "not by key");
    assert_eq!(header.count, objects.len() as u64);
    (header.revision, objects.into_iter().map(|object| (object.key, object.value)).collect())
}

#[tokio::test]
async fn an_export_is_the_state_at_its_revision_while_writes_go_on() {
    exports_are_the_truth(None).await;
}

#[tokio::test]
async fn so_it_is_when_bodies_are_cold() {
    let prefixes = [pod("a"), key(1), key(2)].map(|key| key.resource().to_owned()).into();
    exports_are_the_truth(Some(ColdOptions { memory_bytes: 4 << 10, disk: None, prefixes, forgetful: true })).await;
}

async fn exports_are_the_truth(cold: Option<ColdOptions>) {
    let system = system().await;
    let log: Arc<dyn Log> = Arc::new(MemoryLog::new());
    let store = start_with(&system, Arc::clone(&log), Options { cold, ..Options::default() }).await;
    let export_often = async {
        let mut exports = Vec::new();
        while store.view().applied() < Revision(1000) {
            let now = store.fresh(soon()).await.unwrap();
            let export = Export::new(store.view(), now).unwrap();
            // The View applies more before the export is read.
            store
                .write(
                    Write::new(Append {
                        key: pod("clock"),
                        expect: Expect::Any,
                        value: Some(json("clock", now)),
                        fence: None,
                    }),
                    soon(),
                )
                .await
                .unwrap();
            exports.push(exported(export).await);
        }
        exports
    };
    let writers = join_all((0..WRITERS).map(|writer| write(&store, writer)));
    let (exports, _) = join(export_often, writers).await;
    assert!(exports.len() > 5, "only {} exports", exports.len());

    let mut records: Vec<Record> = Vec::new();
    log.load(&mut |piece| records.extend(piece.record())).await.unwrap();
    for (revision, objects) in &exports {
        let mut truth = BTreeMap::new();
        for record in records.iter().filter(|record| record.revision <= *revision) {
            match &record.value {
                Some(value) => truth.insert(record.key.clone(), value.clone()),
                None => truth.remove(&record.key),
            };
        }
        assert_eq!(*objects, truth, "at {revision}");
    }
    // The same export from the log alone, as if no server used it.
    let now = store.fresh(soon()).await.unwrap();
    let live = exported(Export::new(store.view(), now).unwrap()).await;
    let indexer: Arc<dyn Indexer> = Arc::new(Small);
    assert_eq!(exported(export::read(&log, &indexer).await.unwrap()).await, live);
}
