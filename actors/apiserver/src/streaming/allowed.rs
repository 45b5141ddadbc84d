//! Restricts the addresses that a proxy may call: none of the API server's own host (loopback) or network link (link-local), in whatever form they
//! are written.
//!
//! Upstream applies Go's `IsGlobalUnicast`, which recognizes IPv4-mapped addresses, to each address that a host name resolves to, and refuses with
//! "address not allowed" when one fails. Here the connection also uses the checked addresses themselves, so a name that later resolves to another
//! address does no harm.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use oarlock_meta::Status;
use oarlock_runtime::{Instant, clock};
use oarlock_seeded_bug::seeded_bug;

/// Whether an address may be called. An IPv6 address that contains an IPv4 address is judged by the latter. Private addresses are allowed.
pub(super) fn is_allowed(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_global_v4(ip),
        IpAddr::V6(ip) => match embedded(ip).filter(|_| !seeded_bug!("mapped_address_is_foreign")) {
            Some(inner) => is_global_v4(inner),
            None => !(ip.is_unicast_link_local() || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast()),
        },
    }
}

fn is_global_v4(ip: Ipv4Addr) -> bool {
    // Linux routes 0.0.0.0/8 to this host or nowhere.
    let here = ip.octets().first() == Some(&0);
    !(here || ip.is_link_local() || ip.is_broadcast() || ip.is_loopback() || ip.is_multicast())
}

/// Returns the IPv4 address inside an IPv6 address: mapped (`::ffff:a.b.c.d`), compatible (`::a.b.c.d`, including `::` and `::1`), translated
/// (`64:ff9b::a.b.c.d`), 6to4 (`2002:…`).
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(v4(high, low))
        }
        _ => None,
    }
}

/// Resolves a host, an address or a name, to addresses that may all be called.
///
/// # Errors
/// 400 when there is no address, or one that is not allowed.
pub(super) async fn resolve(host: &str, deadline: Instant) -> Result<Vec<IpAddr>, Status> {
    if let Ok(ip) = host.parse() {
        return judge(vec![ip]);
    }
    let failed = |why: &dyn std::fmt::Display| Status::bad_request(format!("lookup {host}: {why}"));
    let found = clock::timeout_at(deadline, tokio::net::lookup_host((host, 0))).await;
    let found = found.map_err(|_| failed(&"i/o timeout"))?.map_err(|error| failed(&error))?;
    judge(found.map(|address| address.ip()).collect())
}

/// Checks the addresses and returns them in canonical form.
fn judge(addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>, Status> {
    if addresses.is_empty() {
        return Err(Status::bad_request("no addresses for hostname"));
    }
    if !addresses.iter().all(|ip| is_allowed(*ip)) {
        return Err(refused());
    }
    Ok(addresses.into_iter().map(|ip| ip.to_canonical()).collect())
}

/// Parses an address.
///
/// # Errors
/// 400 when the text is not an address, or the address is not allowed.
pub(super) fn address(text: &str) -> Result<IpAddr, Status> {
    let ip: IpAddr = text.parse().map_err(|_| refused())?;
    if is_allowed(ip) { Ok(ip.to_canonical()) } else { Err(refused()) }
}

fn refused() -> Status {
    Status::bad_request("address not allowed")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_address_is_judged_by_what_it_leads_to() {
        for (text, allowed) in [
            ("10.0.0.1", true),
            ("192.0.2.7", true),
            ("127.0.0.1", false),
            ("127.8.9.10", false),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("169.254.169.254", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("2001:db8::1", true),
            ("fd00::1", true),
            ("::", false),
            ("::1", false),
            ("fe80::1", false),
            ("ff02::1", false),
            ("::ffff:10.0.0.1", true),
            ("::ffff:127.0.0.1", false),
            ("::ffff:7f00:1", false),
            ("::ffff:169.254.169.254", false),
            ("::127.0.0.1", false),
            ("64:ff9b::127.0.0.1", false),
            ("64:ff9b::10.0.0.1", true),
            ("2002:7f00:1::", false),
            ("2002:a00:1::1", true),
        ] {
            assert_eq!(is_allowed(text.parse().unwrap()), allowed, "{text}");
            assert_eq!(address(text).is_ok(), allowed, "{text}");
        }
        for text in ["", "localhost", "127.1", "0177.0.0.1", "::ffff:127.0.0.1%lo"] {
            assert_eq!(address(text).unwrap_err().message, "address not allowed", "{text}");
        }
    }

    #[test]
    fn what_is_dialled_is_canonical_and_one_bad_address_is_enough() {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        assert_eq!(judge(parse(&["::ffff:10.0.0.1", "fd00::2"])).unwrap(), parse(&["10.0.0.1", "fd00::2"]));
        assert_eq!(judge(parse(&["10.0.0.1", "::1"])).unwrap_err().message, "address not allowed");
        assert_eq!(judge(Vec::new()).unwrap_err().code, 400);
    }

    #[tokio::test]
    async fn names_are_judged_by_their_addresses() {
        let soon = clock::after(Duration::from_secs(20));
        for host in ["localhost", "127.1", "0x7f000001", "::ffff:127.0.0.1"] {
            let status = resolve(host, soon).await.unwrap_err();
            assert_eq!((status.code, status.message.as_str()), (400, "address not allowed"), "{host}");
        }
        assert_eq!(resolve("10.1.2.3", soon).await.unwrap(), ["10.1.2.3".parse::<IpAddr>().unwrap()]);
    }
}
