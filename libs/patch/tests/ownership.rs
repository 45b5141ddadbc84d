//! Server-side apply and ownership against recorded answers of a kube-apiserver (`data/apply.json` describes the recording).
//!
//! Each step starts from the recorded object, so that one difference does not affect the following steps. Defaulting and admission are outside this crate: for
//! writes other than apply the recorded result is the new object, and only the owners are compared.

use oarlock_codec::{Mode, json};
use oarlock_meta::Time;
use oarlock_patch::Validation;
use oarlock_patch::apply::{Versions, Writer, apply, track_create, track_update};
use oarlock_schema::{Obj, TypeRef, Value, resource_of_kind};
use serde_json::Value as Json;

fn type_of(object: &Json) -> TypeRef {
    let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    oarlock_schema::type_of_kind(group, version, kind).unwrap()
}

fn typed(object: &Json) -> Obj {
    let bytes = serde_json::to_vec(object).unwrap();
    json::decode(&bytes, type_of(object), Mode::Strict).unwrap().value
}

fn text(obj: &Obj) -> String {
    String::from_utf8(json::encode(obj).bytes).unwrap()
}

fn owners(obj: &Obj) -> String {
    let mut out = Vec::new();
    for item in obj.at(&["metadata", "managedFields"]).map_or(&[][..], Value::items) {
        json::encode_value(item, &mut out);
        out.push(b'\n');
    }
    String::from_utf8(out).unwrap()
}

/// Returns the time of the step: the newest time among the resulting owners, or later than all if no owner is new.
fn moment(step: &Json) -> Time {
    let times = |object: &Json| -> Vec<Time> {
        let rows = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        rows.iter().filter_map(|row| Time::parse(row["time"].as_str()?).ok()).collect()
    };
    times(&step["result"]).into_iter().max().unwrap_or(Time::from_unix(4_000_000_000))
}

fn without_owners(obj: &Obj) -> Obj {
    let mut bare = obj.clone();
    let meta = bare.get_mut("metadata").and_then(Value::as_struct_mut).unwrap();
    for name in ["managedFields", "resourceVersion", "generation"] {
        meta.remove_name(name);
    }
    bare
}

/// Removes the fields that defaulting may add to the result of an apply.
fn without_defaulted(value: &mut Value) {
    const DEFAULTED: [&str; 6] =
        ["imagePullPolicy", "protocol", "replicas", "targetPort", "terminationMessagePath", "terminationMessagePolicy"];
    match value {
        Value::Struct(node) => {
            node.retain(|def, _| !DEFAULTED.contains(&def.name));
            node.iter_mut().for_each(|(_, value)| without_defaulted(value));
        }
        Value::List(items) => items.iter_mut().for_each(without_defaulted),
        _ => {}
    }
}

fn comparable(obj: &Obj) -> String {
    let mut value = Value::Struct(without_owners(obj).into_root());
    without_defaulted(&mut value);
    let mut out = Vec::new();
    json::encode_value(&value, &mut out);
    String::from_utf8(out).unwrap()
}

/// Sorts causes and schema errors, which upstream lists in the random order of Go's maps.
fn ordered(status: &Json) -> Json {
    let mut status = status.clone();
    if let Some(causes) = status.pointer_mut("/details/causes").and_then(Json::as_array_mut) {
        causes.sort_by_key(ToString::to_string);
    }
    if let Some(message) = status.get_mut("message")
        && let Some((head, list)) = message.as_str().unwrap().split_once("errors:\n")
    {
        let mut lines: Vec<&str> = list.lines().collect();
        lines.sort_unstable();
        *message = format!("{head}errors: {}", lines.join("; ")).into();
    }
    status
}

