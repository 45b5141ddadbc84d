//! Serves `/openapi/v3`: an index, and one document per group and version.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use oarlock_meta::Status;
use oarlock_schema::resources::GROUPS;
use oarlock_schema::{RESOURCES, TypeRef, type_named};
use serde_json::{Map, Value as Json, json};

use super::dialect::Dialect;
use super::paths;
use super::schema::{self, Named, PATCH};
use super::stored::Stored;
use crate::http::options::Query;
use crate::http::{Body, text};

/// The documents by path below `/openapi/v3`, compressed to some 300 kB in total, built when the first client asks for one.
static DOCUMENTS: LazyLock<BTreeMap<String, Stored>> = LazyLock::new(|| {
    let all = GROUPS.iter().flat_map(|(group, versions)| versions.iter().map(move |version| (*group, *version)));
    all.map(|(group, version)| (place(group, version), Stored::new(document(group, version).to_string().as_bytes())))
        .collect()
});

fn place(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Builds the index.
#[must_use]
pub(crate) fn index() -> String {
    let entry = |(place, stored): (&String, &Stored)| {
        (place.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{place}?hash={}", stored.hash)}))
    };
    let paths: Map<String, Json> = DOCUMENTS.iter().map(entry).collect();
    json!({"paths": paths}).to_string()
}

/// Answers with one document. A request with the document's hash in the query may be cached for good; one with another hash is redirected.
///
/// # Errors
/// 406 for a client that does not accept JSON.
pub(crate) fn answer(path: &str, query: &Query, headers: &HeaderMap) -> Result<Response<Body>, Status> {
    let Some(stored) = DOCUMENTS.get(path) else {
        return Ok(text::reply(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n"));
    };
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("*/*");
    if !["application/json", "*/*", "application/*"].iter().any(|ours| accept.contains(ours)) {
        return Err(Status::not_acceptable(&["application/json"]));
    }
    let hash = query.get("hash");
    if !hash.is_empty() && hash != stored.hash {
        let mut response = text::reply(StatusCode::MOVED_PERMANENTLY, "text/html; charset=utf-8", "");
        if let Ok(place) = HeaderValue::from_str(&format!("/openapi/v3/{path}?hash={}", stored.hash)) {
            response.headers_mut().insert(header::LOCATION, place);
        }
        return Ok(response);
    }
    let mut response = stored.answer(headers, "application/json");
    if !hash.is_empty() {
        response
            .headers_mut()
            .insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable, max-age=31536000"));
    }
    Ok(response)
}

/// Builds the document of a group and version.
pub(super) fn document(group: &str, version: &str) -> Json {
    let mut named = BTreeMap::new();
    collect(group, version, &mut named);
    let schemas: Map<String, Json> =
        named.iter().map(|(name, named)| ((*name).to_owned(), schema::definition(*named, Dialect::V3))).collect();
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "1.35"},
        "paths": paths::of(group, version, Dialect::V3),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        },
        "security": [{"BearerToken": []}],
    })
}

/// Collects all types to which the paths of a group and version refer.
pub(super) fn collect(group: &str, version: &str, named: &mut BTreeMap<&'static str, Named>) {
    let mut reach = |ty: TypeRef| schema::reach(ty, named);
    let (mut deletes, mut watches, mut patches) = (false, false, false);
    for resource in RESOURCES.iter().filter(|r| (r.group, r.version) == (group, version)) {
        [resource.ty].into_iter().chain(resource.list_ty).for_each(&mut reach);
        // Options of streaming subresources are query parameters.
        let bodies = resource.subresources.iter().filter_map(|sub| sub.ty);
        bodies.filter(|ty| !ty.short_name().ends_with("Options")).for_each(&mut reach);
        deletes |= resource.has_verb("delete");
        watches |= resource.has_verb("watch");
        patches |= resource.has_verb("patch");
    }
    let status = ["meta/v1.DeleteOptions", "meta/v1.Status"].into_iter().filter(|_| deletes);
    let events = ["meta/v1.WatchEvent"].into_iter().filter(|_| watches);
    status.chain(events).chain(["meta/v1.APIResourceList"]).filter_map(type_named).for_each(reach);
    if patches {
        named.insert(PATCH, Named::Special(PATCH));
    }
}
