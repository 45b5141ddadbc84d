//! Writes YAML answers: block style, maps sorted by key, lists at the indentation of their key, as upstream prints them.

use oarlock_schema::{Struct, Value};

use super::resolve;
use crate::json;
use crate::tree;

/// Encodes an object, with a line break at the end.
#[must_use]
pub fn encode(root: &Struct) -> Vec<u8> {
    encode_value(&tree::untype(root))
}

/// Encodes a generic value, with a line break at the end.
#[must_use]
pub fn encode_value(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    match value {
        Value::Map(map) if !map.is_empty() => block_map(value, 0, &mut out),
        Value::List(items) if !items.is_empty() => block_list(value, 0, &mut out),
        other => {
            scalar(other, 0, &mut out);
        }
    }
    out
}

fn indent(level: usize, out: &mut Vec<u8>) {
    for _ in 0..level {
        out.extend_from_slice(b"  ");
    }
}

/// Writes the entries of a map; the first one goes to the cursor's position.
fn block_map(value: &Value, level: usize, out: &mut Vec<u8>) {
    let Value::Map(map) = value else { return };
    for (index, (key, item)) in map.iter().enumerate() {
        if index > 0 {
            indent(level, out);
        }
        text(key, None, out);
        out.push(b':');
        match item {
            Value::Map(inner) if !inner.is_empty() => {
                out.push(b'\n');
                indent(level + 1, out);
                block_map(item, level + 1, out);
            }
            Value::List(inner) if !inner.is_empty() => {
                out.push(b'\n');
                indent(level, out);
                block_list(item, level, out);
            }
            _ => {
                out.push(b' ');
                scalar(item, level + 1, out);
            }
        }
    }
}

fn block_list(value: &Value, level: usize, out: &mut Vec<u8>) {
    for (index, item) in value.items().iter().enumerate() {
        if index > 0 {
            indent(level, out);
        }
        out.extend_from_slice(b"- ");
        match item {
            Value::Map(inner) if !inner.is_empty() => block_map(item, level + 1, out),
            Value::List(inner) if !inner.is_empty() => block_list(item, level + 1, out),
            _ => scalar(item, level + 1, out),
        }
    }
}

/// Writes a value on one line (or as a literal block), with its line break.
fn scalar(value: &Value, level: usize, out: &mut Vec<u8>) {
    match value {
        Value::Str(s) => text(s, Some(level), out),
        Value::Map(_) => out.extend_from_slice(b"{}"),
        Value::List(_) => out.extend_from_slice(b"[]"),
        other => json::encode_value(other, out),
    }
    if out.last() != Some(&b'\n') {
        out.push(b'\n');
    }
}

/// Writes a text: plain if safe, as a literal block for several lines if `block` allows one, else in double quotes.
fn text(s: &str, block: Option<usize>, out: &mut Vec<u8>) {
    if is_plain(s) {
        out.extend_from_slice(s.as_bytes());
        return;
    }
    if let Some(level) = block
        && is_literal(s)
    {
        let body = s.trim_end_matches('\n');
        out.extend_from_slice(match s.len() - body.len() {
            0 => b"|-\n".as_slice(),
            1 => b"|\n",
            _ => b"|+\n",
        });
        for line in s.strip_suffix('\n').unwrap_or(s).split('\n') {
            if !line.is_empty() {
                indent(level.max(1), out);
                out.extend_from_slice(line.as_bytes());
            }
            out.push(b'\n');
        }
        return;
    }
    quoted(s, out);
}

/// Whether YAML 1.1 and 1.2 both read the unquoted text as the same text.
fn is_plain(s: &str) -> bool {
    let Some(first) = s.chars().next() else { return false };
    let safe = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(
                c,
                '_' | '-' | '.' | '/' | ':' | ' ' | '+' | '=' | ',' | '@' | '(' | ')' | ';' | '$' | '^' | '~'
            )
    };
    let starts = first.is_ascii_alphanumeric() || matches!(first, '_' | '/' | '.' | '$' | '(' | '^');
    let numeric = (first.is_ascii_digit() || first == '.')
        && s.chars()
            .all(|c| c.is_ascii_hexdigit() || matches!(c, '.' | '-' | '+' | ':' | '_' | 'x' | 'o' | 'T' | 'Z' | ' '));
    starts
        && !numeric
        && s.chars().all(safe)
        && !s.contains(": ")
        && !s.ends_with([':', ' '])
        && matches!(resolve::plain(s), Value::Str(_))
}

/// Whether a literal block preserves the text.
fn is_literal(s: &str) -> bool {
    s.contains('\n')
        && !s.starts_with([' ', '\n', '\t'])
        && s.chars().all(|c| {
            c == '\n'
                || (c >= ' '
                    && c != '\u{7f}'
                    && !matches!(c, '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}'))
        })
}

fn quoted(s: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for c in s.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\r' => out.extend_from_slice(b"\\r"),
            c if c < ' ' || matches!(c, '\u{7f}'..='\u{9f}') => {
                out.extend_from_slice(format!("\\x{:02X}", c as u32).as_bytes());
            }
            '\u{2028}' | '\u{2029}' | '\u{feff}' => out.extend_from_slice(format!("\\u{:04X}", c as u32).as_bytes()),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}
