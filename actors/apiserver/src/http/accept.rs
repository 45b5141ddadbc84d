//! Content negotiation: the form of answer that a client asks for by headers and query, matched with the forms that the endpoint has.

use http::{HeaderMap, header};
use oarlock_codec::negotiate::{self, Endpoint};
pub use oarlock_codec::negotiate::{Format, Representation, Transform};
use oarlock_meta::Status;
use oarlock_schema::Resource;

use super::options::Query;

/// What each row of a Table contains besides its cells (`includeObject`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Include {
    /// The object's metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

/// The form in which one answer is encoded.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Encoding and content.
    pub form: Representation,
    /// Whether JSON is written with line breaks.
    pub pretty: bool,
    /// Whether long answers may be compressed.
    pub gzip: bool,
    /// What each row of a Table contains besides its cells.
    pub include: Include,
}

impl Wanted {
    /// Negotiates the form of the answer to a request for a resource.
    ///
    /// # Errors
    /// 406 when the client accepts none of the available forms, 400 for an unknown `includeObject`.
    pub fn new(
        headers: &HeaderMap,
        query: &Query,
        row: &Resource,
        subresource: &str,
        watch: bool,
    ) -> Result<Self, Status> {
        let text = |name| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("");
        let (accept, endpoint) = (text(header::ACCEPT), endpoint(row, subresource));
        let form = if watch { negotiate::stream(accept, endpoint)? } else { negotiate::output(accept, endpoint)? };
        let include = match (form.transform, query.get("includeObject")) {
            (Transform::Table, value) => include(value)?,
            _ => Include::default(),
        };
        let pretty = query.has("pretty").then(|| query.get("pretty"));
        let pretty = form.pretty || negotiate::wants_pretty(pretty, text(header::USER_AGENT));
        let gzip = text(header::ACCEPT_ENCODING).split(',').any(|coding| coding.trim() == "gzip");
        Ok(Self { form, pretty: pretty && form.format == Format::Json && !watch, gzip, include })
    }
}

fn include(value: &str) -> Result<Include, Status> {
    match value {
        "" | "Metadata" => Ok(Include::Metadata),
        "Object" => Ok(Include::Object),
        "None" => Ok(Include::None),
        other => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
            oarlock_meta::quote::quote(other)
        ))),
    }
}

/// Returns the forms that an endpoint has: listable resources and scales can be Tables and metadata; reviews, tokens and evictions cannot.
fn endpoint(row: &Resource, subresource: &str) -> Endpoint {
    let kind = row.subresource(subresource).map(|sub| sub.gvk.kind);
    if row.has_verb("list") && kind.is_none_or(|kind| kind == row.kind || kind == "Scale") {
        Endpoint::BUILT_IN
    } else {
        Endpoint::PLAIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oarlock_schema::resource;

    fn wanted(accept: &str, query: &str, plural: &str, subresource: &str) -> Result<Wanted, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        let row = resource("", "v1", plural).unwrap();
        Wanted::new(&headers, &Query::new(query), row, subresource, false).map_err(|s| s.code)
    }

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

    #[test]
    fn stored_objects_have_tables_and_tokens_have_none() {
        assert_eq!(wanted(TABLE, "", "pods", "").unwrap().form.transform, Transform::Table);
        assert_eq!(wanted(TABLE, "", "pods", "status").unwrap().form.transform, Transform::Table);
        assert_eq!(wanted(TABLE, "", "replicationcontrollers", "scale").unwrap().form.transform, Transform::Table);
        assert_eq!(wanted(TABLE, "", "serviceaccounts", "token").unwrap_err(), 406);
    }

    #[test]
    fn unknown_words_in_include_object_are_refused_for_tables_alone() {
        assert_eq!(wanted(TABLE, "includeObject=Bad", "pods", "").unwrap_err(), 400);
        assert!(wanted("application/json", "includeObject=Bad", "pods", "").is_ok());
    }
}
