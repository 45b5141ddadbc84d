//! Go's `%v` of generic JSON values: upstream's errors print patches in this form.

use std::fmt::Write as _;

use oarlock_schema::Value;

/// Formats a value as `map[a:1 b:[x y]]`.
pub(crate) fn plain(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(n) => {
            // Writing to a String cannot fail.
            let _ = write!(out, "{n}");
        }
        Value::Number(text) | Value::Str(text) => out.push_str(text),
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Map(map) => entries(map.iter(), out),
        Value::Struct(node) => entries(node.iter().map(|(def, value)| (def.name, value)), out),
    }
}

fn entries<'a>(entries: impl Iterator<Item = (&'a str, &'a Value)>, out: &mut String) {
    out.push_str("map[");
    for (i, (key, value)) in entries.enumerate() {
        if i > 0 {
            out.push(' ');
        }
        out.push_str(key);
        out.push(':');
        write(value, out);
    }
    out.push(']');
}
