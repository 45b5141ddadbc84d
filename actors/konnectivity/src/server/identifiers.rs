//! What an agent declares about itself: metadata `agentIdentifiers`, the query of a URL.

use std::borrow::Cow;
use std::net::IpAddr;

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

    /// Whether the identifiers name a host: its address `ip` if it is one, else its name.
    #[must_use]
    pub fn names(&self, host: &str, ip: Option<IpAddr>) -> bool {
        ip.is_some_and(|ip| self.addresses.contains(&ip)) || self.hosts.iter().any(|known| known == host)
    }
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
}
