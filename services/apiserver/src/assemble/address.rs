//! Finds an address under which pods can reach this host.

use std::net::{IpAddr, UdpSocket};

use anyhow::Context;

/// Returns the bound address if it can be advertised, else the source address of this host's default route. No packet is sent.
///
/// # Errors
/// When the host has no address but loopback ones.
pub(super) fn of_host(bound: IpAddr) -> anyhow::Result<IpAddr> {
    if !bound.is_loopback() && !bound.is_unspecified() {
        return Ok(bound);
    }
    // The kernel picks the source address by route; 203.0.113.1 (TEST-NET-3, RFC 5737) stands for any remote host.
    let routed =
        UdpSocket::bind("0.0.0.0:0").and_then(|s| s.connect("203.0.113.1:9").map(|()| s)).and_then(|s| s.local_addr());
    match routed {
        Ok(address) if !address.ip().is_loopback() && !address.ip().is_unspecified() => Ok(address.ip()),
        _ => interface().context("this host has no address but loopback ones: pass --advertise-address"),
    }
}

/// Returns the first non-loopback address that the kernel lists, for a host without any route.
fn interface() -> Option<IpAddr> {
    let table = std::fs::read_to_string("/proc/net/fib_trie").ok()?;
    let mut candidate: Option<IpAddr> = None;
    for line in table.lines() {
        if let Some(text) = line.split("|-- ").nth(1) {
            candidate = text.trim().parse().ok();
        } else if line.contains("/32 host LOCAL")
            && let Some(ip) = candidate.filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
        {
            return Some(ip);
        }
    }
    None
}
