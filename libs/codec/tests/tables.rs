//! The cells of tables equal those of upstream's printers for the same objects: hand-made objects for every rule, and random ones.
//! Recorded by `xtask/schema/tables` from Kubernetes 1.35.0.

use std::io::Read as _;

use oarlock_codec::printers::{self, Now};
use oarlock_codec::{Mode, json};
use oarlock_meta::MicroTime;
use oarlock_schema::{Value, resources, type_of_kind};

const ROWS: &[u8] = include_bytes!("data/tables/rows.ndjson.gz");

#[test]
fn cells_equal_upstreams() {
    let mut text = String::new();
    flate2::read::GzDecoder::new(ROWS).read_to_string(&mut text).unwrap();
    let (mut rows, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        let object = &case["object"];
        let (kind, version) = (object["kind"].as_str().unwrap(), object["apiVersion"].as_str().unwrap());
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let print = match resources::resource_of_kind(group, version, kind) {
            Some(resource) => printers::printer(resource),
            None if kind == "Scale" => printers::scale_printer(),
            // Versions and kinds that a default server does not serve.
            None => continue,
        };
        // The columns show that the server does not use its printer; a stored Secret has no stringData.
        if kind == "CSIStorageCapacity" || !object["stringData"].is_null() {
            continue;
        }
        let ty = type_of_kind(group, version, kind).unwrap();
        let obj = json::decode(object.to_string().as_bytes(), ty, Mode::Lenient).unwrap().value;
        let row = print(&obj, Now(MicroTime::from_unix_micros(case["now"].as_i64().unwrap())));
        let mut cells = Vec::new();
        json::encode_value(&row.cells.into_iter().collect::<Value>(), &mut cells);
        let cells: serde_json::Value = serde_json::from_slice(&cells).unwrap();
        let completed = row.completed.map_or_else(String::new, |(reason, message)| format!("{reason}: {message}"));
        if cells != case["cells"] || completed != case["completed"].as_str().unwrap_or("") {
            wrong.push(format!("{object}\n  ours   {cells}\n  theirs {}", case["cells"]));
        }
        rows += 1;
    }
    assert!(wrong.is_empty(), "{} of {rows} rows differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(rows > 350, "only {rows} rows were compared");
}
