//! Name formats; each function returns what is wrong, in upstream's words (`k8s.io/apimachinery/pkg/util/validation`).

pub use oarlock_meta::names::{label_1035_errors as dns1035_label, label_errors as dns1123_label};

/// Checks one segment of a URL path.
#[must_use]
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"].iter().filter(|c| text.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

fn shaped(text: &str, end: impl Fn(u8) -> bool, body: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| end(*b)) && bytes.last().is_some_and(|b| end(*b)) && bytes.iter().all(|b| body(*b))
}

/// Checks the name of an environment variable: printable ASCII except `=`.
#[must_use]
pub fn env_name(text: &str) -> Vec<String> {
    if text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

/// Checks the name of a port.
#[must_use]
pub fn port_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 15 {
        errors.push("must be no more than 15 characters");
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)");
    }
    if text.contains("--") {
        errors.push("must not contain consecutive hyphens");
    }
    if text.starts_with('-') || text.ends_with('-') {
        errors.push("must not begin or end with a hyphen");
    }
    errors.into_iter().map(str::to_owned).collect()
}

/// Checks a key of a ConfigMap or Secret.
#[must_use]
pub fn config_key(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        errors.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', \
             regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    if text == "." || text == ".." || text.starts_with("..") {
        let shown = if matches!(text, "." | "..") {
            format!("must not be '{text}'")
        } else {
            "must not start with '..'".to_owned()
        };
        errors.push(shown);
    }
    errors
}

/// Checks the name of an HTTP header.
#[must_use]
pub fn http_header(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is \
         '[-A-Za-z0-9]+')"
            .to_owned(),
    ]
}

/// Checks a subdomain whose labels may contain and begin with underscores, as in DNS search lists.
#[must_use]
pub fn underscore_subdomain(text: &str) -> Vec<String> {
    let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let part = |p: &str| shaped(p.strip_prefix('_').unwrap_or(p), edge, |b| edge(b) || b == b'-' || b == b'_');
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    if !text.split('.').all(part) {
        errors.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with \
             an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    errors
}

/// Whether a text is an IPv4 or IPv6 address; leading zeros are accepted for fields where old objects may have them.
#[must_use]
pub fn is_ip(text: &str) -> bool {
    super::address::parse(text).is_some()
}

/// Whether a text is the name of a kernel parameter, with dots or slashes.
#[must_use]
pub fn is_sysctl(text: &str) -> bool {
    let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= 253 && text.split(['.', '/']).all(|part| shaped(part, edge, |b| edge(b) || b == b'-' || b == b'_'))
}

/// Whether a text is an address range.
#[must_use]
pub fn is_cidr(text: &str) -> bool {
    super::address::Range::parse(text).is_some()
}

/// Checks a percentage, such as `25%`.
#[must_use]
pub fn percent(text: &str) -> Vec<String> {
    if text.strip_suffix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
        return Vec::new();
    }
    vec![
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is \
         '[0-9]+%')"
            .to_owned(),
    ]
}
