//! A damaged patch is refused with a client error, or its result is a valid object; nothing panics.

use oarlock_codec::{Mode, json};
use oarlock_patch::{PatchKind, Validation, apply_patch};
use oarlock_testkit::damaged;
use serde_json::Value as Json;

#[test]
fn damaged_patches_are_refused_or_give_sound_objects() {
    let data: Json = serde_json::from_str(include_str!("data/patches.json")).unwrap();
    let (mut applied, mut refused) = (0, 0);
    for (seed, case) in data["cases"].as_array().unwrap().iter().enumerate() {
        let current = &data["objects"][case["object"].as_str().unwrap()];
        let (version, kind) = (current["apiVersion"].as_str().unwrap(), current["kind"].as_str().unwrap());
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let ty = oarlock_schema::type_of_kind(group, version, kind).unwrap();
        let current = json::decode(current.to_string().as_bytes(), ty, Mode::Strict).unwrap().value;
        let patch = case["patch"].as_str().unwrap();
        for patch in damaged(seed as u64, patch.as_bytes(), 40) {
            for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic] {
                match apply_patch(kind, &current, &patch, Validation::Warn) {
                    Ok(patched) => {
                        applied += 1;
                        let again = json::decode(&json::encode(&patched.obj).bytes, ty, Mode::Strict).unwrap();
                        assert_eq!(again.value, patched.obj, "{}", String::from_utf8_lossy(&patch));
                    }
                    Err(status) => {
                        refused += 1;
                        // For some strategic patches upstream answers 500.
                        let known = matches!(status.code, 400 | 413 | 422) || kind == PatchKind::Strategic;
                        assert!(known, "{status:?} for {}", String::from_utf8_lossy(&patch));
                    }
                }
            }
        }
    }
    assert!(applied > 500 && refused > 5000, "{applied} applied, {refused} refused");
}
