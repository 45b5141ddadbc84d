//! Damaged input never makes a decoder panic, and every decoded object encodes to something that decodes to the same object.
//!
//! A bounded run with fixed seeds over mutations of real bodies, in every encoding.

use oarlock_codec::negotiate::{self, Endpoint};
use oarlock_codec::{Mode, json, protobuf, tree, yaml};
use oarlock_schema::{Obj, TypeRef, Value, type_named};
use oarlock_testkit::{damaged, damaged_text};
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

const POD: &str = include_str!("data/pod.json");
const CRD: &str = r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"foos.x.io","managedFields":[{"manager":"m","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"k:{\"a\":1}":{}}}}]},"spec":{"group":"x.io","names":{"plural":"foos","kind":"Foo"},"versions":[{"name":"v1","served":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"a":{"minimum":0.5,"default":{"z":[1,2.50]},"enum":["x",1e3]},"b":{"items":[{"type":"string"}],"additionalProperties":false,"dependencies":{"q":["a"],"r":{"type":"object"}}}}}}}]}}"#;
const SECRET: &str = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","creationTimestamp":"2026-01-02T03:04:05Z"},"data":{"a":"AAECAw==","b":""},"type":"Opaque"}"#;
const SERVICE_YAML: &str = "kind: Service\napiVersion: v1\nmetadata:\n  name: web\n  labels: &l {app: web, \"on\": 'yes'}\nspec:\n  selector:\n    <<: *l\n    tier: |\n      a\n      b\n  ports:\n  - port: 80\n    targetPort: http\n  - {port: 0x1F90, name: >-\n      x}\n";

fn ty(name: &str) -> TypeRef {
    type_named(name).unwrap()
}

