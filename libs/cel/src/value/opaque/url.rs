//! URLs, parsed as Go's `url.ParseRequestURI` does.

use std::collections::BTreeMap;

use oarlock_meta::quote::quote;

/// A URL, split into its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    pub(crate) scheme: String,
    user: String,
    pub(crate) host: String,
    /// The escaped path.
    pub(crate) path: String,
    query: String,
}

impl Url {
    /// Parses an absolute URL, or an absolute path.
    ///
    /// # Errors
    /// Go's error text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("parse {}: {why}", quote(text));
        if text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return Err(wrong("net/url: invalid control character in URL"));
        }
        if text.is_empty() {
            return Err(wrong("empty url"));
        }
        let (scheme, rest) = scheme(text).map_err(wrong)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            if scheme.is_empty() {
                return Err(wrong("invalid URI for request"));
            }
            // An opaque URL has no host and no path.
            return Ok(Self {
                scheme,
                user: String::new(),
                host: String::new(),
                path: String::new(),
                query: query.to_owned(),
            });
        }
        let (mut user, mut host, mut path) = ("", "", rest);
        if let Some(authority) = rest.strip_prefix("//").filter(|_| !scheme.is_empty() || !rest.starts_with("///")) {
            let end = authority.find('/').unwrap_or(authority.len());
            let (whole, after) = authority.split_at(end);
            path = after;
            (user, host) = whole.rsplit_once('@').unwrap_or(("", whole));
            check_host(host).map_err(|why| wrong(&why))?;
        }
        check_escapes(path).map_err(|why| wrong(&why))?;
        let (user, host, query) = (user.to_owned(), host.to_owned(), query.to_owned());
        Ok(Self { scheme, user, host, path: escape_path(path), query })
    }

    /// Splits host and port; the brackets around an IPv6 address are removed.
    pub(crate) fn split_host(&self) -> (&str, &str) {
        let (host, port) = match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (self.host.as_str(), ""),
        };
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        (bare.unwrap_or(host), port)
    }

    /// Returns the query values by name; badly escaped pairs are left out.
    pub(crate) fn queries(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(name), Some(value)) = (unescape(name), unescape(value)) {
                values.entry(name).or_default().push(value);
            }
        }
        values
    }
}

/// Splits off the scheme, the text before the first colon, in lower case.
fn scheme(text: &str) -> Result<(String, &str), &'static str> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme"),
            b':' => {
                let rest = text.get(at + 1..).unwrap_or_default();
                return Ok((text.get(..at).unwrap_or_default().to_ascii_lowercase(), rest));
            }
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn check_host(host: &str) -> Result<(), String> {
    let after = if host.starts_with('[') {
        let Some((_, after)) = host.split_once(']') else { return Err("missing ']' in host".to_owned()) };
        after
    } else {
        host.rfind(':').and_then(|at| host.get(at..)).unwrap_or("")
    };
    let port = after.strip_prefix(':').map(|port| port.bytes().all(|b| b.is_ascii_digit()));
    if port == Some(false) || (port.is_none() && !after.is_empty()) {
        return Err(format!("invalid port {} after host", quote(after)));
    }
    if let Some(bad) =
        host.chars().find(|c| c.is_ascii() && " \"\\^`{|}<>".contains(*c) && !(*c == '<' || *c == '>' || *c == '"'))
    {
        return Err(format!("invalid character {} in host name", quote(&bad.to_string())));
    }
    check_escapes(host)
}

fn check_escapes(text: &str) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let escape = rest.get(at..).unwrap_or_default();
        if !escape.get(1..3).is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit())) {
            let shown: String = escape.chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quote(&shown)));
        }
        rest = escape.get(3..).unwrap_or_default();
    }
    Ok(())
}

/// Escapes the characters of a path that need an escape; existing escapes stay.
fn escape_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@%!'()*[]".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |b: Option<u8>| char::from(b?).to_digit(16);
                u8::try_from(digit(bytes.next())? * 16 + digit(bytes.next())?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(out).ok()
}
