//! Content negotiation: the encoding of a request and of its answer, by `Content-Type` and `Accept` as upstream reads the headers.

use std::cmp::Ordering;

use oarlock_meta::Status;

/// An encoding of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

impl Format {
    /// All encodings in order of preference, which decides if a client accepts any.
    pub const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    /// Returns the media type.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Returns the `Content-Type` of a watch in this encoding; YAML has none.
    #[must_use]
    pub const fn stream_type(self) -> Option<&'static str> {
        match self {
            Self::Json => Some("application/json"),
            Self::Yaml => None,
            Self::Protobuf => Some("application/vnd.kubernetes.protobuf;stream=watch"),
        }
    }

    fn subtype(self) -> &'static str {
        self.media_type().strip_prefix("application/").unwrap_or("")
    }
}

/// The form of the object in the answer: the object itself, a table, or metadata only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Transform {
    /// The object unchanged.
    #[default]
    None,
    /// A `Table` (`as=Table`).
    Table,
    /// A `PartialObjectMetadata`.
    Metadata,
    /// A `PartialObjectMetadataList`.
    MetadataList,
}

/// The encoding and form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Representation {
    /// The encoding.
    pub format: Format,
    /// The form of the object.
    pub transform: Transform,
    /// Version of the form in `meta.k8s.io`: `v1` or `v1beta1`; `v1` for an object itself.
    pub version: &'static str,
    /// Whether the media type asks for indented JSON.
    pub pretty: bool,
}

impl Representation {
    /// Plain JSON.
    pub const JSON: Self = Self { format: Format::Json, transform: Transform::None, version: "v1", pretty: false };
}

/// The encodings and forms that an endpoint supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether objects have a protobuf form. Custom resources have none, but their metadata does.
    pub protobuf: bool,
    /// Whether objects can be shown as tables and as metadata.
    pub transforms: bool,
}

impl Endpoint {
    /// The endpoint of a built-in resource.
    pub const BUILT_IN: Self = Self { protobuf: true, transforms: true };
    /// The endpoint of a custom resource.
    pub const CUSTOM: Self = Self { protobuf: false, transforms: true };
    /// The endpoint of objects that are no resource: discovery, version, errors.
    pub const PLAIN: Self = Self { protobuf: true, transforms: false };
}

const ACCEPTED: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const ACCEPTED_STREAMS: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// One alternative of an `Accept` header.
#[derive(Debug)]
struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f64,
    params: Vec<(&'a str, &'a str)>,
}

/// Chooses the representation of an answer.
///
/// # Errors
/// 406 with upstream's text when the client accepts none of the endpoint's representations.
pub fn output(accept: &str, endpoint: Endpoint) -> Result<Representation, Status> {
    choose(accept, endpoint).ok_or_else(|| Status::not_acceptable(&ACCEPTED))
}

/// Chooses the representation of a watch.
///
/// # Errors
/// 406 with upstream's text, also when the best match is YAML, which cannot be streamed.
pub fn stream(accept: &str, endpoint: Endpoint) -> Result<Representation, Status> {
    choose(accept, endpoint)
        .filter(|chosen| chosen.format.stream_type().is_some())
        .ok_or_else(|| Status::not_acceptable(&ACCEPTED_STREAMS))
}

/// Returns the encoding of a request body. An empty type is JSON.
///
/// # Errors
/// 415 with upstream's text.
pub fn input(content_type: &str) -> Result<Format, Status> {
    if content_type.is_empty() {
        return Ok(Format::Json);
    }
    let known = |media: &str| Format::ALL.into_iter().find(|format| format.media_type() == media);
    known(content_type)
        .or_else(|| known(&media_type(content_type)?))
        .ok_or_else(|| Status::unsupported_media_type(&ACCEPTED))
}

/// Returns the media type of a `Content-Type` header in lower case, without its parameters; `None` for a malformed header.
#[must_use]
pub fn media_type(content_type: &str) -> Option<String> {
    let (media, mut params) = content_type.split_once(';').unwrap_or((content_type, ""));
    let media = media.trim().to_ascii_lowercase();
    let (kind, subtype) = media.split_once('/')?;
    if !is_token(kind) || !is_token(subtype) {
        return None;
    }
    let mut seen: Vec<String> = Vec::new();
    while !params.trim().is_empty() {
        let (name, rest) = params.split_once('=')?;
        let name = name.trim().to_ascii_lowercase();
        let rest = param_value(rest)?.trim_start();
        if !is_token(&name) || seen.contains(&name) {
            return None;
        }
        seen.push(name);
        params = match rest.strip_prefix(';') {
            Some(more) => more,
            None if rest.is_empty() => "",
            None => return None,
        };
    }
    Some(media)
}

