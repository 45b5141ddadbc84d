//! IP addresses and CIDR ranges, parsed as Go's `netip` does.

use std::fmt;
use std::net::IpAddr;

use oarlock_meta::quote::quote;

/// A CIDR range, with the address as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cidr {
    pub(crate) ip: IpAddr,
    pub(crate) prefix: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

impl Cidr {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            let why = format!("netip.ParsePrefix({}): {why}", quote(text));
            format!("network address parse error during conversion from string: {why}")
        };
        let Some((address, bits)) = text.rsplit_once('/') else { return Err(wrong("no '/'")) };
        let ip = parse_ip(address).map_err(|why| wrong(&why))?;
        if address.contains('%') {
            return Err(wrong("IPv6 zones cannot be present in a prefix"));
        }
        if is_mapped(ip) {
            return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)));
        }
        let plain =
            !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
        let most = if ip.is_ipv4() { 32 } else { 128 };
        match bits.parse::<u8>() {
            Ok(prefix) if plain && prefix <= most => Ok(Self { ip, prefix }),
            _ if plain => Err(wrong("prefix length out of range")),
            _ => Err(wrong(&format!("bad bits after slash: {}", quote(bits)))),
        }
    }

    pub(crate) fn masked(self) -> Self {
        let prefix = u32::from(self.prefix);
        let ip = match self.ip {
            IpAddr::V4(ip) => IpAddr::V4((ip.to_bits() & u32::MAX.checked_shl(32 - prefix).unwrap_or(0)).into()),
            IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() & u128::MAX.checked_shl(128 - prefix).unwrap_or(0)).into()),
        };
        Self { ip, prefix: self.prefix }
    }

    pub(crate) fn contains(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.ip.is_ipv4() && Self { ip, prefix: self.prefix }.masked().ip == self.masked().ip
    }

    pub(crate) fn covers(self, other: Self) -> bool {
        other.prefix >= self.prefix && self.contains(other.ip)
    }
}

/// Whether an IPv6 address stands for an IPv4 address.
pub(crate) fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

/// Parses an address as Go's `netip` does, without a zone.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let bare = text.split('%').next().unwrap_or(text);
    bare.parse().map_err(|_| {
        let dotted = bare.contains('.') && !bare.contains(':');
        let octets: Vec<&str> = bare.split('.').collect();
        let why = if !dotted {
            "unable to parse IP"
        } else if octets.iter().any(|octet| octet.len() > 1 && octet.starts_with('0')) {
            "IPv4 field has octet with leading zero"
        } else if octets.len() > 4 {
            "IPv4 address too long"
        } else if octets.len() < 4 {
            "IPv4 address too short"
        } else if octets.iter().any(|octet| octet.is_empty()) {
            "IPv4 field must have at least one digit"
        } else if octets.iter().all(|octet| octet.bytes().all(|b| b.is_ascii_digit())) {
            "IPv4 field has value >255"
        } else {
            "unexpected character"
        };
        format!("ParseAddr({}): {why}", quote(text))
    })
}
