//! Lexes the literals of numbers, texts and bytes.

use crate::lexer::Token;
use crate::value::Value;

pub(super) const BAD_ESCAPE: &str = "unable to unescape string";

/// The value of a quoted literal, as raw bytes.
pub(super) struct Quoted {
    pub(super) bytes: bool,
    pub(super) content: Result<Vec<u8>, &'static str>,
}

/// Reads a number at the beginning of the text; returns the token and its length.
pub(super) fn number(rest: &str) -> (Token, usize) {
    let digits = |from: usize, hex: bool| {
        let is = |b: &u8| if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() };
        rest.bytes().skip(from).take_while(is).count()
    };
    let hex = rest.starts_with("0x") && digits(2, true) > 0;
    let mut len = if hex { 2 + digits(2, true) } else { digits(0, false) };
    let mut float = false;
    if !hex {
        if rest.as_bytes().get(len) == Some(&b'.') && digits(len + 1, false) > 0 {
            len += 1 + digits(len + 1, false);
            float = true;
        }
        if matches!(rest.as_bytes().get(len), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.as_bytes().get(len + 1), Some(b'+' | b'-')));
            let exponent = digits(len + 1 + sign, false);
            if exponent > 0 {
                len += 1 + sign + exponent;
                float = true;
            }
        }
    }
    let text = rest.get(..len).unwrap_or_default();
    if float {
        let value = text.parse::<f64>().ok().filter(|n| n.is_finite());
        return (Token::Literal(value.map(Value::Double).ok_or("invalid double literal")), len);
    }
    let (body, radix) = if hex { (text.get(2..).unwrap_or_default(), 16) } else { (text, 10) };
    let value = u64::from_str_radix(body, radix).ok();
    if matches!(rest.as_bytes().get(len), Some(b'u' | b'U')) {
        return (Token::Literal(value.map(Value::Uint).ok_or("invalid uint literal")), len + 1);
    }
    if value == Some(1 << 63) {
        return (Token::LeastInt, len);
    }
    let value = value.and_then(|n| i64::try_from(n).ok());
    (Token::Literal(value.map(Value::Int).ok_or("invalid int literal")), len)
}

/// Reads a quoted text or bytes at the beginning; returns the value and its length. `None` when no quoted literal begins here, `Err` with the length of the invalid part.
pub(super) fn quoted(rest: &str) -> Option<Result<(Quoted, usize), usize>> {
    let all = rest.as_bytes();
    let mut at = 0;
    let mut prefix = |letters: &[u8; 2]| {
        let has = all.get(at).is_some_and(|b| letters.contains(b));
        at += usize::from(has);
        has
    };
    let (bytes, raw) = (prefix(b"bB"), prefix(b"rR"));
    let quote = *all.get(at).filter(|b| matches!(b, b'"' | b'\''))?;
    let three = [quote; 3];
    // Three quotes without an end are an empty text and the beginning of another.
    let long = all.get(at..).and_then(|r| r.strip_prefix(&three)).is_some_and(|r| r.windows(3).any(|w| w == three));
    let close = if long { &three[..] } else { &three[..1] };
    at += close.len();
    let mut content = Ok(Vec::new());
    loop {
        let ahead = all.get(at..).unwrap_or_default();
        if ahead.starts_with(close) {
            return Some(Ok((Quoted { bytes, content }, at + close.len())));
        }
        let (piece, len) = match ahead {
            [] => return Some(Err(at)),
            [b'\n' | b'\r', ..] if !long => return Some(Err(at)),
            [b'\\', escaped @ ..] if !raw => match escape(escaped, bytes) {
                Ok((piece, len)) => (piece, len + 1),
                Err(len) => return Some(Err(at + 1 + len)),
            },
            [byte, ..] => (Some(vec![*byte]), 1),
        };
        match (piece, &mut content) {
            (Some(piece), Ok(content)) => content.extend(piece),
            (None, content) => *content = Err(BAD_ESCAPE),
            (Some(_), Err(_)) => {}
        }
        at += len;
    }
}

/// Reads an escape after its backslash; returns its bytes (`None` for no bytes) and its length, or `Err` with the length of the invalid escape.
fn escape(ahead: &[u8], bytes: bool) -> Result<(Option<Vec<u8>>, usize), usize> {
    let digits = |skip: usize, len: usize, radix: u32| {
        let text = ahead.get(skip..skip + len).and_then(|d| std::str::from_utf8(d).ok());
        let good = text.filter(|text| text.chars().all(|c| c.is_digit(radix)));
        good.and_then(|text| u32::from_str_radix(text, radix).ok()).ok_or(skip + 1)
    };
    let utf8 = |code: u32| char::from_u32(code).map(|c| c.to_string().into_bytes());
    // In bytes these escapes give one byte, in a text a character.
    let small = |code: u32| if bytes { u8::try_from(code).ok().map(|b| vec![b]) } else { utf8(code) };
    let plain = |byte: u8| Ok((Some(vec![byte]), 1));
    match ahead.first() {
        Some(b'a') => plain(7),
        Some(b'b') => plain(8),
        Some(b'f') => plain(12),
        Some(b'n') => plain(b'\n'),
        Some(b'r') => plain(b'\r'),
        Some(b't') => plain(b'\t'),
        Some(b'v') => plain(11),
        Some(byte @ (b'"' | b'\'' | b'\\' | b'?' | b'`')) => plain(*byte),
        Some(b'x' | b'X') => Ok((small(digits(1, 2, 16)?), 3)),
        Some(b'u') => Ok((utf8(digits(1, 4, 16)?).filter(|_| !bytes), 5)),
        Some(b'U') => Ok((utf8(digits(1, 8, 16)?).filter(|_| !bytes), 9)),
        Some(b'0'..=b'3') => Ok((small(digits(0, 3, 8)?), 3)),
        _ => Err(1),
    }
}
