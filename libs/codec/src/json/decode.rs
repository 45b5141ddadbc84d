//! Decodes JSON bytes into canonical structs or untyped values.

use std::borrow::Cow;

use oarlock_schema::{Obj, TypeRef, Value};

use super::syntax;
use super::text::Text;
use crate::error::DecodeError;
use crate::source::Fail;
use crate::stamp::stamp;
use crate::walk::{Decoded, Mode, Walk};
use crate::wanted::Wanted;

/// Decodes an object of type `ty` in one pass into canonical form. If the text states no `kind` and `apiVersion`, those of `ty` are set; the caller must check
/// a stated kind ([`peek_gvk`](super::peek_gvk)).
///
/// [`DecodeError`] with upstream's text: a syntax error anywhere takes precedence over a value that its own decoder refuses (quantities, times), which takes
/// precedence over the first type error.
pub fn decode(bytes: &[u8], ty: TypeRef, mode: Mode) -> Result<Decoded<Obj>, DecodeError> {
    decode_noting(bytes, ty, mode).map(|(decoded, _)| decoded)
}

/// Decodes like [`decode`], but only the wanted fields.
///
/// # Errors
/// As [`decode`]; unwanted values need only be valid JSON.
pub fn decode_wanted(bytes: &[u8], ty: TypeRef, wanted: &Wanted) -> Result<Obj, DecodeError> {
    let text = utf8(bytes);
    let mut walk = Walk::new(Text::new(&text), Mode::Lenient);
    walk.wanted = wanted;
    let root = walk.root(ty);
    finish(&mut walk, root, bytes).map(|root| Obj::from_root(stamp(root)))
}

/// Decodes like [`decode`]; also returns whether peeking would find another kind than the object states.
pub(crate) fn decode_noting(bytes: &[u8], ty: TypeRef, mode: Mode) -> Result<(Decoded<Obj>, bool), DecodeError> {
    let text = utf8(bytes);
    let mut walk = Walk::new(Text::new(&text), mode);
    let root = walk.root(ty);
    let root = finish(&mut walk, root, bytes)?;
    let shadowed = walk.shadowed;
    Ok((Decoded { value: Obj::from_root(stamp(root)), findings: walk.findings }, shadowed))
}

/// Decodes any JSON value without a schema: maps sorted by key, whole numbers as [`Value::Int`], other numbers as Go's
/// `float64` prints them. In [`Mode::Strict`] duplicate keys are findings.
///
/// # Errors
/// [`DecodeError`] with upstream's text.
pub fn decode_value(bytes: &[u8], mode: Mode) -> Result<Decoded<Value>, DecodeError> {
    let text = utf8(bytes);
    let mut walk = Walk::new(Text::new(&text), mode);
    let value = walk.any(&crate::frame::Frame::ROOT, false);
    let value = finish(&mut walk, value, bytes)?;
    Ok(Decoded { value, findings: walk.findings })
}

fn finish<T>(walk: &mut Walk<'_, Text<'_>>, result: Result<T, Fail>, bytes: &[u8]) -> Result<T, DecodeError> {
    let value = match result {
        Ok(value) if walk.src.at_end() => value,
        Ok(_) | Err(Fail::Syntax) => return Err(bad_syntax(bytes)),
        Err(Fail::Depth) => return Err(bad_syntax(bytes)),
        Err(Fail::Value(text)) => {
            // Upstream checks the syntax of the whole text before decoding any value.
            return Err(match syntax::explain(bytes) {
                Some(text) => DecodeError::Syntax(text),
                None => DecodeError::Value(String::from(*text)),
            });
        }
    };
    match walk.saved.take() {
        Some(text) => Err(DecodeError::Value(text.into())),
        None => Ok(value),
    }
}

/// Returns the error for bytes that failed to decode. If they are well-formed for Go, the nesting is too deep for a tree.
#[cold]
pub(crate) fn bad_syntax(bytes: &[u8]) -> DecodeError {
    DecodeError::Syntax(syntax::explain(bytes).unwrap_or_else(syntax::too_deep))
}

/// Returns the bytes as text; each byte that is not UTF-8 becomes U+FFFD, as in Go's decoder.
pub(crate) fn utf8(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(mended(bytes)),
    }
}

#[cold]
fn mended(mut bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 16);
    while !bytes.is_empty() {
        let good = match std::str::from_utf8(bytes) {
            Ok(rest) => rest,
            Err(error) => {
                let valid = bytes.get(..error.valid_up_to()).unwrap_or(&[]);
                std::str::from_utf8(valid).unwrap_or("")
            }
        };
        out.push_str(good);
        bytes = bytes.get(good.len()..).unwrap_or(&[]);
        if let Some((_, rest)) = bytes.split_first() {
            out.push(char::REPLACEMENT_CHARACTER);
            bytes = rest;
        }
    }
    out
}
