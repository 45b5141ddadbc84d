//! Extraction of bearer tokens from requests: from the header `Authorization` or, for browsers that cannot set headers, from a WebSocket subprotocol
//! (upstream: `request/bearertoken`, `request/websocket`).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue};

/// The prefix of the subprotocol that carries a token.
const PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The result of looking for a token.
pub(super) enum Found<'a> {
    /// No token.
    Nothing,
    /// A token.
    Token(Cow<'a, str>),
    /// A token that is ignored because of its spelling, with a warning for the client.
    Misspelt(&'static str),
}

/// Returns the bearer token of a request.
pub(super) fn token(headers: &HeaderMap) -> Result<Found<'_>, &'static str> {
    match from_authorization(headers) {
        Found::Nothing => Ok(from_protocols(headers)?.map_or(Found::Nothing, |token| Found::Token(token.into()))),
        found => Ok(found),
    }
}

fn from_authorization(headers: &HeaderMap) -> Found<'_> {
    let Some(value) = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()) else {
        return Found::Nothing;
    };
    let mut parts = value.trim().splitn(3, ' ');
    if !parts.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer")) {
        return Found::Nothing;
    }
    match (parts.next(), parts.next()) {
        (Some(""), Some(_)) => Found::Misspelt(
            "the provided Authorization header contains extra space before the bearer token, and is ignored",
        ),
        (Some(""), None) | (None, _) => Found::Nothing,
        (Some(token), _) => Found::Token(token.into()),
    }
}

fn from_protocols(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    let listed = |name, word: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .any(|v| v.split(',').any(|w| w.trim().eq_ignore_ascii_case(word)))
    };
    if !(listed(CONNECTION, "upgrade") && listed(UPGRADE, "websocket")) {
        return Ok(None);
    }
    let (mut found, mut others) = (None, 0_usize);
    for protocol in protocols(headers) {
        let Some(encoded) = protocol.strip_prefix(PROTOCOL) else {
            others += 1;
            continue;
        };
        if found.is_some() {
            return Err("multiple base64.bearer.authorization tokens specified");
        }
        let bytes =
            URL_SAFE_NO_PAD.decode(encoded).map_err(|_| "invalid base64.bearer.authorization token encoding")?;
        found = Some(String::from_utf8(bytes).map_err(|_| "invalid base64.bearer.authorization token")?);
    }
    match found.filter(|token| !token.is_empty()) {
        Some(_) if others == 0 => Err("missing additional subprotocol"),
        token => Ok(token),
    }
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Removes the token from the headers; other subprotocols stay.
pub(super) fn clear(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    if !protocols(headers).any(|protocol| protocol.starts_with(PROTOCOL)) {
        return;
    }
    let rest: Vec<&str> = protocols(headers).filter(|protocol| !protocol.starts_with(PROTOCOL)).collect();
    match HeaderValue::from_str(&rest.join(",")) {
        Ok(value) if !rest.is_empty() => {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, value);
        }
        _ => {
            headers.remove(SEC_WEBSOCKET_PROTOCOL);
        }
    }
}
