//! IP addresses and CIDR ranges.

use std::fmt;
use std::net::IpAddr;

use oarlock_meta::quote::quote;

use super::{Cost, Row, row, unfit};
use crate::error::EvalError;
use crate::value::{Opaque, Value};

pub(super) const ROWS: &[Row] = &[
    row("ip(string): net.IP", Cost::Scan, |_, args| match args {
        [Value::String(text)] => ip(text).map(|ip| Value::Opaque(Opaque::Ip(ip))).map_err(EvalError::Failed),
        _ => unfit(),
    }),
    row("isIP(string): bool", Cost::Scan, |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(ip(text).is_ok())),
        _ => unfit(),
    }),
    row("ip.isCanonical(string): bool", Cost::Scan, |_, args| match args {
        [Value::String(text)] => ip(text).map(|ip| Value::Bool(ip.to_string() == **text)).map_err(EvalError::Failed),
        _ => unfit(),
    }),
    row("net.IP.family(): int", Cost::One, |_, args| address(args, |ip| Value::Int(if ip.is_ipv4() { 4 } else { 6 }))),
    row("net.IP.isUnspecified(): bool", Cost::One, |_, args| address(args, |ip| Value::Bool(ip.is_unspecified()))),
    row("net.IP.isLoopback(): bool", Cost::One, |_, args| address(args, |ip| Value::Bool(ip.is_loopback()))),
    row("net.IP.isLinkLocalMulticast(): bool", Cost::One, |_, args| {
        address(args, |ip| {
            Value::Bool(match ip {
                IpAddr::V4(ip) => matches!(ip.octets(), [224, 0, 0, _]),
                IpAddr::V6(ip) => matches!(ip.octets(), [0xff, second, ..] if second & 0x0f == 2),
            })
        })
    }),
    row("net.IP.isLinkLocalUnicast(): bool", Cost::One, |_, args| address(args, |ip| Value::Bool(is_link_local(ip)))),
    row("net.IP.isGlobalUnicast(): bool", Cost::One, |_, args| {
        address(args, |ip| {
            let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
            let special =
                broadcast || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local(ip);
            Value::Bool(!special)
        })
    }),
    row("cidr(string): net.CIDR", Cost::Scan, |_, args| match args {
        [Value::String(text)] => cidr_of(text).map(|cidr| Value::Opaque(Opaque::Cidr(cidr))),
        _ => unfit(),
    }),
    row("isCIDR(string): bool", Cost::Scan, |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(Cidr::parse(text).is_ok())),
        _ => unfit(),
    }),
    row("net.CIDR.ip(): net.IP", Cost::One, |_, args| range(args, |cidr| Value::Opaque(Opaque::Ip(cidr.ip)))),
    row("net.CIDR.masked(): net.CIDR", Cost::One, |_, args| {
        range(args, |cidr| Value::Opaque(Opaque::Cidr(cidr.masked())))
    }),
    row("net.CIDR.prefixLength(): int", Cost::One, |_, args| range(args, |cidr| Value::Int(cidr.prefix.into()))),
    row("net.CIDR.containsIP(string): bool", Cost::Scan, |_, args| match args {
        [Value::Opaque(Opaque::Cidr(cidr)), Value::String(text)] => {
            ip(text).map_or_else(|_| unfit(), |ip| Ok(Value::Bool(cidr.contains(ip))))
        }
        _ => unfit(),
    }),
    row("net.CIDR.containsIP(net.IP): bool", Cost::One, |_, args| match args {
        [Value::Opaque(Opaque::Cidr(cidr)), Value::Opaque(Opaque::Ip(ip))] => Ok(Value::Bool(cidr.contains(*ip))),
        _ => unfit(),
    }),
    row("net.CIDR.containsCIDR(string): bool", Cost::Scan, |_, args| match args {
        [Value::Opaque(Opaque::Cidr(cidr)), Value::String(text)] => {
            cidr_of(text).map(|other| Value::Bool(cidr.covers(other)))
        }
        _ => unfit(),
    }),
    row("net.CIDR.containsCIDR(net.CIDR): bool", Cost::One, |_, args| match args {
        [Value::Opaque(Opaque::Cidr(cidr)), Value::Opaque(Opaque::Cidr(other))] => Ok(Value::Bool(cidr.covers(*other))),
        _ => unfit(),
    }),
];

/// A CIDR range, with the address as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cidr {
    ip: IpAddr,
    prefix: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

impl Cidr {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            let why = format!("netip.ParsePrefix({}): {why}", quote(text));
            format!("network address parse error during conversion from string: {why}")
        };
        let Some((address, bits)) = text.rsplit_once('/') else { return Err(wrong("no '/'")) };
        let ip = parse_ip(address).map_err(|why| wrong(&why))?;
        if address.contains('%') {
            return Err(wrong("IPv6 zones cannot be present in a prefix"));
        }
        if mapped(ip) {
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

    fn masked(self) -> Self {
        let prefix = u32::from(self.prefix);
        let ip = match self.ip {
            IpAddr::V4(ip) => IpAddr::V4((ip.to_bits() & u32::MAX.checked_shl(32 - prefix).unwrap_or(0)).into()),
            IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() & u128::MAX.checked_shl(128 - prefix).unwrap_or(0)).into()),
        };
        Self { ip, prefix: self.prefix }
    }

    fn contains(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.ip.is_ipv4() && Self { ip, prefix: self.prefix }.masked().ip == self.masked().ip
    }

    fn covers(self, other: Self) -> bool {
        other.prefix >= self.prefix && self.contains(other.ip)
    }
}

fn cidr_of(text: &str) -> Result<Cidr, EvalError> {
    let failed = |why| EvalError::Failed(format!("network address parse error during conversion from string: {why}"));
    Cidr::parse(text).map_err(failed)
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

/// Parses an address as Go's `netip` does, without a zone.
fn parse_ip(text: &str) -> Result<IpAddr, String> {
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

/// Parses an address by Kubernetes' rules.
fn ip(text: &str) -> Result<IpAddr, String> {
    let parsed = parse_ip(text)
        .map_err(|why| format!("IP Address {} parse error during conversion from string: {why}", quote(text)))?;
    if text.contains('%') {
        return Err(format!("IP address {} with zone value is not allowed", quote(text)));
    }
    if mapped(parsed) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)));
    }
    Ok(parsed)
}

fn address<'a>(args: &[Value<'a>], read: fn(IpAddr) -> Value<'a>) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Opaque(Opaque::Ip(ip))] => Ok(read(*ip)),
        _ => unfit(),
    }
}

fn range<'a>(args: &[Value<'a>], read: fn(Cidr) -> Value<'a>) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Opaque(Opaque::Cidr(cidr))] => Ok(read(*cidr)),
        _ => unfit(),
    }
}