#[test]
fn owners_and_merges_are_upstreams() {
    let data: Json = serde_json::from_str(include_str!("data/apply.json")).unwrap();
    let steps = data["steps"].as_array().unwrap();
    let mut wrong = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let field = |name: &str| step[name].as_str().unwrap_or_default();
        let (op, subresource) = (field("op"), field("subresource"));
        let live = (!step["live"].is_null()).then(|| typed(&step["live"]));
        let result = (!step["result"].is_null()).then(|| typed(&step["result"]));
        let ty = live.as_ref().or(result.as_ref()).unwrap().ty();
        let gvk = ty.gvk.unwrap();
        let resource = resource_of_kind(gvk.group, gvk.version, gvk.kind).unwrap();
        let reset = resource.reset.iter().find(|(name, _)| *name == subresource).map_or(&[][..], |(_, paths)| *paths);
        let version = resource.group_version();
        let writer = Writer {
            manager: field("manager"),
            api_version: &version,
            subresource,
            reset,
            now: moment(step),
            versions: Versions::ONE,
        };
        let name = format!("step {i}: {op} {} {subresource} {}", writer.manager, field("config"));
        match op {
            "apply" => {
                let validation = match field("validation") {
                    "Strict" => Validation::Strict,
                    "Ignore" => Validation::Ignore,
                    _ => Validation::Warn,
                };
                let force = step["force"].as_bool().unwrap();
                let done = apply(live.as_ref(), ty, field("config").as_bytes(), &writer, force, validation);
                match (done, &result) {
                    (Ok(done), Some(want)) => {
                        if owners(&done.obj) != owners(want) {
                            wrong.push(format!("{name}\n   got {}\n  want {}", owners(&done.obj), owners(want)));
                        }
                        let (got, want) = (comparable(&done.obj), comparable(want));
                        if live.is_some() && got != want {
                            wrong.push(format!("{name}\n   got {got}\n  want {want}"));
                        }
                        let warnings: Vec<String> = step["warnings"].as_array().map_or_else(Vec::new, |all| {
                            all.iter().map(|one| one.as_str().unwrap().replace("\\\"", "\"")).collect()
                        });
                        if done.warnings != warnings {
                            wrong.push(format!("{name}\n   got {:?}\n  want {warnings:?}", done.warnings));
                        }
                    }
                    (Ok(done), None) => {
                        wrong.push(format!("{name}\n   got {}\n  want {}", text(&done.obj), step["status"]))
                    }
                    (Err(status), _) => {
                        let got: Json = serde_json::from_slice(&status.to_json()).unwrap();
                        if ordered(&got) != ordered(&step["status"]) {
                            wrong.push(format!("{name}\n   got {got}\n  want {}", step["status"]));
                        }
                    }
                }
            }
            "create" => {
                let want = result.unwrap();
                let mut new = without_owners(&want);
                track_create(&mut new, &writer);
                if owners(&new) != owners(&want) {
                    wrong.push(format!("{name}\n   got {}\n  want {}", owners(&new), owners(&want)));
                }
            }
            _ => {
                let Some(want) = result else { continue };
                let mut new = want.clone();
                let sent: Json = if op == "update" {
                    step["sent"].clone()
                } else {
                    step["live"]["metadata"]["managedFields"].clone()
                };
                let mut bare = step["result"].clone();
                bare["metadata"]["managedFields"] = sent;
                if bare["metadata"]["managedFields"].is_null() {
                    bare["metadata"].as_object_mut().unwrap().remove("managedFields");
                }
                new.clone_from(&typed(&bare));
                track_update(&live.unwrap(), &mut new, &writer);
                if owners(&new) != owners(&want) {
                    wrong.push(format!("{name}\n   got {}\n  want {}", owners(&new), owners(&want)));
                }
            }
        }
    }
    assert!(steps.len() > 50);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), steps.len(), wrong.join("\n"));
}

#[test]
fn who_writes_an_empty_list_owns_it_and_who_leaves_it_out_does_not() {
    let ty = oarlock_schema::type_of_kind("", "v1", "LimitRange").unwrap();
    let writer = Writer {
        manager: "m",
        api_version: "v1",
        subresource: "",
        reset: &[],
        now: Time::from_unix(0),
        versions: Versions::ONE,
    };
    for (spec, owned) in [(r#"{"limits":[]}"#, true), ("{}", false), (r#"{"limits":null}"#, false)] {
        let text = format!(r#"{{"apiVersion":"v1","kind":"LimitRange","metadata":{{"name":"a"}},"spec":{spec}}}"#);
        let mut obj = json::decode(text.as_bytes(), ty, Mode::Strict).unwrap().value;
        track_create(&mut obj, &writer);
        let fields = obj.at(&["metadata", "managedFields"]).is_some();
        assert_eq!(fields, owned, "{spec}");
        oarlock_schema::canonical::canonicalize(&mut obj);
        assert_eq!(obj.at(&["spec", "limits"]), Some(&Value::Null), "{spec}");
    }
}
