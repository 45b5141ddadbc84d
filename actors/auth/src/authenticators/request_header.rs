//! Authentication by a front proxy that sends the user in headers (upstream: `request/headerrequest`). The headers are accepted only with a client
//! certificate of the proxy's own authority.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use oarlock_pki::ClientTrust;

use super::{Answer, PeerCertificates};
use crate::user::UserInfo;

/// The names, or prefixes of names, of the default configuration's `X-Remote-…` headers.
const STANDARD: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];
const STANDARD_EXTRA: &str = "x-remote-extra-";

/// The accepted front proxy and the headers it sets. Header names are in lower case.
#[derive(Debug, Clone)]
pub struct RequestHeader {
    /// The certificate authority of the proxy (`--requestheader-client-ca-file`).
    pub trust: ClientTrust,
    /// The accepted names of the proxy's certificate; empty means any (`--requestheader-allowed-names`).
    pub allowed_names: Vec<String>,
    /// The user name is the first of these headers that is set.
    pub username: Vec<HeaderName>,
    /// The uid is the first of these headers that is set.
    pub uid: Vec<HeaderName>,
    /// The groups are all values of all these headers.
    pub groups: Vec<HeaderName>,
    /// Prefixes of headers for extra fields; the rest of the header's name is the key.
    pub extra_prefixes: Vec<String>,
}

impl RequestHeader {
    /// Creates the default configuration: `X-Remote-User`, `-Uid`, `-Group`, `-Extra-…`.
    #[must_use]
    pub fn standard(trust: ClientTrust, allowed_names: Vec<String>) -> Self {
        let [user, uid, group] = STANDARD.map(HeaderName::from_static);
        Self {
            trust,
            allowed_names,
            username: vec![user],
            uid: vec![uid],
            groups: vec![group],
            extra_prefixes: vec![STANDARD_EXTRA.to_owned()],
        }
    }

    pub(super) fn authenticate(&self, peer: &PeerCertificates, headers: &HeaderMap, now: i64) -> Answer {
        let proxy = peer.proxy(&self.trust, now)?;
        let name = &proxy.subject.common_name;
        if !self.allowed_names.is_empty() && !self.allowed_names.contains(name) {
            return Err(format!("x509: subject with cn={name} is not in the allowed list"));
        }
        let Some(user) = first(headers, &self.username) else {
            return Ok(None);
        };
        let groups: Vec<String> =
            self.groups.iter().flat_map(|name| values(headers, name)).filter(|g| !g.is_empty()).collect();
        let mut info = UserInfo::new(user, groups);
        info.uid = first(headers, &self.uid).unwrap_or_default();
        info.extra = self.extra(headers);
        Ok(Some(Arc::new(info.authenticated())))
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_prefixes {
            for name in headers.keys() {
                if let Some(key) = name.as_str().strip_prefix(prefix.as_str()) {
                    extra.entry(unescape(key)).or_default().extend(values(headers, name));
                }
            }
        }
        extra
    }

    pub(super) fn clear(&self, headers: &mut HeaderMap) {
        for name in self.username.iter().chain(&self.uid).chain(&self.groups) {
            headers.remove(name);
        }
        for prefix in &self.extra_prefixes {
            clear_prefix(headers, prefix);
        }
    }
}

/// Removes the default headers, also where no proxy is configured, so that no later stage trusts a client's own headers.
pub(super) fn clear_standard(headers: &mut HeaderMap) {
    for name in STANDARD {
        headers.remove(name);
    }
    clear_prefix(headers, STANDARD_EXTRA);
}

fn clear_prefix(headers: &mut HeaderMap, prefix: &str) {
    let names: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with(prefix)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

fn values(headers: &HeaderMap, name: &HeaderName) -> impl Iterator<Item = String> {
    headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn first(headers: &HeaderMap, names: &[HeaderName]) -> Option<String> {
    names.iter().filter_map(|name| values(headers, name).next()).find(|value| !value.is_empty())
}

/// Decodes percent encoding; a key that is not well encoded is returned unchanged (upstream: `unescapeExtraKey`).
#[must_use]
pub fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let digit = |at: usize| after.get(at).and_then(|b| char::from(*b).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return key.to_owned();
        };
        bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}
