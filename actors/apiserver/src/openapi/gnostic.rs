//! Encodes OpenAPI 2.0 documents in gnostic's protobuf form: the field numbers of `openapiv2/OpenAPIv2.proto`, as far as our documents use them.

use serde_json::{Map, Value as Json};

/// An encoded protobuf message to which fields are appended.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(u8::try_from(n & 0x7f).unwrap_or(0) | 0x80);
            n >>= 7;
        }
        self.0.push(u8::try_from(n).unwrap_or(0));
    }

    fn bytes(&mut self, number: u64, bytes: &[u8]) {
        self.varint(number << 3 | 2);
        self.varint(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, number: u64, message: Self) {
        self.bytes(number, &message.0);
    }

    /// Appends a string, omitted when empty as in proto3.
    fn text(&mut self, number: u64, text: Option<&Json>) {
        if let Some(text) = text.and_then(Json::as_str).filter(|t| !t.is_empty()) {
            self.bytes(number, text.as_bytes());
        }
    }

    fn texts(&mut self, number: u64, list: Option<&Json>) {
        for text in items(list).iter().filter_map(Json::as_str) {
            self.bytes(number, text.as_bytes());
        }
    }

    fn flag(&mut self, number: u64, flag: Option<&Json>) {
        if flag.and_then(Json::as_bool) == Some(true) {
            self.varint(number << 3);
            self.varint(1);
        }
    }

    /// Appends a `Named…` message: a name and a value.
    fn named(&mut self, number: u64, name: &str, value: Self) {
        let mut entry = Self::default();
        entry.bytes(1, name.as_bytes());
        entry.message(2, value);
        self.message(number, entry);
    }

    fn extensions(&mut self, number: u64, of: &Map<String, Json>) {
        for (name, value) in of.iter().filter(|(name, _)| name.starts_with("x-")) {
            self.named(number, name, any(value));
        }
    }
}

fn items(list: Option<&Json>) -> &[Json] {
    list.and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

fn entries(map: Option<&Json>) -> impl Iterator<Item = (&String, &Json)> {
    map.and_then(Json::as_object).into_iter().flatten()
}

/// Encodes `Any`, which holds YAML text; JSON is valid YAML.
fn any(value: &Json) -> Message {
    let mut out = Message::default();
    out.bytes(2, format!("{value}\n").as_bytes());
    out
}

/// Wraps a message as field 1 of another one (the first member of a union).
fn first(message: Message) -> Message {
    let mut out = Message::default();
    out.message(1, message);
    out
}

/// Encodes a document.
pub(super) fn encode(document: &Json) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, document.get("swagger"));
    let mut info = Message::default();
    info.text(1, document.pointer("/info/title"));
    info.text(2, document.pointer("/info/version"));
    out.message(2, info);
    let mut paths = Message::default();
    entries(document.get("paths")).for_each(|(path, item)| paths.named(2, path, path_item(item)));
    out.message(8, paths);
    let mut definitions = Message::default();
    entries(document.get("definitions")).for_each(|(name, one)| definitions.named(1, name, schema(one)));
    out.message(9, definitions);
    for requirement in items(document.get("security")) {
        let mut message = Message::default();
        entries(Some(requirement)).for_each(|(name, scopes)| {
            let mut list = Message::default();
            list.texts(1, Some(scopes));
            message.named(1, name, list);
        });
        out.message(12, message);
    }
    let mut security = Message::default();
    for (name, key) in entries(document.get("securityDefinitions")) {
        let mut api_key = Message::default();
        api_key.text(1, key.get("type"));
        api_key.text(2, key.get("name"));
        api_key.text(3, key.get("in"));
        let mut item = Message::default();
        item.message(2, api_key);
        security.named(1, name, item);
    }
    out.message(13, security);
    out.0
}

fn path_item(item: &Json) -> Message {
    const METHODS: [(&str, u64); 7] =
        [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("options", 6), ("head", 7), ("patch", 8)];
    let mut out = Message::default();
    for (method, number) in METHODS {
        if let Some(one) = item.get(method).and_then(Json::as_object) {
            out.message(number, operation(one));
        }
    }
    items(item.get("parameters")).iter().for_each(|one| out.message(9, parameter(one)));
    out
}

fn operation(op: &Map<String, Json>) -> Message {
    let mut out = Message::default();
    out.texts(1, op.get("tags"));
    out.text(3, op.get("description"));
    out.text(5, op.get("operationId"));
    out.texts(6, op.get("produces"));
    out.texts(7, op.get("consumes"));
    items(op.get("parameters")).iter().for_each(|one| out.message(8, parameter(one)));
    let mut responses = Message::default();
    for (code, response) in entries(op.get("responses")) {
        let mut message = Message::default();
        message.text(1, response.get("description"));
        if let Some(of) = response.get("schema") {
            message.message(2, first(schema(of)));
        }
        responses.named(1, code, first(message));
    }
    out.message(9, responses);
    out.texts(10, op.get("schemes"));
    out.extensions(13, op);
    out
}

/// Encodes a `ParametersItem`, which holds a `Parameter`, which holds either kind of parameter.
fn parameter(one: &Json) -> Message {
    let mut inner = Message::default();
    let mut kind = Message::default();
    if one.get("in").and_then(Json::as_str) == Some("body") {
        inner.text(2, one.get("name"));
        inner.text(3, one.get("in"));
        inner.flag(4, one.get("required"));
        if let Some(of) = one.get("schema") {
            inner.message(5, schema(of));
        }
        kind.message(1, inner);
        return first(kind);
    }
    let in_path = one.get("in").and_then(Json::as_str) == Some("path");
    inner.flag(1, one.get("required"));
    inner.text(2, one.get("in"));
    inner.text(4, one.get("name"));
    // Path parameters have no allowEmptyValue, so the numbers of the following fields are lower by one.
    inner.text(if in_path { 5 } else { 6 }, one.get("type"));
    inner.flag(if in_path { 19 } else { 20 }, one.get("uniqueItems"));
    let mut other = Message::default();
    other.message(if in_path { 4 } else { 3 }, inner);
    kind.message(2, other);
    first(kind)
}

fn schema(schema_json: &Json) -> Message {
    let mut out = Message::default();
    let Some(of) = schema_json.as_object() else { return out };
    out.text(1, of.get("$ref"));
    out.text(2, of.get("format"));
    out.text(4, of.get("description"));
    out.texts(19, of.get("required"));
    items(of.get("enum")).iter().for_each(|value| out.message(20, any(value)));
    if let Some(values) = of.get("additionalProperties") {
        out.message(21, first(schema(values)));
    }
    if let Some(name) = of.get("type") {
        let mut types = Message::default();
        types.text(1, Some(name));
        out.message(22, types);
    }
    if let Some(inner) = of.get("items") {
        out.message(23, first(schema(inner)));
    }
    if of.contains_key("properties") {
        let mut properties = Message::default();
        entries(of.get("properties")).for_each(|(name, one)| properties.named(1, name, schema(one)));
        out.message(25, properties);
    }
    out.extensions(31, of);
    out
}
