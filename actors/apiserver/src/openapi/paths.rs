//! Encodes paths and their operations as OpenAPI.

use oarlock_schema::Gvk;
use serde_json::{Map, Value as Json, json};

use super::dialect::Dialect;
use super::operations::{self, Answer, Body, Endpoint, Operation, Parameter};
use super::schema::PATCH;

const ENCODINGS: [&str; 3] = ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];
const STREAMS: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// Returns the paths of a group and version.
pub(super) fn of(group: &str, version: &str, dialect: Dialect) -> Map<String, Json> {
    let names = Names::new(group, version);
    operations::endpoints(group, version).iter().map(|e| (e.path.clone(), endpoint(e, &names, dialect))).collect()
}

/// A group and version as they appear in tags and identifiers.
struct Names {
    /// For tags, such as `apps_v1`.
    tag: String,
    /// For identifiers, such as `AppsV1`.
    title: String,
}

impl Names {
    fn new(group: &str, version: &str) -> Self {
        let group = if group.is_empty() { "core" } else { group.trim_end_matches(".k8s.io") };
        let title: String = group.split('.').map(operations::capital).collect();
        let mut first = title.chars();
        let lower: String = first.next().map(|c| c.to_ascii_lowercase()).into_iter().chain(first).collect();
        Self { tag: format!("{lower}_{version}"), title: format!("{title}{}", operations::capital(version)) }
    }
}

fn endpoint(endpoint: &Endpoint, names: &Names, dialect: Dialect) -> Json {
    let mut item = Map::new();
    for one in &endpoint.operations {
        item.insert(one.method.to_owned(), operation(one, endpoint, names, dialect));
    }
    if !endpoint.parameters.is_empty() {
        item.insert("parameters".into(), endpoint.parameters.iter().map(|p| parameter(*p, dialect)).collect());
    }
    item.into()
}

fn operation(op: &Operation, endpoint: &Endpoint, names: &Names, dialect: Dialect) -> Json {
    let method = if op.action == "connect" { operations::capital(op.method) } else { String::new() };
    let id = format!("{}{}{}{method}{}", op.verb, names.title, op.suffix, endpoint.subject);
    let mut out = Map::new();
    out.insert("tags".into(), json!([names.tag]));
    out.insert("operationId".into(), id.into());
    let mut parameters: Vec<Json> = op.parameters.iter().map(|p| parameter(*p, dialect)).collect();
    match dialect {
        Dialect::V2 => {
            parameters.splice(0..0, body_v2(op));
            out.insert("consumes".into(), if let Body::Patch = op.body { json!(PATCHES) } else { json!(["*/*"]) });
            out.insert("produces".into(), json!(produces(op.answer)));
            out.insert("schemes".into(), json!(["https"]));
        }
        Dialect::V3 => out.extend(body_v3(op).map(|body| ("requestBody".to_owned(), body))),
    }
    if !parameters.is_empty() {
        out.insert("parameters".into(), parameters.into());
    }
    out.insert("responses".into(), responses(op, dialect));
    out.insert("x-kubernetes-action".into(), op.action.into());
    out.insert("x-kubernetes-group-version-kind".into(), kind(endpoint.gvk));
    out.into()
}

fn kind(gvk: Gvk) -> Json {
    json!({"group": gvk.group, "kind": gvk.kind, "version": gvk.version})
}

fn parameter((name, ty, in_path): Parameter, dialect: Dialect) -> Json {
    let place = if in_path { "path" } else { "query" };
    let mut out = match dialect {
        Dialect::V2 => json!({"name": name, "in": place, "type": ty, "uniqueItems": true}),
        Dialect::V3 => json!({"name": name, "in": place, "schema": {"type": ty, "uniqueItems": true}}),
    };
    if let (true, Some(out)) = (in_path, out.as_object_mut()) {
        out.insert("required".into(), true.into());
    }
    out
}

/// Returns the reference to the body's schema, and whether the body is required.
fn body(op: &Operation) -> Option<(&'static str, bool)> {
    match op.body {
        Body::None => None,
        Body::Object(ty) => Some((ty.openapi, true)),
        Body::Patch => Some((PATCH, true)),
        Body::DeleteOptions => Some((DELETE_OPTIONS, false)),
    }
}

fn body_v2(op: &Operation) -> Option<Json> {
    let (name, required) = body(op)?;
    let schema = json!({"$ref": Dialect::V2.pointer(name)});
    Some(if required {
        json!({"name": "body", "in": "body", "required": true, "schema": schema})
    } else {
        json!({"name": "body", "in": "body", "schema": schema})
    })
}

fn body_v3(op: &Operation) -> Option<Json> {
    let (name, required) = body(op)?;
    let media: &[&str] = if let Body::Patch = op.body { &PATCHES } else { &["*/*"] };
    let content = content(media.iter().copied(), &json!({"$ref": Dialect::V3.pointer(name)}));
    Some(if required { json!({"content": content, "required": true}) } else { json!({"content": content}) })
}

fn content<'a>(media: impl Iterator<Item = &'a str>, schema: &Json) -> Map<String, Json> {
    media.map(|media| (media.to_owned(), json!({"schema": schema}))).collect()
}

fn produces(answer: Answer) -> Vec<&'static str> {
    match answer {
        Answer::Object(_) => ENCODINGS.to_vec(),
        Answer::List(_) => ENCODINGS.into_iter().chain(STREAMS).collect(),
        Answer::Text => ENCODINGS.into_iter().chain(["text/plain"]).collect(),
        Answer::Any => vec!["*/*"],
    }
}

fn responses(op: &Operation, dialect: Dialect) -> Json {
    let schema = match op.answer {
        Answer::Object(ty) | Answer::List(ty) => json!({"$ref": dialect.pointer(ty.openapi)}),
        Answer::Text | Answer::Any => json!({"type": "string"}),
    };
    let mut out = Map::new();
    for code in op.codes {
        let description = match code {
            200 => "OK",
            201 => "Created",
            _ => "Accepted",
        };
        let response = match dialect {
            Dialect::V2 => json!({"description": description, "schema": schema}),
            Dialect::V3 => {
                json!({"description": description, "content": content(produces(op.answer).into_iter(), &schema)})
            }
        };
        out.insert(code.to_string(), response);
    }
    out.insert("401".into(), json!({"description": "Unauthorized"}));
    out.into()
}