/// Skips a token or a quoted text and returns the remaining text.
fn param_value(text: &str) -> Option<&str> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ' ', '\t']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return is_token(value).then_some(rest);
    };
    let mut escaped = false;
    for (at, c) in quoted.char_indices() {
        match c {
            '"' if !escaped => return quoted.get(at + 1..),
            _ => escaped = !escaped && c == '\\',
        }
    }
    None
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&b))
}

/// Whether a request asks for indented JSON: by `pretty` in its query, or by a user agent that people use interactively.
#[must_use]
pub fn wants_pretty(pretty: Option<&str>, user_agent: &str) -> bool {
    match pretty {
        Some(value) if !value.is_empty() => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        _ => ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| user_agent.starts_with(tool)),
    }
}

fn choose(accept: &str, endpoint: Endpoint) -> Option<Representation> {
    if accept.is_empty() {
        return Some(Representation::JSON);
    }
    for clause in clauses(accept) {
        for format in Format::ALL {
            let matches = match (clause.kind, clause.subtype) {
                ("*" | "application", "*") => true,
                ("application", subtype) => subtype == format.subtype(),
                _ => false,
            };
            if matches && let Some(chosen) = accepts(&clause, format, endpoint) {
                return Some(chosen);
            }
        }
    }
    None
}

/// Returns the alternatives, best first. Upstream's order is no strict weak order (a concrete type goes before a wildcard of any
/// quality), so the result depends on upstream's sort, an insertion sort for so few items, which is repeated here.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut sorted: Vec<Clause<'_>> = Vec::new();
    for clause in accept.split(',').filter_map(clause) {
        let mut at = sorted.len();
        while at > 0 && sorted.get(at - 1).is_some_and(|before| goes_before(&clause, before)) {
            at -= 1;
        }
        sorted.insert(at, clause);
    }
    sorted
}

fn goes_before(a: &Clause<'_>, b: &Clause<'_>) -> bool {
    a.quality.partial_cmp(&b.quality) == Some(Ordering::Greater)
        || (a.kind != "*" && b.kind == "*")
        || (a.subtype != "*" && b.subtype == "*")
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let text = text.trim_matches(' ');
    let (media, params) = text.split_once(';').unwrap_or((text, ""));
    let (kind, subtype) = match media.split_once('/') {
        Some((kind, subtype)) if !subtype.is_empty() => (kind.trim_matches(' '), subtype),
        _ if media.trim_matches([' ', '/']) == "*" => ("*", "*"),
        _ => return None,
    };
    if subtype.contains('/') {
        return None;
    }
    let mut clause = Clause { kind, subtype: subtype.trim_matches(' '), quality: 1.0, params: Vec::new() };
    for param in params.split(';') {
        let Some((name, value)) = param.split_once('=') else { continue };
        if value.is_empty() || value.contains('=') {
            continue;
        }
        match name.trim_matches(' ') {
            // An unreadable quality counts as zero.
            "q" => clause.quality = value.parse().unwrap_or(0.0),
            name => clause.params.push((name, value.trim_matches(' '))),
        }
    }
    Some(clause)
}

/// Returns the representation that a clause asks of a format; `None` when the endpoint does not support the representation.
fn accepts(clause: &Clause<'_>, format: Format, endpoint: Endpoint) -> Option<Representation> {
    let param = |name: &str| clause.params.iter().rev().find(|(n, _)| *n == name).map(|(_, value)| *value);
    if param("stream").is_some_and(|schema| schema != "watch" || format == Format::Yaml) || param("sv").is_some() {
        return None;
    }
    let pretty = param("pretty") == Some("1");
    let (kind, group, version) = (param("as"), param("g"), param("v"));
    if kind.is_none() && group.is_none() && version.is_none() {
        let possible = endpoint.protobuf || format != Format::Protobuf;
        return possible.then_some(Representation { format, pretty, ..Representation::JSON });
    }
    let version = match version {
        Some("v1") => "v1",
        Some("v1beta1") => "v1beta1",
        _ => return None,
    };
    let transform = match kind {
        Some("Table") if format != Format::Protobuf => Transform::Table,
        Some("PartialObjectMetadata") => Transform::Metadata,
        Some("PartialObjectMetadataList") => Transform::MetadataList,
        _ => return None,
    };
    let possible = endpoint.transforms && group == Some("meta.k8s.io");
    possible.then_some(Representation { format, transform, version, pretty })
}

#[cfg(test)]
mod tests;
