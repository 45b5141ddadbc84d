//! Finds Go's message for malformed JSON text. Runs only after a decoder has failed, so the code favours clarity over speed.

/// The token that the scanner expects next.
#[derive(Clone, Copy, PartialEq)]
enum Want {
    /// A value.
    Value,
    /// A value, or the end of the list that has just begun.
    ItemOrEnd,
    /// A key, or the end of the map that has just begun.
    KeyOrEnd,
    /// A key.
    Key,
    /// The colon after a key.
    Colon,
    /// The token after a value: comma, closing bracket, or the end at the top level.
    After,
}

/// Returns Go's error message for `bytes`, or `None` for well-formed JSON.
pub(crate) fn explain(bytes: &[u8]) -> Option<String> {
    let mut at = 0;
    let mut open: Vec<u8> = Vec::new();
    let mut want = Want::Value;
    loop {
        while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            at += 1;
        }
        let Some(byte) = bytes.get(at).copied() else {
            let done = want == Want::After && open.is_empty();
            return (!done).then(end_of_input);
        };
        match want {
            Want::KeyOrEnd if byte == b'}' => {
                open.pop();
                want = Want::After;
                at += 1;
            }
            Want::ItemOrEnd if byte == b']' => {
                open.pop();
                want = Want::After;
                at += 1;
            }
            Want::Key | Want::KeyOrEnd if byte == b'"' => {
                at = match string(bytes, at) {
                    Ok(at) => at,
                    Err(text) => return Some(text),
                };
                want = Want::Colon;
            }
            Want::Key | Want::KeyOrEnd => return invalid(byte, "looking for beginning of object key string"),
            Want::Colon if byte == b':' => {
                want = Want::Value;
                at += 1;
            }
            Want::Colon => return invalid(byte, "after object key"),
            Want::Value | Want::ItemOrEnd => match byte {
                b'{' | b'[' => {
                    open.push(byte);
                    if open.len() > super::text::MAX_NESTING as usize {
                        return Some(exceeded(byte));
                    }
                    want = if byte == b'{' { Want::KeyOrEnd } else { Want::ItemOrEnd };
                    at += 1;
                }
                _ => {
                    at = match scalar(bytes, at, byte) {
                        Ok(at) => at,
                        Err(text) => return Some(text),
                    };
                    want = Want::After;
                }
            },
            Want::After => {
                want = match (open.last(), byte) {
                    (None, _) => return invalid(byte, "after top-level value"),
                    (Some(b'{'), b',') => Want::Key,
                    (Some(b'['), b',') => Want::Value,
                    (Some(b'{'), b'}') | (Some(b'['), b']') => {
                        open.pop();
                        Want::After
                    }
                    (Some(b'{'), _) => return invalid(byte, "after object key:value pair"),
                    _ => return invalid(byte, "after array element"),
                };
                at += 1;
            }
        }
    }
}

fn end_of_input() -> String {
    "unexpected end of JSON input".to_owned()
}

fn exceeded(byte: u8) -> String {
    format!("invalid character {} exceeded max depth", quoted(byte))
}

/// Returns the message for nesting that the decoder itself refuses.
pub(crate) fn too_deep() -> String {
    exceeded(b'{')
}

#[expect(clippy::unnecessary_wraps, reason = "every caller returns it")]
fn invalid(byte: u8, context: &str) -> Option<String> {
    Some(message(byte, context))
}

fn message(byte: u8, context: &str) -> String {
    format!("invalid character {} {context}", quoted(byte))
}

/// Returns a byte in Go's form: quoted like a character, interpreted as Latin-1.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let text = oarlock_meta::quote::quote(char::from(byte).encode_utf8(&mut [0; 4]));
            format!("'{}'", text.trim_matches('"'))
        }
    }
}

fn expect(bytes: &[u8], at: usize, ok: impl Fn(u8) -> bool, context: &str) -> Result<usize, String> {
    match bytes.get(at) {
        None => Err(end_of_input()),
        Some(byte) if ok(*byte) => Ok(at + 1),
        Some(byte) => Err(message(*byte, context)),
    }
}

