//! Defaults, compared byte for byte with the objects that a live upstream server made of the same requests (`tests/record.py`).

use crate::common;
use oarlock_codec::json;
use oarlock_schema::{Obj, canonical};

/// The fields that the server sets besides defaults: identity, status, and allocated or generated values.
const SERVER_SET: &[&[&str]] = &[
    &["metadata", "uid"],
    &["metadata", "creationTimestamp"],
    &["metadata", "generation"],
    &["metadata", "resourceVersion"],
    &["status"],
    &["spec", "clusterIP"],
    &["spec", "clusterIPs"],
    &["spec", "ipFamilies"],
    &["spec", "ipFamilyPolicy"],
    &["spec", "healthCheckNodePort"],
    &["spec", "finalizers"],
];

fn obj(json: &serde_json::Value) -> Obj {
    common::obj(json).1
}

fn strip(json: &mut serde_json::Value, path: &[&str]) {
    let Some(map) = json.as_object_mut() else { return };
    match path {
        [last] => drop(map.remove(*last)),
        [first, rest @ ..] => {
            if let Some(inner) = map.get_mut(*first) {
                strip(inner, rest);
            }
        }
        [] => {}
    }
}

/// Returns the object in its stored form, without the fields that the server sets.
fn comparable(mut obj: Obj) -> String {
    canonical::canonicalize(&mut obj);
    let mut json: serde_json::Value = serde_json::from_slice(&json::encode(&obj).bytes).unwrap();
    for path in SERVER_SET {
        strip(&mut json, path);
    }
    if let Some(ports) = json.pointer_mut("/spec/ports").and_then(|p| p.as_array_mut()) {
        ports.iter_mut().for_each(|port| strip(port, &["nodePort"]));
    }
    if json["kind"] == "DaemonSet" {
        strip(&mut json, &["metadata", "annotations"]);
    }
    if json["kind"] == "Job" {
        strip(&mut json, &["spec", "selector"]);
        for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
            if let Some(labels) = json.pointer_mut(labels).and_then(|l| l.as_object_mut()) {
                labels.retain(|key, _| !key.ends_with("controller-uid") && !key.ends_with("job-name"));
            }
        }
        for meta in ["/metadata", "/spec/template/metadata"] {
            if let Some(meta) =
                json.pointer_mut(meta).filter(|m| m["labels"].as_object().is_some_and(serde_json::Map::is_empty))
            {
                strip(meta, &["labels"]);
            }
        }
    }
    serde_json::to_string_pretty(&json).unwrap()
}

#[test]
fn defaults_are_those_of_upstream() {
    let mut wrong = Vec::new();
    let lines = include_str!("data/defaults.jsonl");
    for line in lines.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let mut ours = obj(&row["request"]);
        oarlock_apis::default(&mut ours);
        oarlock_apis::DisabledFields::default().drop(&mut ours, None);
        let (ours, theirs) = (comparable(ours), comparable(obj(&row["answer"])));
        if ours != theirs {
            wrong.push(format!("{}\n{}", row["request"], difference(&ours, &theirs)));
        }
        // A complete object stays unchanged.
        let mut again = obj(&row["answer"]);
        oarlock_apis::default(&mut again);
        assert_eq!(comparable(again), theirs, "defaulted twice: {}", row["request"]);
    }
    assert!(lines.lines().count() >= 60);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n\n"));
}

fn difference(ours: &str, theirs: &str) -> String {
    let only = |a: &str, b: &str, mark: &str| -> Vec<String> {
        a.lines().filter(|l| !b.lines().any(|m| m == *l)).map(|l| format!("{mark}{l}")).collect()
    };
    [only(ours, theirs, "ours   "), only(theirs, ours, "theirs ")].concat().join("\n")
}
