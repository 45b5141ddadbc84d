//! An object of every resource, which uses much of its type: the oracle's own.

use std::collections::BTreeMap;
use std::path::Path;

use oarlock_testkit::http::Http;
use serde_json::{Value, json};

/// The namespace of namespaced samples.
const NAMESPACE: &str = "samples";

/// A resource's collection and an object that uses much of its type: the oracle's own.
pub(crate) struct Sample {
    list: String,
    object: Value,
}

/// Makes the namespace of the samples through a server, with the account that pods need.
pub(crate) fn room(server: &Http) {
    for (path, object) in [
        ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": NAMESPACE}})),
        (format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), json!({"metadata": {"name": "default"}})),
    ] {
        let made = server.json("POST", &path, &object);
        assert_eq!(made.code, 201, "{made}");
    }
}

/// Returns a sample of every resource of the oracle's scripts that `server` serves.
pub(crate) fn all(server: &Http) -> Vec<Sample> {
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

/// Resources that store nothing, or whose sample is the same object as another's.
const NOT_KEPT: [&str; 4] = ["reviews", "bindings", "/autoscaling/v2/", "/events.k8s.io/"];

/// Makes every sample through a server, and returns the paths of those that are kept there.
pub(crate) fn make(server: &Http, samples: &[Sample], prefix: &str) -> Vec<String> {
    let mut kept = Vec::new();
    for Sample { list, object } in samples {
        let mut object = object.clone();
        let name = match list.rsplit('/').next() {
            // The names of these objects are made of their content.
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
