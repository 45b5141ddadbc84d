//! The ID of a request in the audit log, as a header of the request and of its answer (upstream: `WithAuditInit`).

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use oarlock_runtime::rng;

/// Header with the ID, in requests and answers.
const HEADER: HeaderName = HeaderName::from_static("audit-id");

/// The ID of one request.
#[derive(Clone, Debug)]
pub(crate) struct AuditId(HeaderValue);

impl AuditId {
    /// Returns the ID that the client states, else a new one. As upstream, a stated ID may have any length and content that a header may have; an empty one
    /// counts as none.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let stated = headers.get(HEADER).filter(|value| !value.is_empty()).cloned();
        // The text of a UUID is a valid header, so an ID is never missing.
        let mut id = stated.or_else(|| {
            let (uuid, mut text) = (rng::uuid().hyphenated(), [0; 36]);
            HeaderValue::from_str(uuid.encode_lower(&mut text)).ok()
        })?;
        // An ID does not repeat: in HPACK's table of the connection it would displace headers that do. HPACK keeps sensitive values out.
        id.set_sensitive(true);
        Some(Self(id))
    }

    /// Returns the ID as text; bytes that are not UTF-8 are replaced.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.0.as_bytes())
    }

    /// Adds the ID to the answer. The answer that switches protocols is the backend's and stays as it is.
    pub(super) fn echo<B>(self, response: &mut Response<B>) {
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            response.headers_mut().insert(HEADER, self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(id: &[u8]) -> HeaderMap {
        HeaderMap::from_iter([(HEADER, HeaderValue::from_bytes(id).unwrap())])
    }

    fn echoed(id: AuditId, code: StatusCode) -> Option<Vec<u8>> {
        let mut response = Response::new(());
        *response.status_mut() = code;
        id.echo(&mut response);
        response.headers().get(HEADER).map(|value| value.as_bytes().to_vec())
    }

    #[test]
    fn a_stated_id_is_kept_whatever_it_is() {
        let long = "x".repeat(10_000);
        for id in ["a", "no uuid; at all", &long, "\u{e9}"] {
            let audit = AuditId::of(&stated(id.as_bytes())).unwrap();
            assert_eq!(audit.text(), id);
            assert_eq!(echoed(audit, StatusCode::FORBIDDEN).unwrap(), id.as_bytes());
        }
        let latin = AuditId::of(&stated(b"\xe9")).unwrap();
        assert_eq!(latin.text(), "\u{fffd}");
        assert_eq!(echoed(latin, StatusCode::OK).unwrap(), b"\xe9");
    }

    #[test]
    fn a_request_without_an_id_gets_one_of_its_own() {
        for headers in [HeaderMap::new(), stated(b"")] {
            let [one, other] = [AuditId::of(&headers).unwrap(), AuditId::of(&headers).unwrap()];
            assert_eq!(one.text().len(), 36);
            assert_ne!(one.text(), other.text());
        }
    }

    #[test]
    fn the_answer_of_a_backend_that_switches_protocols_is_left_alone() {
        let audit = AuditId::of(&HeaderMap::new()).unwrap();
        assert_eq!(echoed(audit, StatusCode::SWITCHING_PROTOCOLS), None);
    }
}
