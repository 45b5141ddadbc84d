//! Ours and upstream's API server over one etcd: each reads exactly what the other wrote.

use std::collections::BTreeMap;

use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Peer};
use serde_json::Value;

use crate::samples;
use crate::swaps::programs;

#[test]
fn each_reads_what_the_other_wrote() {
    let Some(_) = programs(&["etcd", "kube-apiserver"]) else { return };
    let peer = Peer::up(&[]);
    let theirs = peer.http();
    samples::room(&theirs);
    let samples = samples::all(&theirs);
    let their_work = samples::make(&theirs, &samples, "t");
    assert!(their_work.len() > 52, "{}: {their_work:?}", their_work.len());
    // Upstream's server and ours run over one etcd: the writes of each are live on the other.
    let cluster = Cluster::up(&["--etcd-servers", &peer.etcd(), "--disable", "scheduler,controller-manager,kubelet"]);
    let ours = cluster.http(Who::Admin);
    same(&ours, &theirs, &their_work);
    let our_work = samples::make(&ours, &samples, "o");
    assert_eq!(our_work.len(), their_work.len(), "{our_work:?}");
    same(&theirs, &ours, &our_work);
    for path in their_work.iter().chain(&our_work) {
        let merge = [("Content-Type", "application/merge-patch+json")];
        let change = br#"{"metadata":{"labels":{"exchanged":"yes"}}}"#;
        let writer = if their_work.contains(path) { &ours } else { &theirs };
        let changed = writer.send("PATCH", path, &merge, change);
        assert_eq!(changed.code, 200, "{path}: {changed}");
    }
    same(&ours, &theirs, &their_work);
    same(&theirs, &ours, &our_work);
    // Then our server runs alone from a fresh start.
    peer.end("kube-apiserver");
    let mut alone = cluster;
    alone.kill();
    alone.start();
    let ours = alone.http(Who::Admin);
    let objects = |server: &Http| -> BTreeMap<String, Value> {
        their_work.iter().chain(&our_work).map(|path| (path.clone(), server.get(path).json())).collect()
    };
    let before = objects(&ours);
    for (path, object) in &before {
        assert_eq!(object["metadata"]["labels"]["exchanged"], "yes", "{path}");
    }
    // Then the state is moved into a folder, where objects that upstream stored as protobuf are as if our server had written them.
    assert_eq!(alone.stop(), Some(0));
    let store = format!("embedded:{}", alone.data_dir().root().join("store").display());
    let words = ["migrate", "--from", "etcd", "--etcd-servers", &peer.etcd(), "--to", &store];
    let moved = crate::snapshots::snapshot(&words).ok();
    assert!(moved.out.contains("restored"), "{moved}");
    alone.from_now_on(&["--disable", "scheduler,controller-manager,kubelet"]);
    alone.start();
    let after = objects(&alone.http(Who::Admin));
    for (path, mut was) in before {
        let mut is = after[&path].clone();
        for object in [&mut was, &mut is] {
            assert!(
                object["metadata"].as_object_mut().unwrap().remove("resourceVersion").is_some(),
                "{path}: {object}"
            );
        }
        assert_eq!(is, was, "{path}");
    }
}

/// Both show the same under every path; controllers in the background may still change some.
fn same(one: &Http, other: &Http, paths: &[String]) {
    eventually("both servers show the same", || {
        let differing = |path: &&String| {
            let (one, other) = (one.get(path).json(), other.get(path).json());
            (one != other).then(|| format!("{path}\n  {one}\n  {other}"))
        };
        paths.iter().find_map(|path| differing(&path)).map_or(Ok(()), Err)
    });
}