fn string(bytes: &[u8], start: usize) -> Result<usize, String> {
    let mut at = start + 1;
    loop {
        let byte = bytes.get(at).copied().ok_or_else(end_of_input)?;
        at += 1;
        match byte {
            b'"' => return Ok(at),
            b'\\' => {
                let escape = bytes.get(at).copied();
                at = expect(bytes, at, |b| b"bfnrt\\/\"u".contains(&b), "in string escape code")?;
                if escape == Some(b'u') {
                    for _ in 0..4 {
                        at = expect(bytes, at, |b| b.is_ascii_hexdigit(), "in \\u hexadecimal character escape")?;
                    }
                }
            }
            0..=0x1f => return Err(message(byte, "in string literal")),
            _ => {}
        }
    }
}

fn scalar(bytes: &[u8], at: usize, first: u8) -> Result<usize, String> {
    match first {
        b'"' => string(bytes, at),
        b't' => word(bytes, at, "true"),
        b'f' => word(bytes, at, "false"),
        b'n' => word(bytes, at, "null"),
        b'-' | b'0'..=b'9' => number(bytes, at),
        _ => Err(message(first, "looking for beginning of value")),
    }
}

fn word(bytes: &[u8], start: usize, word: &str) -> Result<usize, String> {
    let mut at = start + 1;
    for want in word.bytes().skip(1) {
        let context = format!("in literal {word} (expecting '{}')", char::from(want));
        at = expect(bytes, at, |b| b == want, &context)?;
    }
    Ok(at)
}

fn number(bytes: &[u8], start: usize) -> Result<usize, String> {
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut at = start;
    if bytes.get(at) == Some(&b'-') {
        at = expect(bytes, at + 1, |b| b.is_ascii_digit(), "in numeric literal")? - 1;
    }
    at = if bytes.get(at) == Some(&b'0') { at + 1 } else { digits(at) };
    if bytes.get(at) == Some(&b'.') {
        at = digits(expect(bytes, at + 1, |b| b.is_ascii_digit(), "after decimal point in numeric literal")?);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(bytes.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        at = digits(expect(bytes, at, |b| b.is_ascii_digit(), "in exponent of numeric literal")?);
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::explain;

    #[test]
    fn speaks_as_go() {
        for (json, want) in [
            ("{}", None),
            (" [1, -0.5e+3, \"\\u00e9\", true, null, {\"a\":[]}] ", None),
            ("", Some("unexpected end of JSON input")),
            ("{\"a\":", Some("unexpected end of JSON input")),
            ("{\"a\" 1}", Some("invalid character '1' after object key")),
            ("{\"a\":1 2}", Some("invalid character '2' after object key:value pair")),
            ("{a:1}", Some("invalid character 'a' looking for beginning of object key string")),
            ("{\"a\":1,}", Some("invalid character '}' looking for beginning of object key string")),
            ("[1,]", Some("invalid character ']' looking for beginning of value")),
            ("[1 2]", Some("invalid character '2' after array element")),
            ("{} x", Some("invalid character 'x' after top-level value")),
            ("tru3", Some("invalid character '3' in literal true (expecting 'e')")),
            ("\"\n\"", Some("invalid character '\\n' in string literal")),
            ("\"\\x\"", Some("invalid character 'x' in string escape code")),
            ("\"\\u12g4\"", Some("invalid character 'g' in \\u hexadecimal character escape")),
            ("-x", Some("invalid character 'x' in numeric literal")),
            ("1.x", Some("invalid character 'x' after decimal point in numeric literal")),
            ("1ex", Some("invalid character 'x' in exponent of numeric literal")),
            ("01", Some("invalid character '1' after top-level value")),
            ("'", Some("invalid character '\\'' looking for beginning of value")),
            ("\u{ff}", Some("invalid character 'Ã' looking for beginning of value")),
        ] {
            assert_eq!(explain(json.as_bytes()).as_deref(), want, "{json}");
        }
        assert_eq!(explain(&b"[".repeat(10_001)).as_deref(), Some("invalid character '[' exceeded max depth"));
    }
}
