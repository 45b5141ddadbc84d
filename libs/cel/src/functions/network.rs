//! Functions of IP addresses and CIDR ranges.

use std::net::IpAddr;

use oarlock_meta::quote::quote;

use super::{Cost, Row, row, unfit};
use crate::error::EvalError;
use crate::value::{Cidr, Opaque, Value, is_mapped, parse_ip};

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

/// Parses an address by Kubernetes' rules.
fn ip(text: &str) -> Result<IpAddr, String> {
    let parsed = parse_ip(text)
        .map_err(|why| format!("IP Address {} parse error during conversion from string: {why}", quote(text)))?;
    if text.contains('%') {
        return Err(format!("IP address {} with zone value is not allowed", quote(text)));
    }
    if is_mapped(parsed) {
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
