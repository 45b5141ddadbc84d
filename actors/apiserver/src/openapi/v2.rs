//! Serves `/openapi/v2`, as JSON or gnostic protobuf.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use http::{HeaderMap, Response};
use oarlock_meta::Status;
use oarlock_schema::resources::GROUPS;
use serde_json::{Map, Value as Json, json};

use super::dialect::Dialect;
use super::stored::Stored;
use super::{gnostic, paths, schema, v3};
use crate::http::Body;

const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// Older clients ask for this media type; the answer states the newer one, which is syntactically valid.
const PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

static JSON: LazyLock<Stored> = LazyLock::new(|| Stored::new(document().to_string().as_bytes()));
static GNOSTIC: LazyLock<Stored> = LazyLock::new(|| Stored::new(&gnostic::encode(&document())));

/// Answers with the document in the form that the client accepts.
///
/// # Errors
/// 406 when the client accepts neither form.
pub(crate) fn answer(accept: Option<&str>, headers: &HeaderMap) -> Result<Response<Body>, Status> {
    let accept = accept.filter(|a| !a.trim().is_empty()).unwrap_or("*/*");
    for clause in accept.split(',') {
        match clause.split(';').next().unwrap_or("").trim() {
            PROTOBUF | PROTOBUF_OLD => return Ok(GNOSTIC.answer(headers, PROTOBUF)),
            "application/json" | "application/*" | "*/*" => return Ok(JSON.answer(headers, "application/json")),
            _ => {}
        }
    }
    Err(Status::not_acceptable(&["application/json", PROTOBUF]))
}

/// Builds the document of all groups.
pub(super) fn document() -> Json {
    let (mut named, mut all) = (BTreeMap::new(), Map::new());
    for (group, versions) in GROUPS {
        for version in *versions {
            v3::collect(group, version, &mut named);
            all.extend(paths::of(group, version, Dialect::V2));
        }
    }
    let definitions: Map<String, Json> =
        named.iter().map(|(name, named)| ((*name).to_owned(), schema::definition(*named, Dialect::V2))).collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "1.35"},
        "paths": all,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    })
}
