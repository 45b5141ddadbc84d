//! `cargo xtask zipkin`: writes spans of OTLP's JSON in the JSON of Zipkin's API, whose page draws them in a browser.
//!
//! The rules are those of OpenTelemetry's specification, "OpenTelemetry to Zipkin Transformation".

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Read as _;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::say;

/// Name of the service where a process has named none.
const NO_SERVICE: &str = "unknown_service";
/// OTLP's numbers of a span's status.
const OK: u8 = 1;
const ERROR: u8 = 2;

/// A document with spans: `oarlock trace --output json` has them at `traces`, an exporter's request at the top.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    traces: Option<Traces>,
    #[serde(default)]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Traces {
    resource_spans: Vec<ResourceSpans>,
}

/// The spans of a process.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    resource: Option<Resource>,
    #[serde(default)]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    attributes: Vec<Attribute>,
}

#[derive(Deserialize)]
struct ScopeSpans {
    #[serde(default)]
    spans: Vec<Span>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    trace_id: String,
    span_id: String,
    #[serde(default)]
    parent_span_id: String,
    name: String,
    #[serde(default)]
    kind: u8,
    #[serde(deserialize_with = "nanoseconds")]
    start_time_unix_nano: u64,
    /// 0 for a span that has not ended.
    #[serde(default, deserialize_with = "nanoseconds")]
    end_time_unix_nano: u64,
    #[serde(default)]
    attributes: Vec<Attribute>,
    #[serde(default)]
    events: Vec<Event>,
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Attribute {
    key: String,
    /// One field, whose name is the type: `{"stringValue": "default"}`.
    value: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(deserialize_with = "nanoseconds")]
    time_unix_nano: u64,
    name: String,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    code: u8,
    #[serde(default)]
    message: String,
}

/// A span as Zipkin's API takes it. Times are microseconds.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ZipkinSpan {
    trace_id: String,
    id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    parent_id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    timestamp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<u64>,
    local_endpoint: Endpoint,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<Annotation>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    service_name: String,
}

#[derive(Serialize)]
struct Annotation {
    timestamp: u64,
    value: String,
}

/// Reads a document from standard input and prints its spans.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("standard input")?;
    say(&serde_json::to_string(&spans(&text)?)?);
    Ok(())
}

/// Returns the spans of a document.
///
/// # Errors
/// When the document is not JSON of `oarlock trace` or of OTLP, or has no span.
fn spans(text: &str) -> anyhow::Result<Vec<ZipkinSpan>> {
    let document: Document =
        serde_json::from_str(text).context("neither output of `oarlock trace --output json` nor OTLP's JSON")?;
    let all = document.traces.map_or(document.resource_spans, |traces| traces.resource_spans);
    let all = all.into_iter().flat_map(|process| {
        let attributes = process.resource.into_iter().flat_map(|resource| resource.attributes);
        let service =
            attributes.filter(|attribute| attribute.key == "service.name").find_map(|found| text_of(found.value));
        let service = service.unwrap_or_else(|| NO_SERVICE.to_owned());
        let spans = process.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.map(move |one| zipkin(one, service.clone()))
    });
    let all: Vec<ZipkinSpan> = all.collect();
    ensure!(!all.is_empty(), "the document has no span");
    Ok(all)
}

fn zipkin(span: Span, service_name: String) -> ZipkinSpan {
    let ended = Some(span.end_time_unix_nano).filter(|end| *end > 0);
    let lasted = ended.map(|end| end.saturating_sub(span.start_time_unix_nano));
    let attributes = span.attributes.into_iter();
    let mut tags: BTreeMap<String, String> =
        attributes.filter_map(|one| Some((one.key, text_of(one.value)?))).collect();
    let status = span.status.unwrap_or_default();
    let code = match status.code {
        OK => Some("OK"),
        ERROR => Some("ERROR"),
        _ => None,
    };
    tags.extend(code.map(|code| ("otel.status_code".to_owned(), code.to_owned())));
    if status.code == ERROR {
        tags.insert("error".to_owned(), status.message);
    }
    let annotations = span.events.into_iter();
    let annotations = annotations.map(|event| Annotation { timestamp: event.time_unix_nano / 1000, value: event.name });
    ZipkinSpan {
        trace_id: span.trace_id,
        id: span.span_id,
        parent_id: span.parent_span_id,
        name: span.name,
        kind: kind(span.kind),
        timestamp: span.start_time_unix_nano / 1000,
        // Zipkin takes a duration of 0 for none.
        duration: lasted.map(|lasted| lasted.div_ceil(1000).max(1)),
        local_endpoint: Endpoint { service_name },
        annotations: annotations.collect(),
        tags,
    }
}

/// Returns Zipkin's name of OTLP's `SpanKind`; an internal span has none.
fn kind(number: u8) -> Option<&'static str> {
    match number {
        2 => Some("SERVER"),
        3 => Some("CLIENT"),
        4 => Some("PRODUCER"),
        5 => Some("CONSUMER"),
        _ => None,
    }
}

/// Returns an attribute's value as text: that of a string as it is, a list as one of JSON.
fn text_of(value: Option<Value>) -> Option<String> {
    match plain(value?)? {
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

/// Returns a value without the name of its type: `{"arrayValue": {"values": [{"stringValue": "a"}]}}` is `["a"]`.
fn plain(value: Value) -> Option<Value> {
    let Value::Object(typed) = value else { return None };
    match typed.into_iter().next()? {
        (kind, Value::Object(mut list)) if kind == "arrayValue" => match list.remove("values") {
            Some(Value::Array(values)) => Some(values.into_iter().filter_map(plain).collect()),
            _ => None,
        },
        (_, value) => Some(value),
    }
}

/// Reads a number of 64 bits, which OTLP's JSON has as text.
fn nanoseconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Text(String),
        Number(u64),
    }
    match Number::deserialize(deserializer)? {
        Number::Text(text) => text.parse().map_err(serde::de::Error::custom),
        Number::Number(number) => Ok(number),
    }
}
