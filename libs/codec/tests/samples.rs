//! Objects of every top-level type, filled and encoded by upstream's own code in both encodings: both decode to one value, and the value encodes to upstream's
//! bytes again.

use std::io::Read as _;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use oarlock_codec::{Mode, Wanted, json, protobuf, tree, yaml};
use oarlock_schema::{Obj, TypeRef, Value, canonical, type_named};

struct Sample {
    name: String,
    ty: TypeRef,
    protobuf: Vec<u8>,
    json: Vec<u8>,
}

fn samples() -> Vec<Sample> {
    let mut text = String::new();
    GzDecoder::new(include_bytes!("data/samples.ndjson.gz").as_slice()).read_to_string(&mut text).unwrap();
    text.lines()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let field = |name: &str| row[name].as_str().unwrap().to_owned();
            Sample {
                name: format!("{} {}", field("type"), field("variant")),
                ty: type_named(&field("type")).unwrap_or_else(|| panic!("no type {}", field("type"))),
                protobuf: unbase64(&field("protobuf")),
                json: field("json").into_bytes(),
            }
        })
        .collect()
}

/// Decodes with the codec's own reader of `bytes` fields, which has tests of its own.
fn unbase64(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bits = 0_u32;
    let mut have = 0;
    for byte in text.bytes().filter(|b| *b != b'=') {
        let value = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".bytes().position(|b| b == byte);
        bits = bits << 6 | u32::try_from(value.unwrap()).unwrap();
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push(u8::try_from(bits >> have & 0xff).unwrap());
        }
    }
    out
}

fn difference(ours: &[u8], want: &[u8]) -> String {
    let at = ours.iter().zip(want).position(|(a, b)| a != b).unwrap_or(ours.len().min(want.len()));
    let part = |bytes: &[u8]| {
        let to = bytes.len().min(at + 60);
        bytes[at.saturating_sub(60).min(to)..to].escape_ascii().to_string()
    };
    format!("at {at} of {}/{}\n    ours {}\n    want {}", ours.len(), want.len(), part(ours), part(want))
}

