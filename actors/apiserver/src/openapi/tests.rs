//! Compares the documents with facts of a live server: `facts.json.gz` holds the types and operations of the OpenAPI documents of a kube-apiserver
//! 1.35.0, without their prose.

use std::collections::BTreeMap;
use std::io::Read as _;

use http_body_util::BodyExt as _;
use oarlock_schema::resources::GROUPS;
use serde_json::{Map, Value as Json};

use super::*;

fn facts() -> Json {
    let mut text = String::new();
    let packed: &[u8] = include_bytes!("tests/facts.json.gz");
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the documents of upstream's groups.
fn documents() -> impl Iterator<Item = Json> {
    let upstreams = GROUPS.iter().filter(|(group, _)| *group != "oarlock.dev");
    upstreams.flat_map(|(group, versions)| versions.iter().map(|version| v3::document(group, version)))
}

/// Normalizes a schema: a wrapped reference equals a plain one, and the order of required names has no meaning.
fn plain(schema: &mut Json) {
    match schema {
        Json::Object(map) => {
            if let Some(Json::Array(all)) = map.get("allOf") {
                let reference = all[0]["$ref"].clone();
                map.remove("allOf");
                map.insert("$ref".into(), reference);
            }
            if let Some(Json::Array(required)) = map.get_mut("required") {
                required.sort_by_key(Json::to_string);
            }
            map.values_mut().for_each(plain);
        }
        Json::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

/// Reports where two schemas differ. Ours may call a list atomic that upstream leaves unmarked, which means the same.
fn compare(at: &str, ours: &Json, theirs: &Json, out: &mut Vec<String>) {
    match (ours, theirs) {
        (Json::Object(a), Json::Object(b)) => {
            let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let (a, b) = (a.get(name), b.get(name));
                if name == "x-kubernetes-list-type" && b.is_none() && a == Some(&Json::from("atomic")) {
                    continue;
                }
                compare(&format!("{at}.{name}"), a.unwrap_or(&Json::Null), b.unwrap_or(&Json::Null), out);
            }
        }
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{at}: ours {a}, theirs {b}")),
    }
}

#[test]
fn types_equal_those_of_a_live_server() {
    let theirs = facts();
    let mut ours: Map<String, Json> = Map::new();
    for document in documents() {
        ours.extend(document["components"]["schemas"].as_object().unwrap().clone());
    }
    for schema in ours.values_mut() {
        plain(schema);
        let kinds = &mut schema["x-kubernetes-group-version-kind"];
        // Upstream's schema also names versions that a default server does not serve.
        if kinds.as_array().is_some_and(|kinds| kinds.len() > 1) {
            *kinds = "all".into();
        } else if kinds.is_null() {
            schema.as_object_mut().unwrap().remove("x-kubernetes-group-version-kind");
        }
    }
    let mut wrong = Vec::new();
    compare("", &Json::Object(ours), &theirs["schemas"], &mut wrong);
    // The enumeration of a map's values, which the schema facts do not contain.
    wrong.retain(|text| !text.contains("allocatedResourceStatuses.additionalProperties.enum"));
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn operations_equal_those_of_a_live_server() {
    let theirs: BTreeMap<String, Vec<String>> = serde_json::from_value(facts()["operations"].clone()).unwrap();
    let mut ours = BTreeMap::new();
    for document in documents() {
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, op) in item.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters") {
                ours.insert(format!("{method} {path}"), summary(item, op));
            }
        }
    }
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    for (name, ours) in &ours {
        assert_eq!(ours, &theirs[name], "{name}");
    }
}

fn summary(item: &Json, op: &Json) -> Vec<String> {
    let list = |json: &Json| json.as_array().cloned().unwrap_or_default();
    let text = |json: &Json| json.as_str().unwrap().to_owned();
    let keys = |json: &Json| json.as_object().map_or_else(Vec::new, |m| m.keys().cloned().collect::<Vec<_>>());
    let kind = &op["x-kubernetes-group-version-kind"];
    let mut parameters: Vec<String> = list(&op["parameters"])
        .iter()
        .chain(&list(&item["parameters"]))
        .map(|p| format!("{}:{}", text(&p["name"]), text(&p["schema"]["type"])))
        .collect();
    parameters.sort();
    let responses = op["responses"].as_object().unwrap();
    vec![
        text(&op["operationId"]),
        text(&op["x-kubernetes-action"]),
        format!("{}/{}/{}", text(&kind["group"]), text(&kind["version"]), text(&kind["kind"])),
        parameters.join(" "),
        keys(&op["requestBody"]["content"]).join(" "),
        responses
            .iter()
            .map(|(code, r)| format!("{code}={}", keys(&r["content"]).join(",")))
            .collect::<Vec<_>>()
            .join(" "),
    ]
}

#[test]
fn a_stored_document_is_the_document() {
    let document = v3::document("apps", "v1").to_string();
    let stored = stored::Stored::new(document.as_bytes());
    let whole = futures::executor::block_on(stored.unpack().collect()).unwrap().to_bytes();
    assert_eq!(whole, document.as_bytes());
    assert_eq!(stored.hash.len(), 128);
}

#[test]
fn the_index_leads_to_every_group_and_version() {
    let index: Json = serde_json::from_str(&v3::index()).unwrap();
    let paths = index["paths"].as_object().unwrap();
    assert_eq!(paths.len(), GROUPS.iter().map(|(_, versions)| versions.len()).sum::<usize>());
    assert!(paths["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().starts_with("/openapi/v3/apis/apps/v1?hash="));
}

/// Writes the documents to a directory that the environment names, for other tools.
#[test]
fn documents_can_be_written_out() {
    let Ok(place) = std::env::var("OARLOCK_OPENAPI_DUMP") else { return };
    for (group, versions) in GROUPS {
        for version in *versions {
            std::fs::write(format!("{place}/{group}_{version}.json"), v3::document(group, version).to_string())
                .unwrap();
        }
    }
    std::fs::write(format!("{place}/v2.json"), v2::document().to_string()).unwrap();
    std::fs::write(format!("{place}/v2.pb"), gnostic::encode(&v2::document())).unwrap();
}
