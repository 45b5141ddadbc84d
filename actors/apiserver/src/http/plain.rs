//! Answers paths that are not resources: health, version, discovery, OpenAPI, metrics, token keys.

use std::sync::LazyLock;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use oarlock_codec::negotiate::{self, Endpoint};
use oarlock_meta::Status;
use oarlock_serving::{metrics, slis};

use super::options::Query;
use super::{Body, routes, text};
use crate::discovery::{self, Document};
use crate::server::Server;
use crate::{health, openapi, version};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

static AGGREGATED_CORE: LazyLock<Document> = LazyLock::new(|| Document::new(&discovery::aggregated(true)));
static AGGREGATED_GROUPS: LazyLock<Document> = LazyLock::new(|| Document::new(&discovery::aggregated(false)));

/// The path of the metrics.
pub(super) const METRICS: &str = "/metrics";

/// Answers a scrape of the metrics.
///
/// # Errors
/// 503 if other scrapes take too long; 500 if the rendering panicked.
pub(super) async fn scrape(server: &Server, headers: &HeaderMap) -> Result<Response<Body>, Status> {
    let format = metrics::format(headers);
    Ok(text::reply(StatusCode::OK, format.media_type(), metrics::text(server.system(), format).await?))
}

/// Answers a path that is not a resource, [`METRICS`] excepted.
///
/// # Errors
/// 404 for an unknown path.
pub fn answer(
    server: &Server,
    path: &str,
    query: &str,
    head: &Parts,
    accept: Option<&str>,
) -> Result<Response<Body>, Status> {
    let query = Query::new(query);
    // Paths that upstream serves with its router accept one method and certain media types, and ignore trailing slashes. The handlers of other paths
    // check none of these.
    let routed = ["/api", "/apis", "/version", "/openid", "/.well-known"].iter().any(|root| below(path, root));
    let path = if routed { path.trim_end_matches('/') } else { path };
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    if routed {
        route(&segments, head, accept)?;
    }
    match segments.as_slice() {
        ["healthz" | "livez" | "readyz", ""] => Ok(page_not_found()),
        ["healthz" | "livez" | "readyz", ..] => Ok(health::answer(server, &segments, &query)),
        ["version"] => Ok(json(version::document())),
        ["metrics", "slis"] => {
            let format = metrics::format(&head.headers);
            Ok(text::reply(StatusCode::OK, format.media_type(), slis::text(format)))
        }
        ["api"] if wants_aggregated(accept) => Ok(document(&AGGREGATED_CORE, AGGREGATED, head)),
        ["apis"] if wants_aggregated(accept) => Ok(document(&AGGREGATED_GROUPS, AGGREGATED, head)),
        ["api"] => {
            let config = server.config();
            Ok(json(discovery::core_versions(&format!("{}:{}", config.advertise_address, config.port)).to_string()))
        }
        ["apis"] => Ok(json(discovery::group_list().to_string())),
        ["api", "v1"] => found("", discovery::resource_list("", "v1")),
        ["api", ..] => Err(Status::not_found_path()),
        ["apis", group] => found(group, discovery::group(group)),
        ["apis", group, version] => found(group, discovery::resource_list(group, version)),
        ["openapi", "v3"] => Ok(json(openapi::v3::index())),
        ["openapi", "v3", rest @ ..] => openapi::v3::answer(&rest.join("/"), &query, &head.headers),
        ["openapi", "v2"] => openapi::v2::answer(accept, &head.headers),
        [".well-known", "openid-configuration"] => Ok(json(oarlock_auth::tokens::openid_configuration(
            &server.config().issuer,
            &format!("https://{}:{}/openid/v1/jwks", server.config().advertise_address, server.config().port),
        ))),
        ["openid", "v1", "jwks"] => {
            Ok(text::reply(StatusCode::OK, "application/jwk-set+json", server.config().jwks.clone()))
        }
        ["version", ..] | ["openid", "v1", "jwks", ..] | [".well-known", "openid-configuration", ..] => {
            Err(Status::not_found_path())
        }
        ["debug", "actors"] => Ok(json(oarlock_serving::actors::json(server.system()))),
        [""] => Ok(json(root_paths())),
        _ => Ok(page_not_found()),
    }
}

