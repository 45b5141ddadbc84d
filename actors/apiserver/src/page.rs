//! Continue tokens of lists: the key and revision at which a page ended, in upstream's form, so that clients can continue at another server.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oarlock_codec::{Mode, json};
use oarlock_meta::{Revision, Status};
use oarlock_schema::{Str, Value};

/// A decoded continue token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    /// Revision of the list; zero means the latest state (upstream: -1).
    pub revision: Revision,
    /// First key of the next page, without the resource's prefix.
    pub start: Str,
}

impl Token {
    /// Encodes the token.
    #[must_use]
    pub(crate) fn encode(&self) -> Str {
        let rv = if self.revision > Revision::ZERO { i64::try_from(self.revision.get()).unwrap_or(-1) } else { -1 };
        let body = serde_json::json!({"v": "meta.k8s.io/v1", "rv": rv, "start": self.start.as_str()});
        Str::from(URL_SAFE_NO_PAD.encode(body.to_string()))
    }

    /// Decodes a token.
    ///
    /// # Errors
    /// 400 when the text is not a token.
    pub(crate) fn decode(text: &str) -> Result<Self, Status> {
        let bad = |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|e| bad(&e.to_string()))?;
        let body = json::decode_value(&bytes, Mode::Lenient).map_err(|e| bad(&e.to_string()))?.value;
        let version = body.get("v").and_then(Value::as_str).unwrap_or("");
        if version != "meta.k8s.io/v1" {
            return Err(bad(&format!("server does not recognize this encoded version {version}")));
        }
        let rv = body.get("rv").and_then(Value::as_int).unwrap_or(0);
        if rv == 0 {
            return Err(bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        let start = body.get("start").and_then(Value::as_str).unwrap_or("");
        if start.is_empty() || start.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(bad("encoded start key contains no valid path"));
        }
        Ok(Self { revision: Revision(u64::try_from(rv).unwrap_or(0)), start: start.trim_start_matches('/').into() })
    }
}

/// Returns a 410 with a token that continues at the latest state, which gives up consistency between the pages.
#[must_use]
pub(crate) fn expired(start: &str) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue \
         parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided \
         token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was \
         returned and now may show up in the list.",
    );
    status.continue_token = Some(Token { revision: Revision::ZERO, start: start.into() }.encode().as_str().into());
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_its_encoding() {
        let token = Token { revision: Revision(7), start: "default/web".into() };
        assert_eq!(Token::decode(&token.encode()).unwrap(), token);
    }

    #[test]
    fn damaged_tokens_are_refused_or_stay_within_the_resource() {
        let token = Token { revision: Revision(7), start: "default/web".into() }.encode();
        let inside = String::from_utf8(URL_SAFE_NO_PAD.decode(token.as_str()).unwrap()).unwrap();
        let insides = oarlock_testkit::damaged(1, inside.as_bytes(), 3000).map(|body| URL_SAFE_NO_PAD.encode(body));
        let mut read = 0;
        for text in insides.chain(oarlock_testkit::damaged_text(2, &token, 3000)) {
            match Token::decode(&text) {
                Ok(token) => {
                    read += 1;
                    assert!(
                        !token.start.starts_with('/') && token.start.split('/').all(|part| part != ".."),
                        "{token:?}"
                    );
                }
                Err(status) => assert_eq!(status.code, 400),
            }
        }
        assert!(read > 100, "only {read} were still readable");
    }

    #[test]
    fn foreign_tokens_are_refused() {
        let zero = URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#);
        let outside = URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":4,"start":"../secrets/x"}"#);
        for bad in ["", "!", "e30", &zero, &outside] {
            assert_eq!(Token::decode(bad).unwrap_err().code, 400, "{bad}");
        }
        let text = "invalid continue token: continue key is not valid: invalid character '\\u009e' looking for beginning of value";
        assert_eq!(Token::decode("nonsense").unwrap_err().message, text);
    }
}
