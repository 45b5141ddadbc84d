//! Go's `%q`: upstream's error texts quote names and values in this form, and clients match on the texts.

use std::fmt::Write as _;

/// Quotes `text` as Go's `strconv.Quote` does.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            ' '..='~' => out.push(c),
            c if (c as u32) < 0x80 => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if printable(c) => out.push(c),
            c if (c as u32) < 0x1_0000 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => {
                let _ = write!(out, "\\U{:08x}", c as u32);
            }
        }
    }
    out.push('"');
    out
}

/// Whether Go's `unicode.IsPrint` holds for a character.
#[must_use]
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() { matches!(c, ' '..='~') } else { printable(c) }
}

/// Whether a character is printable. The standard library exposes its table of printable characters only through `escape_debug`, which also escapes combining
/// marks at the start of a text; so the character is placed second.
fn printable(c: char) -> bool {
    let mut pair = [0_u8; 8];
    let mut text = String::from("a");
    text.push_str(c.encode_utf8(&mut pair));
    text.escape_debug().nth(1) == Some(c)
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn quotes_as_go() {
        for (text, want) in [
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("a\"b\\", r#""a\"b\\""#),
            ("\n\t\u{7}\u{0}\u{7f}", r#""\n\t\a\x00\x7f""#),
            ("é日\u{301}", "\"é日\u{301}\""),
            ("\u{200b}\u{a0}", r#""\u200b\u00a0""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(quote(text), want);
        }
    }
}
