//! Classic patches against recorded answers of a kube-apiserver (`data/patches.json` describes the recording).

use oarlock_codec::{Mode, json};
use oarlock_patch::{PatchKind, Validation, apply_patch};
use oarlock_schema::{Obj, TypeRef, Value};
use serde_json::Value as Json;

fn typed(object: &Json) -> Obj {
    let bytes = serde_json::to_vec(object).unwrap();
    json::decode(&bytes, type_of(object), Mode::Strict).unwrap().value
}

fn type_of(object: &Json) -> TypeRef {
    let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    oarlock_schema::type_of_kind(group, version, kind).unwrap()
}

fn text(obj: &Obj) -> String {
    String::from_utf8(json::encode(obj).bytes).unwrap()
}

/// Removes two deliberate differences from an error's texts. The patched document that upstream shows holds the stored object's field
/// sets and byte order. And upstream decodes the result of a strategic patch with a converter whose texts (`unrecognized
/// type: int32`) say less than those of the JSON decoder, which Oarlock uses for every patch.
fn comparable(status: &Json, kind: PatchKind) -> Json {
    let mut status = status.clone();
    let cut = |text: &str| match (kind, text.find("Invalid value: \""), text.rfind("\": ")) {
        (PatchKind::Strategic, Some(_), Some(end)) if !text.contains("strict decoding") => text[..end].to_owned(),
        (PatchKind::Json | PatchKind::Merge, Some(start), Some(end)) => text[..start].to_owned() + &text[end..],
        _ => text.to_owned(),
    };
    status["message"] = cut(status["message"].as_str().unwrap()).into();
    if let Some(message) = status.pointer_mut("/details/causes/0/message") {
        *message = cut(message.as_str().unwrap()).into();
    }
    status
}

#[test]
fn patches_do_what_upstream_does() {
    let data: Json = serde_json::from_str(include_str!("data/patches.json")).unwrap();
    let mut wrong = Vec::new();
    let cases = data["cases"].as_array().unwrap();
    for case in cases {
        let current = typed(&data["objects"][case["object"].as_str().unwrap()]);
        let kind = match case["type"].as_str().unwrap() {
            "json" => PatchKind::Json,
            "merge" => PatchKind::Merge,
            _ => PatchKind::Strategic,
        };
        let validation = match case["validation"].as_str().unwrap() {
            "Strict" => Validation::Strict,
            "Warn" => Validation::Warn,
            _ => Validation::Ignore,
        };
        let patch = match case["patch"].as_str().unwrap() {
            "@10001 tests" => {
                let one = r#"{"op":"test","path":"/data/a","value":"1"}"#;
                format!("[{}]", vec![one; 10_001].join(","))
            }
            patch => patch.to_owned(),
        };
        let name = format!("{} {} {validation:?} {}", case["object"], case["type"], &patch[..patch.len().min(300)]);
        match apply_patch(kind, &current, patch.as_bytes(), validation) {
            Ok(mut patched) if case["code"] == 200 => {
                // The recording holds upstream's stored form.
                oarlock_schema::canonical::canonicalize(&mut patched.obj);
                let (got, want) = (text(&patched.obj), text(&typed(&case["result"])));
                if got != want {
                    wrong.push(format!("{name}\n   got {got}\n  want {want}"));
                }
                let want: Vec<Value> = case["warnings"].as_array().map_or_else(Vec::new, |all| {
                    all.iter().map(|one| Value::from(one.as_str().unwrap().replace("\\\"", "\""))).collect()
                });
                let got: Vec<Value> = patched.warnings.iter().map(|one| Value::from(one.as_str())).collect();
                if got != want {
                    wrong.push(format!("{name}\n   got {got:?}\n  want {want:?}"));
                }
            }
            Ok(patched) => {
                let text = text(&patched.obj);
                wrong.push(format!("{name}\n   got {text}\n  want {}", case["status"]));
            }
            Err(status) => {
                let got: Json = serde_json::from_slice(&status.to_json()).unwrap();
                if comparable(&got, kind) != comparable(&case["status"], kind) {
                    wrong.push(format!("{name}\n   got {got}\n  want {} {}", case["status"], case["result"]));
                }
            }
        }
    }
    assert!(cases.len() > 50);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
