//! Finds values that a server chose inside a longer text.

/// Characters of generated name suffixes.
const SUFFIX: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Replaces every window of `width` bytes that `is` accepts.
pub(super) fn replace(
    text: &str,
    width: usize,
    is: impl Fn(&str) -> bool,
    mut with: impl FnMut(&str) -> String,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match rest.get(..width) {
            Some(window) if is(window) => {
                out.push_str(&with(window));
                rest = rest.get(width..).unwrap_or_default();
            }
            _ => {
                out.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
    }
    out
}

fn shaped(text: &str, shape: &str, digit: impl Fn(u8) -> bool) -> bool {
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(|(b, s)| if s == b'0' { digit(b) } else { b == s })
}

pub(super) fn is_uid(text: &str) -> bool {
    shaped(text, "00000000-0000-0000-0000-000000000000", |b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        && text.bytes().any(|b| b.is_ascii_digit() && b != b'0')
}

pub(super) fn is_time(text: &str, micro: bool) -> bool {
    let shape = if micro { "0000-00-00T00:00:00.000000Z" } else { "0000-00-00T00:00:00Z" };
    shaped(text, shape, |b| b.is_ascii_digit())
        && text.get(..4).and_then(|year| year.parse::<u16>().ok()).is_some_and(|year| year >= 2025)
}

pub(super) fn is_access_volume(text: &str) -> bool {
    text.strip_prefix("kube-api-access-")
        .is_some_and(|end| end.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()))
}

/// The name that upstream makes of `generateName: some-`.
pub(super) fn is_generated(text: &str) -> bool {
    text.strip_prefix("some-").is_some_and(|end| end.chars().all(|c| SUFFIX.contains(c)))
}

pub(super) fn is_credential(text: &str) -> bool {
    text.strip_prefix("X509SHA256=").is_some_and(|end| end.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Service addresses that the server allocated: the scripts use none of 10.96.0.0/12, but 10.96.0.200.
pub(super) fn is_service_address(token: &str) -> bool {
    let parts: Vec<_> = token.split('.').collect();
    let second = parts.get(1).and_then(|part| part.parse::<u8>().ok());
    parts.len() == 4
        && parts.iter().all(|part| part.parse::<u8>().is_ok())
        && parts.first() == Some(&"10")
        && second.is_some_and(|n| (96..112).contains(&n))
        && !token.ends_with(".0.200")
}

/// A node port that the server allocated.
pub(super) fn is_node_port(token: &str) -> bool {
    token.len() == 5 && token.parse::<u32>().is_ok_and(|port| (30000..32768).contains(&port))
}

/// An error text is about to tell a revision.
pub(super) fn is_revision_of(before: &str) -> bool {
    let before = before.trim_end_matches(['\\', '"', ':', ' ', '(']);
    ["resourceVersion", "in record", "object meta", "current"].iter().any(|word| before.ends_with(word))
}

/// Passes each run of digits and dots, and the text before it, through `name`.
pub(super) fn numbers(text: &str, name: impl Fn(&str, &str) -> Option<String>) -> String {
    let mut named = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(start);
        let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
        let (number, after) = number.split_at(end);
        named.push_str(before);
        named.push_str(name(before, number).as_deref().unwrap_or(number));
        rest = after;
    }
    named.push_str(rest);
    named
}

/// An error text that shows a whole object shows its managed fields, whose order hangs on the second of each write.
pub(super) fn without_managed_fields(text: &str) -> String {
    let start = text.find("managedFields").and_then(|at| Some(at + text.get(at..)?.find('[')?));
    let end = start.and_then(|start| Some(start + text.get(start..)?.find(']')?));
    match (start, end) {
        (Some(start), Some(end)) => {
            format!("{}[…{}", text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default())
        }
        _ => text.to_owned(),
    }
}