/// Makes the checks of upstream's router: first the method, then the media types that the client accepts.
fn route(segments: &[&str], head: &Parts, accept: Option<&str>) -> Result<(), Status> {
    let discovery = match segments {
        ["api" | "apis"] | ["api", "v1"] => true,
        ["apis", group] => is_served(group),
        ["apis", group, version] => serves(group, version),
        _ => false,
    };
    let forms: &[&str] = match segments {
        _ if discovery => &routes::OBJECTS,
        ["version"] | [".well-known", "openid-configuration"] => &["application/json"],
        ["openid", "v1", "jwks"] => &["application/jwk-set+json"],
        _ => return Ok(()),
    };
    if head.method != Method::GET {
        return Err(routes::method_not_allowed());
    }
    routes::acceptable(&head.headers, forms)?;
    if discovery && !(segments.len() == 1 && wants_aggregated(accept)) {
        negotiate::output(accept.unwrap_or(""), Endpoint::PLAIN)?;
    }
    Ok(())
}

fn below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn wants_aggregated(accept: Option<&str>) -> bool {
    accept.is_some_and(|a| a.contains("as=APIGroupDiscoveryList") && a.contains("v=v2"))
        && accept.is_some_and(|a| {
            a.split(',').any(|c| c.contains("as=APIGroupDiscoveryList") && c.split(';').any(|p| p.trim() == "v=v2"))
        })
}

/// Answers with a document and its entity tag, or with 304 when the client has the document already.
#[must_use]
pub fn document(document: &Document, content_type: &'static str, head: &Parts) -> Response<Body> {
    let known = head
        .headers
        .get(header::IF_NONE_MATCH)
        .and_then(|v| v.to_str().ok())
        .is_some_and(|tags| tags.contains(&document.etag));
    let mut response = if known {
        text::reply(StatusCode::NOT_MODIFIED, content_type, Bytes::new())
    } else {
        text::reply(StatusCode::OK, content_type, document.body.clone())
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&document.etag) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

fn found(group: &str, body: Option<serde_json::Value>) -> Result<Response<Body>, Status> {
    body.map_or_else(|| not_served(group), |body| Ok(json(body.to_string())))
}

/// Answers a path below `/apis` that does not exist: a Status when the group is served, otherwise the text of upstream's mux.
///
/// # Errors
/// 404.
pub(super) fn not_served(group: &str) -> Result<Response<Body>, Status> {
    if is_served(group) { Err(Status::not_found_path()) } else { Ok(page_not_found()) }
}

fn serves(group: &str, version: &str) -> bool {
    oarlock_schema::resources::GROUPS.iter().any(|(served, versions)| *served == group && versions.contains(&version))
}

fn is_served(group: &str) -> bool {
    oarlock_schema::resources::GROUPS.iter().any(|(served, _)| *served == group)
}

pub(super) fn page_not_found() -> Response<Body> {
    text::reply(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n")
}

fn json(body: impl Into<Bytes>) -> Response<Body> {
    text::reply(StatusCode::OK, "application/json", body)
}

fn root_paths() -> String {
    let mut paths: Vec<String> = vec![
        "/.well-known/openid-configuration".into(),
        "/api".into(),
        "/api/v1".into(),
        "/apis".into(),
        "/apis/".into(),
    ];
    for (group, versions) in oarlock_schema::resources::GROUPS.iter().filter(|(g, _)| !g.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|v| format!("/apis/{group}/{v}")));
    }
    for path in [
        "/healthz",
        "/livez",
        "/metrics",
        "/metrics/slis",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/openid/v1/jwks",
        "/readyz",
        "/version",
    ] {
        paths.push(path.into());
    }
    paths.sort();
    serde_json::json!({"paths": paths}).to_string()
}