/// Runs a check over all samples and lists the failing ones.
fn check(what: &str, check: impl Fn(&Sample) -> Result<(), String>) {
    let all = samples();
    assert!(all.len() > 400, "only {} samples", all.len());
    let wrong: Vec<String> =
        all.iter().filter_map(|s| check(s).err().map(|why| format!("{}: {why}", s.name))).collect();
    assert!(wrong.is_empty(), "{what}: {} of {} differ\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

#[test]
fn of_wanted_fields_everything_is_decoded_and_nothing_else() {
    const PATHS: [&[&str]; 5] =
        [&["metadata", "labels"], &["metadata", "uid"], &["spec", "nodeName"], &["status"], &["type"]];
    static WANTED: LazyLock<Wanted> = LazyLock::new(|| Wanted::at(PATHS));
    check("wanted fields", |sample| {
        let whole = json::decode(&sample.json, sample.ty, Mode::Lenient).map_err(|e| e.to_string())?.value;
        let some = json::decode_wanted(&sample.json, sample.ty, &WANTED).map_err(|e| e.to_string())?;
        let differs = PATHS.iter().find(|path| whole.at(path) != some.at(path));
        differs.map_or(Ok(()), |path| Err(path.join(".")))?;
        // Fields that are always present are present, and empty.
        let empty = json::decode(br#"{"metadata":{},"spec":{}}"#, sample.ty, Mode::Lenient).unwrap().value;
        let below = [(&[][..], &["kind", "apiVersion", "metadata", "spec", "status", "type"][..])];
        for (at, wanted) in
            below.into_iter().chain([(&["metadata"][..], &["labels", "uid"][..]), (&["spec"], &["nodeName"])])
        {
            let node = if at.is_empty() { Some(&*some) } else { some.at(at).and_then(Value::as_struct) };
            let names = node
                .into_iter()
                .flat_map(|node| node.entries().iter().filter_map(|(id, _)| Some(node.ty().def(*id)?.name)));
            let path = |name: &'static str| [at, &[name]].concat();
            let mut more = names.filter(|name| !wanted.contains(name) && some.at(&path(name)) != empty.at(&path(name)));
            more.next().map_or(Ok(()), |name| Err(path(name).join(".")))?;
        }
        Ok(())
    });
    let pod = type_named("core/v1.Pod").unwrap();
    let read = |text: &str| json::decode_wanted(text.as_bytes(), pod, &WANTED);
    assert!(read(r#"{"spec":{"containers":7},"status":{}}"#).is_ok());
    assert!(read(r#"{"spec":{"nodeName":7}}"#).is_err());
    assert!(read(r#"{"spec":{"containers":[}}"#).is_err());
}

/// Whether a type has embedded objects, whose keys Oarlock sorts and upstream keeps in input order. Go clients send them sorted.
fn has_embedded(sample: &Sample) -> bool {
    ["apps/v1.ControllerRevision", "resource/v1.DeviceClass", "resource/v1.ResourceClaim"]
        .iter()
        .any(|ty| sample.name.starts_with(ty))
}

/// Compares JSON byte by byte, or as values if objects are embedded.
fn same_json(sample: &Sample, ours: &[u8]) -> Result<(), String> {
    let value = |bytes: &[u8]| -> serde_json::Value { serde_json::from_slice(bytes).unwrap() };
    if has_embedded(sample) && value(ours) == value(&sample.json) {
        return Ok(());
    }
    same(ours, &sample.json)
}

fn same(ours: &[u8], want: &[u8]) -> Result<(), String> {
    if ours == want { Ok(()) } else { Err(difference(ours, want)) }
}

fn from_json(sample: &Sample) -> Result<Obj, String> {
    let decoded = json::decode(&sample.json, sample.ty, Mode::Strict).map_err(|e| e.to_string())?;
    if decoded.findings.is_empty() { Ok(decoded.value) } else { Err(format!("{:?}", decoded.findings)) }
}

fn from_protobuf(sample: &Sample) -> Result<Obj, String> {
    protobuf::decode(&sample.protobuf, sample.ty).map(|d| d.value).map_err(|e| e.to_string())
}

#[test]
fn json_comes_back_byte_for_byte() {
    check("json", |sample| {
        let obj = from_json(sample)?;
        same_json(sample, &json::encode(&obj).bytes)
    });
}

#[test]
fn protobuf_reads_as_json_does() {
    check("protobuf to json", |sample| {
        let obj = from_protobuf(sample)?;
        same_json(sample, &json::encode(&obj).bytes)?;
        if obj == from_json(sample)? { Ok(()) } else { Err("equal bytes, other trees".to_owned()) }
    });
}

#[test]
fn protobuf_comes_back_byte_for_byte() {
    check("protobuf", |sample| {
        let obj = from_protobuf(sample)?;
        let ours = protobuf::encode(&obj);
        // Present but empty bytes cannot be distinguished from absent ones in JSON, so the canonical form drops them.
        let empty_bytes = sample.name.ends_with("zeros") && ours.len() + 2 == sample.protobuf.len();
        if has_embedded(sample) || empty_bytes {
            let again = protobuf::decode(&ours, sample.ty).map_err(|e| e.to_string())?.value;
            return if again == obj { Ok(()) } else { Err("another object comes back".to_owned()) };
        }
        same(&ours, &sample.protobuf)
    });
}

#[test]
fn decoded_objects_are_canonical() {
    check("canonical", |sample| {
        let obj = from_json(sample)?;
        let mut again = obj.clone();
        canonical::canonicalize(&mut again);
        same(&json::encode(&again).bytes, &json::encode(&obj).bytes)
    });
}

#[test]
fn generic_values_and_yaml_come_back_as_the_same_object() {
    check("generic", |sample| {
        let obj = from_json(sample)?;
        let generic = tree::type_value(&tree::untype(&obj), sample.ty, Mode::Strict).map_err(|e| e.to_string())?;
        same_json(sample, &json::encode(&generic.value).bytes)?;
        let text = yaml::encode(&obj);
        let read = yaml::decode(&text, sample.ty, Mode::Strict)
            .map_err(|e| format!("{e}\n{}", String::from_utf8_lossy(&text)))?;
        same_json(sample, &json::encode(&read.value).bytes)
    });
}
