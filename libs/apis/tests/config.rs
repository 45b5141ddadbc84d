//! ConfigMaps and Secrets; each text is a v1.35.0 server's.

use base64::Engine as _;
use serde_json::{Value, json};

use crate::common;

fn causes(object: &Value) -> Vec<String> {
    let (resource, mut obj) = common::obj(object);
    oarlock_apis::default(&mut obj);
    oarlock_apis::validate(resource, &obj).iter().map(|error| format!("{}: {}", error.field, error.body())).collect()
}

#[test]
fn the_values_of_a_config_map_have_a_limit_together() {
    let map = |each: usize| {
        let text = "x".repeat(each);
        let data = json!({"a": text, "b": text});
        causes(
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": data}),
        )
    };
    assert_eq!(map(512 * 1024), Vec::<String>::new());
    assert_eq!(map(512 * 1024 + 1), ["[]: Too long: may not be more than 1048576 bytes"]);
}

#[test]
fn registry_credentials_are_refused_in_the_words_of_gos_parser() {
    for (text, why) in [
        ("{}", None),
        ("null", None),
        ("nonsense", Some("invalid character 'o' in literal null (expecting 'u')")),
        (r#"{"a" 1}"#, Some("invalid character '1' after object key")),
        ("[1]", Some("json: cannot unmarshal array into Go value of type map[string]interface {}")),
        (r#"{"a":1"#, Some("unexpected end of JSON input")),
        ("", Some("unexpected end of JSON input")),
        ("{} x", Some("invalid character 'x' after top-level value")),
    ] {
        let data = json!({".dockercfg": base64::engine::general_purpose::STANDARD.encode(text)});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"},
            "type": "kubernetes.io/dockercfg", "data": data});
        let wanted = why.map(|why| format!("data[.dockercfg]: Invalid value: \"<secret contents redacted>\": {why}"));
        assert_eq!(causes(&secret), wanted.into_iter().collect::<Vec<_>>(), "{text}");
    }
}
