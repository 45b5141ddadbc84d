//! Describes briefly where two answers differ.

use serde_json::Value;

use crate::recorded::Answer;

/// Differences of `now` from `recorded`, none when they are equal: `pointer: recorded → now`.
#[must_use]
pub fn differences(recorded: &Answer, now: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    if recorded.code != now.code {
        found.push(format!("code: {} → {}", recorded.code, now.code));
    }
    if recorded.headers != now.headers {
        for header in recorded.headers.iter().filter(|h| !now.headers.contains(h)) {
            found.push(format!("header {}: {:?} → absent", header.0, header.1));
        }
        for header in now.headers.iter().filter(|h| !recorded.headers.contains(h)) {
            found.push(format!("header {}: absent → {:?}", header.0, header.1));
        }
    }
    walk("", Some(&recorded.body), Some(&now.body), &mut found);
    found
}

fn walk(at: &str, recorded: Option<&Value>, now: Option<&Value>, found: &mut Vec<String>) {
    match (recorded, now) {
        (Some(Value::Object(recorded)), Some(Value::Object(now))) => {
            for (key, value) in recorded {
                walk(&format!("{at}/{key}"), Some(value), now.get(key), found);
            }
            for (key, value) in now.iter().filter(|(key, _)| !recorded.contains_key(*key)) {
                walk(&format!("{at}/{key}"), None, Some(value), found);
            }
        }
        (Some(Value::Array(recorded)), Some(Value::Array(now))) => {
            for at_index in 0..recorded.len().max(now.len()) {
                walk(&format!("{at}/{at_index}"), recorded.get(at_index), now.get(at_index), found);
            }
        }
        (recorded, now) if recorded == now => {}
        (recorded, now) => found.push(format!("{at}: {} → {}", show(recorded), show(now))),
    }
}

fn show(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "absent".to_owned(), ToString::to_string);
    match text.char_indices().nth(400) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}
