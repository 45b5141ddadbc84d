//! Sends the recorded cases of the admission stages (`actors/admission/tests/data/cases.jsonl`) to a whole server: a correct stage might not be
//! reached.

use oarlock_auth::UserInfo;
use oarlock_client::{Call, DeleteOptions, WriteOptions};
use oarlock_meta::Status;
use oarlock_registry::index;
use oarlock_schema::{Obj, RESOURCES, Resource, TypeRef};
use serde_json::Value;
use std::time::Duration;

use super::world::World;
use crate::call::Dispatch;
use crate::caller::Caller;
use crate::target::Target;

const CASES: &str = include_str!("../../../../admission/tests/data/cases.jsonl");

fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field].as_str().unwrap()
}

fn row(plural: &str) -> &'static Resource {
    RESOURCES.iter().find(|row| row.plural == plural).unwrap()
}

fn decoded(json: &Value, ty: TypeRef) -> Obj {
    let mut obj = index::decode(json.to_string().as_bytes(), ty).unwrap();
    oarlock_apis::default(&mut obj);
    obj
}

fn user(case: &Value) -> UserInfo {
    match text(case, "user") {
        "admin" => UserInfo::new("admin", ["system:masters"]),
        node => UserInfo::new(format!("system:node:{node}"), ["system:nodes"]),
    }
}

fn call(case: &Value, row: &'static Resource) -> Call {
    let ty = match text(case, "subresource") {
        "" | "status" => row.ty,
        name => row.subresource(name).unwrap().ty.unwrap(),
    };
    let mut body = (!case["object"].is_null()).then(|| decoded(&case["object"], ty));
    // The recorded revision belongs to another store.
    if let Some(mut meta) = body.as_mut().and_then(Obj::meta_mut) {
        meta.clear_resource_version();
    }
    match (text(case, "operation"), body) {
        ("Create", Some(body)) => Call::Create(body, WriteOptions::default()),
        ("Update", Some(body)) => Call::Update(body, WriteOptions::default()),
        ("Delete", None) => Call::Delete(DeleteOptions::default()),
        (other, _) => panic!("{other}"),
    }
}

/// Code and message of an answer. Upstream lists several errors in the random order of a Go map, so the words of a message are sorted.
fn said(code: u16, message: &str) -> (u16, Vec<&str>) {
    let mut words: Vec<&str> = message.split([' ', ',', '[', ']']).collect();
    words.sort_unstable();
    (code, words)
}

/// Returns the answer of a server with the stages and objects of a case.
async fn answer(world: &Value, case: &Value) -> Option<Status> {
    let server = World::of(oarlock_admission::table::stages).await;
    for item in world.as_array().unwrap() {
        let row = row(text(item, "resource"));
        server.store(decoded(&item["object"], row.ty), row).await;
    }
    let row = row(text(case, "resource"));
    let to_collection = text(case, "operation") == "Create" && text(case, "subresource").is_empty();
    let name = if to_collection { "" } else { text(case, "name") };
    let target = Target::new(row, text(case, "subresource"), text(case, "namespace"), name);
    let deadline = oarlock_runtime::clock::after(Duration::from_secs(60));
    let caller = Caller::new(user(case).authenticated().into(), "test/1".into(), deadline);
    Dispatch::new(&server.server, &caller).execute(&target, call(case, row)).await.err()
}

#[tokio::test(start_paused = true)]
async fn a_server_answers_as_upstream_did() {
    let (mut failures, mut count) = (Vec::new(), 0);
    for group in CASES.lines() {
        let group: Value = serde_json::from_str(group).unwrap();
        for case in group["cases"].as_array().unwrap() {
            let answer = answer(&group["world"], case).await;
            let expected = case.get("status").map(|status| {
                let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap();
                said(code, text(status, "message"))
            });
            count += 1;
            if answer.as_ref().map(|status| said(status.code, &status.message)) != expected {
                failures.push(format!("{}: expected {expected:?}, got {answer:?}", text(case, "case")));
            }
        }
    }
    // No case is left out: in each of them admission decides, and nothing before or after it.
    assert!(failures.is_empty(), "{} of {count} cases differ:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(count, 384, "cases were recorded");
}