fn seeds() -> [(TypeRef, &'static str); 3] {
    [(ty("core/v1.Pod"), POD), (ty("apiextensions/v1.CustomResourceDefinition"), CRD), (ty("core/v1.Secret"), SECRET)]
}

/// Checks that an object is the same after encoding and decoding.
fn round_trips(obj: &Obj) {
    let bytes = json::encode(obj);
    let again = json::decode(&bytes.bytes, obj.ty(), Mode::Strict).unwrap();
    assert_eq!(again.findings, []);
    assert_eq!(&again.value, obj);
    assert_eq!(json::splice_offset(&bytes.bytes), bytes.splice, "{}", String::from_utf8_lossy(&bytes.bytes));
    let wire = protobuf::encode(obj);
    let read = protobuf::decode(&wire, obj.ty()).unwrap().value;
    assert_eq!(protobuf::encode(&read), wire);
}

#[test]
fn damaged_json_is_refused_or_read_soundly() {
    let mut read = 0;
    for (ty, seed) in seeds() {
        for body in damaged(1, seed.as_bytes(), 3000) {
            let _ = json::peek_gvk(&body);
            let _ = json::splice_offset(&body);
            let strict = json::decode(&body, ty, Mode::Strict);
            let lenient = json::decode(&body, ty, Mode::Lenient);
            match (strict, lenient) {
                (Ok(a), Ok(b)) => {
                    assert_eq!(a.value, b.value);
                    round_trips(&a.value);
                    read += 1;
                }
                (Err(a), Err(b)) => assert_eq!(a, b),
                (a, b) => panic!("strictness changes the outcome: {a:?} {b:?}"),
            }
        }
    }
    assert!(read > 100, "only {read} bodies were still readable");
}

#[test]
fn damaged_protobuf_is_refused_or_read_soundly() {
    let mut read = 0;
    for (ty, seed) in seeds() {
        let whole = protobuf::encode(&json::decode(seed.as_bytes(), ty, Mode::Strict).unwrap().value);
        for body in damaged(2, &whole, 3000) {
            let _ = protobuf::peek_gvk(&body);
            if let Ok(obj) = protobuf::decode(&body, ty) {
                // Floats and times at the limits of their range may not survive JSON; the binary form must preserve them.
                let wire = protobuf::encode(&obj.value);
                let again = protobuf::decode(&wire, ty).unwrap().value;
                assert_eq!(protobuf::encode(&again), wire);
                let _ = json::encode(&obj.value);
                read += 1;
            }
        }
    }
    assert!(read > 100, "only {read} bodies were still readable");
}

#[test]
fn damaged_yaml_is_refused_or_read_soundly() {
    let service = ty("core/v1.Service");
    let mut read = 0;
    for body in damaged(3, SERVICE_YAML.as_bytes(), 3000) {
        if let Ok(decoded) = yaml::decode(&body, service, Mode::Strict) {
            let text = yaml::encode(&decoded.value);
            let again = yaml::decode(&text, service, Mode::Strict).unwrap();
            assert_eq!(again.value, decoded.value, "{}", String::from_utf8_lossy(&text));
            read += 1;
        }
    }
    assert!(read > 100, "only {read} bodies were still readable");
}

#[test]
fn noise_never_panics() {
    let mut rng = StdRng::seed_from_u64(4);
    let pod = ty("core/v1.Pod");
    for _ in 0..3000 {
        let len = rng.random_range(0..64);
        let mut noise: Vec<u8> = (0..len).map(|_| rng.random()).collect();
        let _ = json::decode(&noise, pod, Mode::Strict);
        let _ = json::decode_value(&noise, Mode::Strict);
        let _ = yaml::decode_value(&noise, Mode::Strict);
        noise.splice(0..0, *b"k8s\0");
        let _ = protobuf::decode(&noise, pod);
        let _ = protobuf::decode_message(&noise, pod);
    }
}

#[test]
fn damaged_media_types_are_refused_or_answered_in_one_of_ours() {
    const ACCEPT: &str =
        "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.9,application/vnd.kubernetes.protobuf;stream=watch,*/*;q=.1";
    let mut read = 0;
    for accept in damaged_text(5, ACCEPT, 3000) {
        for endpoint in [Endpoint::BUILT_IN, Endpoint::CUSTOM, Endpoint::PLAIN] {
            let answers = [negotiate::output(&accept, endpoint), negotiate::stream(&accept, endpoint)];
            assert!(
                answers.iter().flatten().all(|answer| endpoint.transforms || answer.transform == Default::default())
            );
            read += answers.iter().flatten().count();
        }
        let _ = negotiate::input(&accept);
        let _ = negotiate::media_type(&accept);
    }
    assert!(read > 1000, "only {read} were still readable");
}

#[test]
fn nesting_is_bounded_in_every_encoding() {
    let (pod, crd) = (ty("core/v1.Pod"), ty("apiextensions/v1.CustomResourceDefinition"));
    for depth in [200, 500, 9_000, 200_000] {
        let lists = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let generic = json::decode_value(lists.as_bytes(), Mode::Strict);
        assert_eq!(generic.is_ok(), depth == 200, "{depth}");
        let skipped = json::decode(format!("{{\"foo\":{lists}}}").as_bytes(), pod, Mode::Strict);
        assert_eq!(skipped.is_ok(), depth < 10_000, "{depth}");
        let yaml = yaml::decode_value(lists.as_bytes(), Mode::Strict);
        assert_eq!(yaml.is_ok(), depth == 200, "{depth}");
        let schema = format!("{}{}", "{\"not\":".repeat(depth) + "{}", "}".repeat(depth));
        let body = format!("{{\"spec\":{{\"versions\":[{{\"schema\":{{\"openAPIV3Schema\":{schema}}}}}]}}}}");
        let typed = json::decode(body.as_bytes(), crd, Mode::Strict);
        assert_eq!(typed.is_ok(), depth == 200, "{depth}");
        let mut message = Vec::new();
        // JSONSchemaProps.not is field 28: tag 0xe2 0x01, then the length.
        for _ in 0..depth.min(2_000) {
            let mut outer = vec![0xe2, 0x01];
            let mut len = message.len();
            while len >= 0x80 {
                outer.push(u8::try_from(len & 0x7f).unwrap() | 0x80);
                len >>= 7;
            }
            outer.push(u8::try_from(len).unwrap());
            outer.append(&mut message);
            message = outer;
        }
        let decoded = protobuf::decode_message(&message, ty("apiextensions/v1.JSONSchemaProps"));
        assert_eq!(decoded.is_ok(), depth == 200, "{depth}");
    }
}

/// Makes this many nested lists, in steps of the text's greatest nesting plus an alias of the previous step.
fn aliases_in_lists(depth: usize) -> String {
    let most = 150;
    let mut text = "[&a0 []".to_owned();
    for step in 1..=depth / most {
        text += &format!(",&a{step} {}*a{}{}", "[".repeat(most), step - 1, "]".repeat(most));
    }
    text + "]"
}

/// Appends a message as a field of another message, with the given field number.
fn put(field: u8, message: &[u8], out: &mut Vec<u8>) {
    out.push(field << 3 | 2);
    let mut len = message.len();
    while len >= 0x80 {
        out.push(u8::try_from(len & 0x7f).unwrap() | 0x80);
        len >>= 7;
    }
    out.push(u8::try_from(len).unwrap());
    out.extend_from_slice(message);
}

/// Makes this many ControllerRevisions, each of which is the data of another.
fn revisions(depth: usize) -> Vec<u8> {
    let mut meta = Vec::new();
    put(1, b"apps/v1", &mut meta);
    put(2, b"ControllerRevision", &mut meta);
    let mut message = Vec::new();
    for _ in 0..depth {
        let mut unknown = Vec::new();
        put(1, &meta, &mut unknown);
        put(2, &message, &mut unknown);
        let (mut raw, mut outer) = (Vec::new(), Vec::new());
        put(1, &[&b"k8s\0"[..], &unknown].concat(), &mut raw);
        put(2, &raw, &mut outer);
        message = outer;
    }
    message
}

#[test]
fn what_is_embedded_or_stands_for_something_counts_as_nested() {
    for depth in [300, 600, 6_000] {
        let yaml = yaml::decode_value(aliases_in_lists(depth).as_bytes(), Mode::Strict);
        let text = yaml.as_ref().err().map(ToString::to_string);
        assert_eq!(text.as_deref(), (depth != 300).then_some("yaml: exceeded max depth"), "{depth}");
        let decoded = protobuf::decode_message(&revisions(depth), ty("apps/v1.ControllerRevision"));
        assert_eq!(decoded.is_ok(), depth == 300, "{depth} {:?}", decoded.err());
    }
}

#[test]
fn json_read_as_yaml_is_the_same_whether_it_is_taken_for_json_or_not() {
    let mut read = 0;
    for (_, seed) in seeds() {
        for body in damaged(6, seed.as_bytes(), 3000) {
            // A line break before the body keeps the reader from treating the text as JSON.
            let apart = [b"\n", &*body].concat();
            for mode in [Mode::Strict, Mode::Lenient] {
                let values = [&body, &apart].map(|text| yaml::decode_value(text, mode).map(|read| read.value).ok());
                let json = json::decode_value(&body, mode).is_ok();
                assert!(!json || values[0] == values[1], "{}", String::from_utf8_lossy(&body));
                read += usize::from(json && values[0].is_some());
            }
        }
    }
    assert!(read > 100, "only {read} bodies were still readable");
}

#[test]
fn yaml_bombs_are_refused() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let refs = vec![format!("*a{}", level - 1); 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
    }
    let error = yaml::decode_value(bomb.as_bytes(), Mode::Lenient).unwrap_err();
    assert_eq!(error.to_string(), "yaml: document contains excessive aliasing");
    let own = yaml::decode_value(b"a: &a [*a]", Mode::Lenient).unwrap_err();
    assert_eq!(own.to_string(), "yaml: anchor value contains itself");
}

