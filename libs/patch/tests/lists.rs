//! The order of merged lists against upstream's libraries (`data/lists.json` describes the recording).

use oarlock_codec::{Mode, json};
use oarlock_meta::Time;
use oarlock_patch::apply::{Versions, Writer, apply};
use oarlock_patch::{PatchKind, Validation, apply_patch};
use oarlock_schema::{Obj, type_of_kind};
use serde_json::Value as Json;

fn typed(object: &Json) -> Obj {
    let ty = type_of_kind("", "v1", "Pod").unwrap();
    json::decode(object.to_string().as_bytes(), ty, Mode::Lenient).unwrap().value
}

fn text(obj: &Obj) -> String {
    String::from_utf8(json::encode(obj).bytes).unwrap()
}

#[test]
fn random_lists_merge_into_upstreams_order() {
    let data: Json = serde_json::from_str(include_str!("data/lists.json")).unwrap();
    let rows = data["rows"].as_array().unwrap();
    let mut wrong = Vec::new();
    for row in rows {
        let (live, patch) = (typed(&row["live"]), row["patch"].to_string());
        let got = if row["kind"] == "strategic" {
            apply_patch(PatchKind::Strategic, &live, patch.as_bytes(), Validation::Ignore).map(|done| done.obj)
        } else {
            let writer = Writer {
                manager: "m",
                api_version: "v1",
                subresource: "",
                reset: &[],
                now: Time::from_unix(0),
                versions: Versions::ONE,
            };
            apply(Some(&live), live.ty(), patch.as_bytes(), &writer, true, Validation::Ignore).map(|done| {
                let mut obj = done.obj;
                obj.get_mut("metadata").and_then(|meta| meta.as_struct_mut()).unwrap().remove_name("managedFields");
                obj
            })
        };
        match got {
            Ok(got) if row["out"].is_object() && text(&got) == text(&typed(&row["out"])) => {}
            Ok(got) => wrong.push(format!("{row}\n   got {}", text(&got))),
            Err(status) if row["err"] == status.message.as_str() => {}
            Err(status) => wrong.push(format!("{row}\n   got {status}")),
        }
    }
    assert!(rows.len() > 300);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
