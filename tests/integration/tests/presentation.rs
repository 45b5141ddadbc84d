//! The form of answers over the wire: tables, metadata, encodings, compression and OpenAPI documents.

use std::io::Read as _;

use oarlock_testkit::Cluster;
use oarlock_testkit::http::{Answer, Http, Who};
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn get(http: &Http, path: &str, accept: &str) -> Answer {
    http.send("GET", path, &[("Accept", accept)], b"")
}

fn create_map(http: &Http, name: &str, size: usize) {
    let map = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(size)}});
    assert_eq!(http.json("POST", MAPS, &map).code, 201);
}

#[test]
fn every_answer_has_the_audit_id_of_its_request() {
    let cluster = Cluster::api_only();
    let long = "x".repeat(5000);
    for (who, path, code) in [
        (Who::Admin, MAPS, 200),
        (Who::Admin, "/api/v1/namespaces/default/configmaps/none", 404),
        (Who::Admin, "/no/such/path", 404),
        (Who::Admin, "/api/v1/%zz", 400),
        (Who::Anonymous, MAPS, 403),
        (Who::Anonymous, "/readyz", 200),
        (Who::Token("not-a-token".into()), MAPS, 401),
    ] {
        let http = cluster.http(who);
        for stated in ["trace-1", &long] {
            let answer = http.send("GET", path, &[("Audit-ID", stated)], b"");
            assert_eq!((answer.code, answer.header("audit-id")), (code, Some(stated)), "{path}");
        }
        let [one, other] = [http.get(path), http.send("GET", path, &[("Audit-ID", "")], b"")];
        let ids = [&one, &other].map(|answer| answer.header("audit-id").unwrap_or_default().to_owned());
        assert!(ids[0] != ids[1] && ids.iter().all(|id| id.len() == 36), "{path}: {ids:?}");
    }
}

#[test]
fn tables_hold_cells_and_what_was_asked_for_beside_them() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    create_map(&http, "a", 1);
    create_map(&http, "b", 1);

    let table = get(&http, &format!("{MAPS}?limit=1"), TABLE).json();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert!(!table["metadata"]["continue"].as_str().unwrap().is_empty());
    let names: Vec<&Value> = table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["Name", "Data", "Age"]);
    let row = &table["rows"][0];
    assert_eq!((&row["cells"][0], &row["cells"][1]), (&json!("a"), &json!(1)));
    assert_eq!(
        (&row["object"]["kind"], &row["object"]["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("a"))
    );
    assert_eq!(row["object"].get("data"), None);

    let include = |what: &str| get(&http, &format!("{MAPS}/a?includeObject={what}"), TABLE);
    assert_eq!(include("Object").json()["rows"][0]["object"]["data"]["text"], "x");
    assert_eq!(include("None").json()["rows"][0]["object"], Value::Null);
    assert_eq!(include("Everything").code, 400);
    // The Table of a kind without a printer has `null` rows, as Go's nil list.
    assert_eq!(get(&http, "/api/v1/limitranges", TABLE).json()["rows"], Value::Null);
    assert_eq!(get(&http, "/api/v1/pods", TABLE).json()["rows"], json!([]));

    let watch = format!("{MAPS}?watch=1&timeoutSeconds=2&resourceVersion=0");
    let mut events = http.open("GET", &watch, &[("Accept", TABLE)], b"").unwrap();
    let (first, second) = (events.event().unwrap(), events.event().unwrap());
    assert_eq!(first["object"]["columnDefinitions"].as_array().unwrap().len(), 3);
    assert_eq!(second["object"]["columnDefinitions"], Value::Null);
    assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
}

#[test]
fn forms_that_do_not_fit_are_not_acceptable() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let namespaces = "/api/v1/namespaces";
    let refused = |path: &str, accept: &str| {
        let answer = get(&http, path, accept);
        assert_eq!(answer.code, 406, "{path} {accept}");
        answer.json()["message"].as_str().unwrap().to_owned()
    };
    let list = "you requested PartialObjectMetadata, but the requested object is a list (*core.NamespaceList)";
    assert_eq!(refused(namespaces, METADATA), list);
    let object = "you requested PartialObjectMetadataList, but the requested object is not a list (*core.Namespace)";
    assert_eq!(refused("/api/v1/namespaces/default", METADATA_LIST), object);
    refused(namespaces, "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io");
    refused(namespaces, "application/json;as=Table;v=v2;g=meta.k8s.io");
    let watch = get(&http, "/api/v1/namespaces?watch=1", "application/yaml");
    assert_eq!((watch.code, watch.header("content-type")), (406, Some("application/yaml")));

    let list = get(&http, &format!("{namespaces}?limit=1"), METADATA_LIST).json();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["metadata"]["name"], "default");
    assert_eq!(list["items"][0].get("spec"), None);
}

#[test]
fn long_lists_are_compressed_for_those_who_take_it() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    (0..40).for_each(|i| create_map(&http, &format!("map-{i}"), 5_000));
    let plain = http.get(MAPS);
    assert_eq!((plain.code, plain.header("content-encoding")), (200, None));
    assert_eq!(plain.json()["items"].as_array().unwrap().len(), 40);
    let packed = http.send("GET", MAPS, &[("Accept-Encoding", "gzip")], b"");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(packed.body.len() < plain.body.len() / 10);
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(packed.body.as_slice()).read_to_end(&mut text).unwrap();
    assert_eq!(text, plain.body);
    let short = http.send("GET", "/api/v1/namespaces", &[("Accept-Encoding", "gzip")], b"");
    assert_eq!(short.header("content-encoding"), None);
}

#[test]
fn openapi_documents_are_found_by_hash_and_cached() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let index = http.get("/openapi/v3").json();
    let path = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let document = http.get(&path);
    assert!(document.header("cache-control").unwrap().contains("immutable"));
    assert!(document.json()["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"].is_object());
    let tag = document.header("etag").unwrap().to_owned();
    assert_eq!(http.send("GET", &path, &[("If-None-Match", &tag)], b"").code, 304);
    let stale = http.get("/openapi/v3/apis/apps/v1?hash=0");
    assert_eq!((stale.code, stale.header("location")), (301, Some(path.as_str())));
    assert_eq!(http.get("/openapi/v3/apis/nope/v1").code, 404);

    assert_eq!(http.get("/openapi/v2").json()["swagger"], "2.0");
    let dotted = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    for asked in [dotted, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"] {
        let binary = get(&http, "/openapi/v2", asked);
        assert_eq!((binary.code, binary.header("content-type")), (200, Some(dotted)));
        // Field 1 is the version.
        assert!(binary.body.starts_with(b"\x0a\x032.0"));
    }
}
