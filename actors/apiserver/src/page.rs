//! Continue tokens of lists: the key and revision at which a page ended, in upstream's form, so that clients can continue at another server.

use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use base64::engine::{DecodePaddingMode, Engine as _};
use base64::{DecodeError, alphabet};
use oarlock_codec::{Mode, json};
use oarlock_meta::{Revision, Status};
use oarlock_schema::{Str, Value};

/// Decoder of the text of tokens. As Go's, it ignores the bits of the last character that belong to no byte.
const LENIENT_URL_SAFE: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// Returns the error that Go states for a text that is no base64.
fn illegal(text: &str, error: &DecodeError) -> String {
    let at = match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol { offset: at, .. } => *at,
        DecodeError::InvalidLength(length) => length.saturating_sub(1),
        DecodeError::InvalidPadding => text.find('=').unwrap_or(0),
    };
    format!("illegal base64 data at input byte {at}")
}

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
        let bytes = LENIENT_URL_SAFE.decode(text).map_err(|e| bad(&illegal(text, &e)))?;
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
        if start.is_empty() {
            return Err(bad("encoded start key empty (version meta.k8s.io/v1)"));
        }
        let inside = start.strip_prefix('/').unwrap_or(start);
        if !inside.is_empty() && inside.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(bad(start));
        }
        Ok(Self { revision: Revision(u64::try_from(rv).unwrap_or(0)), start: inside.into() })
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
        let inside = |text: &str| URL_SAFE_NO_PAD.encode(text);
        // Each reason is a live v1.35.0 server's.
        for (token, reason) in [
            ("nonsense", "invalid character '\\u009e' looking for beginning of value"),
            ("garbage", "invalid character '\\u0081' looking for beginning of value"),
            ("!!", "illegal base64 data at input byte 0"),
            ("e30=", "illegal base64 data at input byte 3"),
            ("e30aa", "illegal base64 data at input byte 4"),
            (&inside("{}"), "server does not recognize this encoded version "),
            (&inside(r#"{"v":"v"}"#), "server does not recognize this encoded version v"),
            (&zero, "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
            (&inside(r#"{"v":"meta.k8s.io/v1","rv":5}"#), "encoded start key empty (version meta.k8s.io/v1)"),
            (&inside(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"../a"}"#), "../a"),
            (&inside(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"a//b"}"#), "a//b"),
        ] {
            let text = format!("invalid continue token: continue key is not valid: {reason}");
            assert_eq!(Token::decode(token).unwrap_err().message, text);
        }
    }
}
