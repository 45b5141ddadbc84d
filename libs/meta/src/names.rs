//! Server-made names (`generateName`), object keys, and the name formats that validation checks.

/// The longest prefix of a `generateName` that is kept, in bytes: 63 less the random suffix.
pub const MAX_GENERATED_BASE: usize = 58;

/// The number of random characters at the end of a generated name.
pub const GENERATED_SUFFIX: usize = 5;

/// The characters of random names: without vowels and easily confused characters, so that no words appear (upstream `rand.String`).
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Makes a name from a `generateName` prefix: the prefix, truncated, and five random characters.
///
/// `random` gives evenly distributed 64-bit numbers.
pub fn generate_name(base: &str, random: &mut impl FnMut() -> u64) -> String {
    let cut = base.floor_char_boundary(MAX_GENERATED_BASE);
    let mut name = String::with_capacity(cut + GENERATED_SUFFIX);
    name.push_str(base.get(..cut).unwrap_or(base));
    push_random(&mut name, GENERATED_SUFFIX, random);
    name
}

/// Makes a suffix of `length` random characters for a generated name.
pub fn random_suffix(length: usize, random: &mut impl FnMut() -> u64) -> String {
    let mut out = String::with_capacity(length);
    push_random(&mut out, length, random);
    out
}

fn push_random(out: &mut String, length: usize, random: &mut impl FnMut() -> u64) {
    let (mut bits, mut left, mut wanted) = (0_u64, 0_u32, length);
    while wanted > 0 {
        if left == 0 {
            (bits, left) = (random(), 12);
        }
        // Five bits at a time; the five values beyond the alphabet are discarded, so every letter is equally likely.
        if let Some(letter) = ALPHABET.get((bits & 31) as usize) {
            out.push(char::from(*letter));
            wanted -= 1;
        }
        bits >>= 5;
        left -= 1;
    }
}

/// Returns the key of an object in caches and queues: `namespace/name`, or `name` without a namespace.
#[must_use]
pub fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Splits a [`key`] into the namespace (empty if there is none) and the name.
#[must_use]
pub fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

const LABEL_NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const LABEL_1123: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn label_name_shape(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

fn dns_label_shape(bytes: &[u8]) -> bool {
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge) && bytes.iter().all(|b| edge(b) || *b == b'-')
}

/// Returns what is wrong with `name` as an RFC 1123 label, in upstream's words: lower-case alphanumerics and hyphens, alphanumeric at both ends, at most 63 bytes.
/// Empty for a valid label.
#[must_use]
pub fn label_errors(name: &str) -> Vec<String> {
    let mut errors = too_long_label(name);
    if dns_label_shape(name.as_bytes()) {
        return errors;
    }
    errors.push(if subdomain_errors(name).is_empty() { "must not contain dots" } else { LABEL_1123 }.to_owned());
    errors
}

/// Returns what is wrong with `name` as an RFC 1035 label, in upstream's words: as RFC 1123, but the first character is a letter.
#[must_use]
pub fn label_1035_errors(name: &str) -> Vec<String> {
    let mut errors = too_long_label(name);
    let letter_first = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    if !letter_first || !dns_label_shape(name.as_bytes()) {
        errors.push(LABEL_1035.to_owned());
    }
    errors
}

fn too_long_label(name: &str) -> Vec<String> {
    if name.len() > 63 { vec!["must be no more than 63 characters".to_owned()] } else { Vec::new() }
}

/// Returns what is wrong with `name` as an RFC 1123 subdomain, in upstream's words; empty for a valid name.
#[must_use]
pub fn subdomain_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > 253 {
        errors.push("must be no more than 253 bytes".to_owned());
    }
    if !name.as_bytes().split(|b| *b == b'.').all(dns_label_shape) {
        errors.push(SUBDOMAIN.to_owned());
    }
    errors
}

/// Returns what is wrong with `key` as a label key (a qualified name), in upstream's words; empty for a valid key.
#[must_use]
pub fn label_key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut parts = key.split('/');
    let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let name = match (second, third) {
        (_, Some(_)) => {
            let text = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {LABEL_NAME} {text}")];
        }
        (None, None) => first,
        (Some(name), None) => {
            if first.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain_errors(first).into_iter().map(|error| format!("prefix part {error}")));
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !label_name_shape(name) {
        errors.push(format!("name part {LABEL_NAME}"));
    }
    errors
}

/// Returns what is wrong with `value` as a label value, in upstream's words; empty for a valid value.
#[must_use]
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !label_name_shape(value) {
        errors.push(LABEL_VALUE.to_owned());
    }
    errors
}
