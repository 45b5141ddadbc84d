//! The stages against the recorded answers of a live v1.35.0 kube-apiserver to the same requests in the same state (tests/data/cases.jsonl: one state
//! and its requests per line). Only admission's answers were recorded; validation has its own tests.

use crate::common::{Ask, World, decode, encode, resource};
use oarlock_admission::Operation;
use serde_json::{Value, json};

const CASES: &str = include_str!("data/cases.jsonl");

fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field].as_str().unwrap()
}

/// Removes the random part of the token volume's name.
fn without_random(value: &Value) -> Value {
    let text = value.to_string();
    let mut parts = text.split("kube-api-access-");
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let known = part.starts_with("own");
        out = format!("{out}kube-api-access-{}", if known { part } else { &part[5..] });
    }
    serde_json::from_str(&out).unwrap()
}

/// Sorts several errors, which upstream lists in the random order of a Go map.
fn in_order(status: &Value) -> Value {
    let mut status = status.clone();
    let message = status["message"].as_str().unwrap().to_owned();
    if let Some((head, list)) = message.split_once(": [") {
        let mut parts: Vec<&str> = list.trim_end_matches(']').split(", ").collect();
        parts.sort_unstable();
        status["message"] = json!(format!("{head}: [{}]", parts.join(", ")));
    }
    status
}

async fn run(world: &World, case: &Value) -> Result<(), String> {
    let resource = resource(text(case, "resource"));
    let subresource = text(case, "subresource");
    let ty = match subresource {
        "" | "status" => resource.ty,
        name => resource.subresource(name).unwrap().ty.unwrap(),
    };
    let operation = match text(case, "operation") {
        "Create" => Operation::Create,
        "Update" => Operation::Update,
        _ => Operation::Delete,
    };
    let node = text(case, "user") != "admin";
    let user = if node { format!("system:node:{}", text(case, "user")) } else { "admin".to_owned() };
    let groups = if node { vec!["system:nodes".to_owned()] } else { Vec::new() };
    let (namespace, name) = (text(case, "namespace"), text(case, "name"));
    let ask = Ask { operation, resource, subresource, namespace, name, user: &user, groups: &groups };
    let old = (!case["old"].is_null()).then(|| decode(&case["old"], resource.ty));
    let object = (!case["object"].is_null()).then(|| decode(&case["object"], ty));
    let answer = world.ask(&ask, object, old.as_ref()).await;
    match (answer, case.get("status")) {
        (Err(status), Some(expected)) => {
            let status: Value = serde_json::from_slice(&status.to_json()).unwrap();
            if in_order(&status) == in_order(expected) {
                Ok(())
            } else {
                Err(format!("expected {expected}, got {status}"))
            }
        }
        (Ok(_), Some(expected)) => Err(format!("expected {expected}, was admitted")),
        (Err(status), None) => Err(format!("expected to be admitted, got {status}")),
        (Ok(admitted), None) => {
            let object = admitted.object.as_ref().map_or(Value::Null, encode);
            for (path, expected) in case["shown"].as_object().unwrap() {
                let have = path.split('.').fold(&object, |node, name| node.get(name).unwrap_or(&Value::Null));
                let (have, expected) = (without_random(have), without_random(expected));
                if have != expected {
                    return Err(format!("{path}: expected {expected}, got {have}"));
                }
            }
            Ok(())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn answers_as_upstream_did() {
    let (mut failures, mut count) = (Vec::new(), 0);
    for group in CASES.lines() {
        let group: Value = serde_json::from_str(group).unwrap();
        let world = World::new();
        for item in group["world"].as_array().unwrap() {
            world.put(item["resource"].as_str().unwrap(), &item["object"]);
        }
        for case in group["cases"].as_array().unwrap() {
            count += 1;
            if let Err(why) = run(&world, case).await {
                failures.push(format!("{}: {why}", case["case"]));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} cases differ:\n{}", failures.len(), failures.join("\n"));
    assert!(count >= 340, "only {count} cases were run");
}

#[tokio::test(start_paused = true)]
async fn waits_for_the_default_account_until_it_is_made() {
    let world = World::new();
    world.put("namespaces", &json!({"metadata": {"name": "n"}}));
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut create = Box::pin(world.create("pods", "n", &pod));
    tokio::select! {
        biased;
        answer = &mut create => panic!("answered before there is an account: {answer:?}"),
        () = std::future::ready(()) => {}
    }
    world.put("serviceaccounts", &json!({"metadata": {"name": "default", "namespace": "n"}}));
    let admitted = create.await.unwrap().object.unwrap();
    assert_eq!(encode(&admitted)["spec"]["serviceAccountName"], "default");
}
