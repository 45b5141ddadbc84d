//! Headers with the recorded answers of a kube-apiserver 1.35.0.

use super::{Endpoint, Format, Representation, Transform, input, media_type, output, stream, wants_pretty};

fn chosen(accept: &str) -> Option<(Format, Transform, &'static str)> {
    output(accept, Endpoint::BUILT_IN).ok().map(|r| (r.format, r.transform, r.version))
}

#[test]
fn picks_the_answer_as_upstream() {
    use Format::{Json, Protobuf, Yaml};
    use Transform::{Metadata, MetadataList, None as Plain, Table};
    const PB: &str = "application/vnd.kubernetes.protobuf";
    let table = "as=Table;v=v1;g=meta.k8s.io";
    for (accept, want) in [
        (String::new(), Some((Json, Plain, "v1"))),
        ("*/*".into(), Some((Json, Plain, "v1"))),
        (format!("{PB};{table}"), None),
        (format!("{PB};{table},application/json"), Some((Json, Plain, "v1"))),
        (format!("application/json;{table},{PB}"), Some((Json, Table, "v1"))),
        (format!("{PB},application/json"), Some((Protobuf, Plain, "v1"))),
        ("text/html".into(), None),
        ("application/json;q=0.1,application/yaml".into(), Some((Yaml, Plain, "v1"))),
        ("*/*;q=0.5,application/yaml;q=0.1".into(), Some((Yaml, Plain, "v1"))),
        ("application/json;as=Foo;v=v1;g=meta.k8s.io".into(), None),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io".into(), Some((Json, MetadataList, "v1"))),
        (format!("{PB};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"), Some((Protobuf, Metadata, "v1"))),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io".into(), Some((Json, Table, "v1beta1"))),
        ("application/json;as=Table;v=v2;g=meta.k8s.io".into(), None),
        ("application/json;as=Table;v=v1".into(), None),
        ("application/json;stream=watch".into(), Some((Json, Plain, "v1"))),
        ("application/json;stream=x".into(), None),
        ("application/yaml;stream=watch".into(), None),
        ("application/json;sv=1".into(), None),
        ("application/json;foo=bar".into(), Some((Json, Plain, "v1"))),
        ("application/json;as=;v=;g=".into(), Some((Json, Plain, "v1"))),
        ("application/json;q=0".into(), Some((Json, Plain, "v1"))),
        ("application".into(), None),
        ("APPLICATION/JSON".into(), None),
        (",,".into(), None),
        (" application/json , text/html".into(), Some((Json, Plain, "v1"))),
    ] {
        assert_eq!(chosen(&accept), want, "{accept}");
    }
}

#[test]
fn custom_resources_have_no_protobuf_but_their_metadata_does() {
    let only = "application/vnd.kubernetes.protobuf";
    let refused = output(only, Endpoint::CUSTOM).unwrap_err();
    assert_eq!(refused.code, 406);
    let text = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    assert_eq!(refused.message, text);
    let both = format!("{only},application/json");
    assert_eq!(output(&both, Endpoint::CUSTOM).unwrap(), Representation::JSON);
    let metadata = format!("{only};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    assert_eq!(output(&metadata, Endpoint::CUSTOM).unwrap().format, Format::Protobuf);
}

#[test]
fn yaml_cannot_be_watched_even_if_json_would_do_next() {
    for accept in ["application/yaml", "application/yaml,application/json"] {
        let refused = stream(accept, Endpoint::BUILT_IN).unwrap_err();
        let text = "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        assert_eq!(refused.message, text);
    }
    assert_eq!(stream("application/json;stream=watch", Endpoint::BUILT_IN).unwrap().format, Format::Json);
    assert_eq!(stream("", Endpoint::BUILT_IN).unwrap().format, Format::Json);
}

#[test]
fn reads_content_types_as_upstream() {
    for (header, want) in [
        ("", Some(Format::Json)),
        ("application/json", Some(Format::Json)),
        ("application/json; charset=utf-8", Some(Format::Json)),
        ("application/json; charset=\"a;\\\"b\"", Some(Format::Json)),
        ("application/json;", Some(Format::Json)),
        ("Application/JSON", Some(Format::Json)),
        (" application/json ", Some(Format::Json)),
        ("application/vnd.kubernetes.protobuf;type=x", Some(Format::Protobuf)),
        ("application/yaml", Some(Format::Yaml)),
        ("text/plain", None),
        ("application/cbor", None),
        ("application/json; charset", None),
        ("application/json; a=1; a=2", None),
        ("application / json", None),
    ] {
        assert_eq!(input(header).ok(), want, "{header}");
    }
    assert_eq!(input("text/plain").unwrap_err().code, 415);
    assert_eq!(media_type("application/merge-patch+json;x=y").as_deref(), Some("application/merge-patch+json"));
}

#[test]
fn people_get_indented_json() {
    assert!(wants_pretty(None, "curl/8.0"));
    assert!(wants_pretty(Some("true"), "kubectl/v1.35.0"));
    assert!(!wants_pretty(Some("false"), "curl/8.0"));
    assert!(!wants_pretty(None, "kubectl/v1.35.0"));
}
