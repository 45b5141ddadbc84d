//! What an agent declares about itself: metadata `agentIdentifiers`, the query of a URL.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The identifiers of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identifiers {
    /// Addresses of hosts that the agent reaches (`ipv4`, `ipv6`).
    pub addresses: Vec<IpAddr>,
    /// Names of hosts that the agent reaches (`host`).
    pub hosts: Vec<String>,
    /// Whether the agent is for destinations of no other agent (`default-route`).
    pub default_route: bool,
}

impl Identifiers {
    /// Reads the metadata. Unknown identifiers and invalid values are skipped, as by upstream: they may be those of a newer agent.
    #[must_use]
    pub fn parse(query: &str) -> Self {
        let mut identifiers = Self::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let value = decoded(value);
            match &*decoded(key) {
                "ipv4" | "ipv6" => identifiers.addresses.extend(value.parse::<IpAddr>().ok()),
                "host" => identifiers.hosts.push(value.into_owned()),
                "default-route" => {
                    identifiers.default_route |= matches!(&*value, "1" | "t" | "T" | "true" | "TRUE" | "True")
                }
                _ => {}
            }
        }
        identifiers
    }

    /// Checks identifiers that a person has written, for the flag of an agent: as servers skip what they do not know, a mistake would stay unseen.
    ///
    /// # Errors
    /// The first identifier that no server knows, or that has an invalid value.
    pub fn check(query: &str) -> Result<(), InvalidIdentifier> {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (decoded(key), decoded(value));
            let is_valid = match &*key {
                "ipv4" => value.parse::<Ipv4Addr>().is_ok(),
                "ipv6" => value.parse::<Ipv6Addr>().is_ok(),
                "host" | "cidr" => !value.is_empty(),
                "default-route" => matches!(&*value, "true" | "false"),
                _ => return Err(InvalidIdentifier::Key(key.into_owned())),
            };
            if !is_valid {
                return Err(InvalidIdentifier::Value { key: key.into_owned(), value: value.into_owned() });
            }
        }
        Ok(())
    }

    /// Whether the identifiers name a host: its address `ip` if it is one, else its name.
    #[must_use]
    pub fn names(&self, host: &str, ip: Option<IpAddr>) -> bool {
        ip.is_some_and(|ip| self.addresses.contains(&ip)) || self.hosts.iter().any(|known| known == host)
    }
}

/// An identifier of an agent that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIdentifier {
    /// The identifier is unknown.
    #[error("unknown identifier {0:?}: must be ipv4, ipv6, host, cidr or default-route")]
    Key(String),
    /// The identifier's value is invalid.
    #[error("{value:?} is no valid value of the identifier {key}")]
    Value {
        /// The identifier.
        key: String,
        /// The value.
        value: String,
    },
}

/// Decodes `%XX` and `+`. What is no valid code stays as it is.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                out.push(byte);
                rest = after.get(2..).unwrap_or_default();
                continue;
            }
            (b'+', _) => out.push(b' '),
            (other, _) => out.push(*other),
        }
        rest = after;
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_identifiers_are_read_and_others_skipped() {
        let read = Identifiers::parse(
            "ipv4=1.2.3.4&ipv4=x&ipv6=fd00%3A%3A1&host=node%2Dx+y&cidr=1.2.3.0/24&default-route=true&&new",
        );
        let addresses = vec!["1.2.3.4".parse().unwrap(), "fd00::1".parse().unwrap()];
        assert_eq!(read, Identifiers { addresses, hosts: vec!["node-x y".to_owned()], default_route: true });
        assert_eq!(Identifiers::parse("default-route=no"), Identifiers::default());
        assert_eq!(Identifiers::parse("host=50%&host=%zz").hosts, ["50%", "%zz"]);
        assert_eq!(Identifiers::parse(""), Identifiers::default());
    }

    #[test]
    fn a_mistake_is_named() {
        let valid = "ipv4=1.2.3.4&ipv6=fd00%3A%3A1&host=a&cidr=1.2.3.0/24&default-route=true";
        assert_eq!((Identifiers::check(valid), Identifiers::check("")), (Ok(()), Ok(())));
        for (query, named) in
            [("ip=1.2.3.4", "\"ip\""), ("ipv4=fd00::1", "\"fd00::1\""), ("host", "host"), ("default-route=x", "\"x\"")]
        {
            let error = Identifiers::check(query).unwrap_err().to_string();
            assert!(error.contains(named), "{query}: {error}");
        }
    }
}
