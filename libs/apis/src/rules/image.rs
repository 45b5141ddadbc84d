//! Parses references to container images, as far as defaults depend on them.

/// Returns the tag of an image reference: `latest` for a reference with neither tag nor digest, empty for a malformed one
/// (upstream `parsers.ParseImageName`).
#[must_use]
pub fn tag(reference: &str) -> &str {
    let (named, digest) = match reference.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (reference, None),
    };
    let last = named.rfind('/').map_or(0, |at| at + 1);
    let (path, tag) = match named.get(last..).and_then(|name| name.find(':')) {
        Some(at) => (named.get(..last + at).unwrap_or(""), named.get(last + at + 1..)),
        None => (named, None),
    };
    let good_tag = |t: &str| {
        !t.is_empty() && t.len() <= 128 && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
    };
    if !repository(path) || tag.is_some_and(|t| !good_tag(t)) {
        return "";
    }
    match (tag, digest) {
        (Some(tag), _) => tag,
        (None, None) => "latest",
        (None, Some(_)) => "",
    }
}

fn repository(path: &str) -> bool {
    let mut parts = path.split('/').peekable();
    let host = |p: &str| p.contains(['.', ':']) || p == "localhost" || p.bytes().any(|b| b.is_ascii_uppercase());
    if path.contains('/') && parts.peek().is_some_and(|first| host(first)) {
        parts.next();
    }
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let part = |p: &str| {
        let bytes = p.as_bytes();
        bytes.first().is_some_and(edge)
            && bytes.last().is_some_and(edge)
            && bytes.iter().all(|b| edge(b) || b"._-".contains(b))
    };
    parts.peek().is_some() && parts.all(part)
}

/// Returns the default pull policy of an image (upstream: `SetDefaults_Container`).
#[must_use]
pub fn pull_policy(reference: &str) -> &'static str {
    if tag(reference) == "latest" { "Always" } else { "IfNotPresent" }
}

#[cfg(test)]
mod tests {
    use super::tag;

    #[test]
    fn reads_tags_as_the_reference_grammar_has_them() {
        for (reference, want) in [
            ("busybox", "latest"),
            ("busybox:1", "1"),
            ("busybox:latest", "latest"),
            ("r:5000/a/b", "latest"),
            ("r:5000/a/b:v1", "v1"),
            ("a@sha256:00", ""),
            ("a:latest@sha256:00", "latest"),
            ("", ""),
            ("Upper", ""),
            ("Host.io/lower", "latest"),
            ("a b", ""),
        ] {
            assert_eq!(tag(reference), want, "{reference}");
        }
    }
}