#[test]
fn a_hostile_order_of_keys_costs_no_quadratic_time() {
    let keys: Vec<String> = (0..100_000).rev().map(|i| format!("\"k{i:06}\":\"\"")).collect();
    let body = format!("{{\"data\":{{{}}}}}", keys.join(","));
    let map = json::decode(body.as_bytes(), ty("core/v1.ConfigMap"), Mode::Strict).unwrap().value;
    assert_eq!(map.get("data").and_then(Value::as_map).map(oarlock_schema::Map::len), Some(100_000));
    let wire = protobuf::encode(&map);
    assert_eq!(protobuf::decode(&wire, map.ty()).unwrap().value, {
        let mut named = map.clone();
        named.set_gvk(map.ty().gvk.unwrap());
        named
    });
}

fn generic() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,40}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[ynYN~.0-9eExXoO:+-]{0,6}".prop_map(Value::from),
        "[a-z\\n\\t #:'\"|>&*!%@`{}\\[\\],?-]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| items.into_iter().collect()),
            prop::collection::vec(("\\PC{0,8}", inner), 0..6).prop_map(|pairs| Value::Map(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_value_comes_back_from_json_and_yaml(value in generic()) {
        let mut bytes = Vec::new();
        json::encode_value(&value, &mut bytes);
        prop_assert_eq!(&json::decode_value(&bytes, Mode::Strict).unwrap().value, &value);
        let pretty = json::pretty(&bytes);
        prop_assert_eq!(&json::decode_value(&pretty, Mode::Strict).unwrap().value, &value);
        let text = yaml::encode_value(&value);
        let read = yaml::decode_value(&text, Mode::Strict).map_err(|e| TestCaseError::fail(format!("{e}\n{}", String::from_utf8_lossy(&text))))?;
        prop_assert_eq!(&read.value, &value, "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn a_value_read_through_a_type_is_the_object_that_its_json_gives(value in generic(), name in "[a-z]{0,8}") {
        let pod = ty("core/v1.Pod");
        let body: Value = Value::Map([("spec", value), ("metadata", Value::Map([("name", Value::from(name))].into_iter().collect()))].into_iter().collect());
        let mut bytes = Vec::new();
        json::encode_value(&body, &mut bytes);
        let typed = tree::type_value(&body, pod, Mode::Strict);
        prop_assert_eq!(typed, json::decode(&bytes, pod, Mode::Strict));
    }
}
