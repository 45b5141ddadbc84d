//! Upstream's state in our hands, and back: over one etcd each server reads what the other wrote, exactly.

use std::collections::BTreeMap;
use std::path::Path;

use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Peer};
use serde_json::{Value, json};

use crate::swaps::programs;

const NAMESPACE: &str = "exchange";

/// A resource's collection and an object that uses much of its type: the oracle's own.
struct Sample {
    list: String,
    object: Value,
}

/// Every resource of the oracle's scripts that `server` serves.
fn samples(server: &Http) -> Vec<Sample> {
    let mut groups = BTreeMap::new();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../oracle/cases");
    let files = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut paths: Vec<_> =
        files(&scripts).filter(|path| path.is_dir()).flat_map(|folder| files(&folder).collect::<Vec<_>>()).collect();
    paths.sort();
    let script = |path: &std::path::PathBuf| -> Value {
        serde_norway::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let sample = |script: Value| {
        let (group, plural) = script["resource"].as_str()?.rsplit_once('/')?;
        let root = if group == "v1" { "/api" } else { "/apis" };
        let served = groups.entry(group.to_owned()).or_insert_with(|| server.get(&format!("{root}/{group}")).json());
        let row = served["resources"].as_array()?.iter().find(|row| row["name"] == plural)?;
        let mut object = script["full"].clone();
        let metadata = object.as_object_mut()?.entry("metadata").or_insert_with(|| json!({}));
        if metadata["name"].is_null() {
            metadata["name"] = json!("sample");
        }
        let namespace = if row["namespaced"] == true { format!("/namespaces/{NAMESPACE}") } else { String::new() };
        if !namespace.is_empty() {
            metadata["namespace"] = json!(NAMESPACE);
        }
        Some(Sample { list: format!("{root}/{group}{namespace}/{plural}"), object })
    };
    paths.iter().map(script).filter_map(sample).collect()
}

/// Resources that keep nothing, or whose sample stands for another's.
const NOT_KEPT: [&str; 4] = ["reviews", "bindings", "/autoscaling/v2/", "/events.k8s.io/"];

/// Makes every sample through a server, and returns the paths of those that are kept there.
fn make(server: &Http, samples: &[Sample], prefix: &str) -> Vec<String> {
    let mut kept = Vec::new();
    for Sample { list, object } in samples {
        let mut object = object.clone();
        let name = match list.rsplit('/').next() {
            // Names that say what is in them.
            Some("customresourcedefinitions") => format!("fulls.{prefix}.example.com"),
            Some("apiservices") => format!("v1.{prefix}.example.com"),
            Some("ipaddresses") => format!("192.0.2.{}", prefix.bytes().next().unwrap()),
            _ => format!("{prefix}{}", object["metadata"]["name"].as_str().unwrap()),
        };
        match list.rsplit('/').next() {
            Some("customresourcedefinitions" | "apiservices") => {
                object["spec"]["group"] = json!(format!("{prefix}.example.com"));
            }
            Some("events") => object["involvedObject"]["namespace"] = json!(NAMESPACE),
            _ => {}
        }
        object["metadata"]["name"] = json!(name);
        let answer = server.json("POST", list, &object);
        let own = format!("{list}/{name}");
        if answer.code == 201 && server.get(&own).code == 200 {
            kept.push(own);
        } else {
            let known = NOT_KEPT.iter().any(|part| list.contains(part));
            assert!(known, "not kept: {list}: {answer}");
        }
    }
    kept
}

#[test]
fn each_reads_what_the_other_wrote() {
    let Some(_) = programs(&["etcd", "kube-apiserver"]) else { return };
    let peer = Peer::up(&[]);
    let theirs = peer.http();
    for (path, object) in [
        ("/api/v1/namespaces", json!({"metadata": {"name": NAMESPACE}})),
        ("/api/v1/namespaces/exchange/serviceaccounts", json!({"metadata": {"name": "default"}})),
    ] {
        let made = theirs.json("POST", path, &object);
        assert_eq!(made.code, 201, "{made}");
    }
    let samples = samples(&theirs);
    let their_work = make(&theirs, &samples, "t");
    assert!(their_work.len() > 52, "{}: {their_work:?}", their_work.len());
    // Both run over the one etcd: what one writes the other sees live.
    let cluster = Cluster::up(&["--etcd-servers", &peer.etcd(), "--disable", "scheduler,controller-manager,kubelet"]);
    let ours = cluster.http(Who::Admin);
    same(&ours, &theirs, &their_work);
    let our_work = make(&ours, &samples, "o");
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
    // And alone, from the beginning.
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
    // And in a folder, where what was protobuf is as if we had written it.
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
