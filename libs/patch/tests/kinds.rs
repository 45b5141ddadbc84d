//! Patches that name another kind or version, against answers of kube-apiserver 1.35.

use oarlock_codec::{Mode, json};
use oarlock_patch::{PatchKind, Validation, apply_patch};
use oarlock_schema::{Obj, type_of_kind};

fn config() -> Obj {
    let body = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"y"}}"#;
    json::decode(body, type_of_kind("", "v1", "ConfigMap").unwrap(), Mode::Lenient).unwrap().value
}

#[test]
fn a_patch_that_names_another_kind_or_version_is_refused_unless_it_is_strategic() {
    let unregistered = |kind: &str, version: &str| {
        format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\"")
    };
    for (patch, why) in [
        (r#"{"kind":"Secret"}"#, "illegal base64 data at input byte 0".to_owned()),
        (r#"{"kind":"Secret","data":null}"#, "converting (v1.Secret) to (core.ConfigMap): unknown conversion".to_owned()),
        (r#"{"kind":"Foo"}"#, unregistered("Foo", "v1")),
        (r#"{"apiVersion":"v2"}"#, unregistered("ConfigMap", "v2")),
        (r#"{"apiVersion":"apps/v1"}"#, unregistered("ConfigMap", "apps/v1")),
        (r#"{"apiVersion":"a/b/c"}"#, "unexpected GroupVersion string: a/b/c".to_owned()),
        (
            r#"{"kind":7}"#,
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string".to_owned(),
        ),
    ] {
        let refused = apply_patch(PatchKind::Merge, &config(), patch.as_bytes(), Validation::Warn).unwrap_err();
        assert_eq!(refused.code, 422, "{patch}");
        assert!(refused.message.ends_with(&format!(": {why}")), "{patch}: {}", refused.message);
        if !patch.contains('7') {
            let kept = apply_patch(PatchKind::Strategic, &config(), patch.as_bytes(), Validation::Warn).unwrap().obj;
            let text = |name: &str| kept.at(&[name]).and_then(|value| value.as_str().map(str::to_owned));
            assert_eq!((text("kind").as_deref(), text("apiVersion").as_deref()), (Some("ConfigMap"), Some("v1")));
        }
    }
    let json = br#"[{"op":"replace","path":"/kind","value":"Foo"}]"#;
    assert_eq!(apply_patch(PatchKind::Json, &config(), json, Validation::Warn).unwrap_err().code, 422);
    for fine in [r#"{"kind":null}"#, r#"{"kind":""}"#, r#"{"kind":"ConfigMap","apiVersion":"v1"}"#] {
        assert!(apply_patch(PatchKind::Merge, &config(), fine.as_bytes(), Validation::Warn).is_ok(), "{fine}");
    }
}
