//! Parses and validates IP addresses like upstream (`k8s.io/apimachinery/pkg/util/validation/ip.go`).
//!
//! Fields that are older than strict validation ("legacy") accept leading zeros and IPv4-mapped addresses while the feature gate StrictIPCIDRValidation is
//! off, its default. An IPv4-mapped address means the contained IPv4 address. Newer fields accept only one spelling of each address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use oarlock_meta::quote::quote;
use oarlock_meta::{ErrorList, FieldError, Path};

const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// Parses an address of a legacy field (`ParseIPSloppy`). An IPv4-mapped address is returned as IPv4, so that later checks see the address that connections
/// would use.
#[must_use]
pub fn parse(text: &str) -> Option<IpAddr> {
    match text.parse::<Ipv6Addr>() {
        Ok(ip) => Some(IpAddr::V6(ip).to_canonical()),
        Err(_) => parse_v4(text).map(IpAddr::V4),
    }
}

/// Parses four decimal numbers, which may have leading zeros.
fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next().filter(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))?;
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    }
    parts.next().is_none().then(|| octets.into())
}

/// Validates an address of a legacy field (`IsValidIPForLegacyField`).
pub fn legacy(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if parse(text).is_none() {
        errors.push(FieldError::invalid(path, text, NO_ADDRESS));
    }
}

/// Returns what is wrong with an address of a newer field (`IsValidIP`), which allows only the canonical form.
#[must_use]
pub fn strict(text: &str) -> Option<String> {
    let Some(ip) = parse(text) else { return Some(NO_ADDRESS.to_owned()) };
    match text.parse::<IpAddr>() {
        Err(_) => Some("must not have leading 0s".to_owned()),
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            Some("must not be an IPv4-mapped IPv6 address".to_owned())
        }
        Ok(_) => (ip.to_string() != text).then(|| format!("must be in canonical form (\"{ip}\")")),
    }
}

/// Validates an address that other hosts must be able to reach, so no loopback or link-local one (`ValidateEndpointIP`). Used for Endpoints, EndpointSlices
/// and `externalIPs`.
pub fn endpoint(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(ip) = parse(text) else {
        errors.push(FieldError::invalid(path, text, "must be a valid IP address"));
        return;
    };
    let (link_local, multicast) = match ip {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets().starts_with(&[224, 0, 0])),
        // Only the scope counts, whatever the flags.
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments().first().is_some_and(|s| s & 0xff0f == 0xff02)),
    };
    let texts = [
        (ip.is_unspecified(), format!("may not be unspecified ({text})")),
        (ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()),
    ];
    for (_, why) in texts.into_iter().filter(|(is, _)| *is) {
        errors.push(FieldError::invalid(path, text, why));
    }
}

/// Warns of an address of a legacy field that is not in canonical form (`GetWarningsForIP`).
pub fn warn(text: &str, path: &Path<'_>, texts: &mut Vec<String>) {
    let Some(ip) = parse(text) else { return };
    let (shown, right) = (quote(text), quote(&ip.to_string()));
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_none() => {
            if shown != right {
                texts.push(format!("{path}: IPv6 address {shown} should be in RFC 5952 canonical format ({right})"));
            }
        }
        Ok(IpAddr::V4(_)) => {}
        _ => texts.push(format!(
            "{path}: non-standard IP address {shown} will be considered invalid in a future Kubernetes release: use {right}"
        )),
    }
}

/// An address range as a legacy field accepts one (`ParseCIDRSloppy`): leading zeros, bits after the prefix and IPv4-mapped addresses are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The address as written, IPv4 in the lowest bits.
    value: u128,
    /// The length of the prefix as written.
    bits: u32,
    /// The number of bits of the address as written: 32 or 128.
    width: u32,
}

impl Range {
    /// Parses a range.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (ip, bits) = text.split_once('/')?;
        let (value, width) = match ip.parse::<Ipv6Addr>() {
            Ok(v6) => (v6.to_bits(), 128),
            Err(_) => (u128::from(parse_v4(ip)?.to_bits()), 32),
        };
        let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
        let bits = bits.parse::<u32>().ok().filter(|bits| digits && *bits <= width)?;
        Some(Self { value, bits, width })
    }

    fn address(self, value: u128) -> IpAddr {
        match u32::try_from(value) {
            Ok(v4) if self.width == 32 => Ipv4Addr::from_bits(v4).into(),
            _ => IpAddr::V6(Ipv6Addr::from_bits(value)).to_canonical(),
        }
    }

    /// Returns the first address of the range.
    fn first(self) -> u128 {
        let rest = self.width - self.bits;
        self.value.checked_shr(rest).and_then(|value| value.checked_shl(rest)).unwrap_or(0)
    }

    /// Returns the range in Go's form: an IPv4-mapped range is shown as IPv4.
    fn shown(self) -> String {
        let first = self.address(self.first());
        let mapped = first.is_ipv4() && self.width == 128;
        format!("{first}/{}", if mapped { self.bits.saturating_sub(96) } else { self.bits })
    }

    /// Whether this range is a proper superset of `inner`.
    #[must_use]
    pub fn holds_more_than(self, inner: Self) -> bool {
        let rest = self.width - self.bits;
        let prefix = |value: u128| value.checked_shr(rest).unwrap_or(0);
        self.width == inner.width && self.bits < inner.bits && prefix(self.value) == prefix(inner.value)
    }
}

/// Warns of a range of a legacy field that is not in canonical form (`GetWarningsForCIDR`).
pub fn warn_range(text: &str, path: &Path<'_>, texts: &mut Vec<String>) {
    let Some(range) = Range::parse(text) else { return };
    let (shown, right) = (quote(text), quote(&range.shown()));
    let ambiguous = range.value != range.first();
    if ambiguous {
        let single = quote(&format!("{}/{}", range.address(range.value), range.width));
        texts.push(format!("{path}: CIDR value {shown} is ambiguous in this context (should be {right} or {single}?)"));
    }
    let ip = text.split('/').next().and_then(|ip| ip.parse::<IpAddr>().ok());
    let short = text.split('/').nth(1).is_some_and(|bits| bits == "0" || !bits.starts_with('0'));
    match ip.filter(|_| short) {
        Some(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_none() => {
            if !ambiguous && shown != right {
                texts.push(format!("{path}: IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({right})"));
            }
        }
        Some(IpAddr::V4(_)) => {}
        _ => texts.push(format!(
            "{path}: non-standard CIDR value {shown} will be considered invalid in a future Kubernetes release: use {right}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(rule: fn(&str, &Path<'_>, &mut ErrorList), text: &str) -> Vec<String> {
        let mut errors = ErrorList::default();
        rule(text, &Path::new("ip"), &mut errors);
        errors.iter().map(|error| error.detail.clone()).collect()
    }

    #[test]
    fn legacy_fields_take_leading_zeros_and_mapped_addresses() {
        for (text, wanted) in [
            ("1.2.3.4", Some("1.2.3.4")),
            ("01.002.0003.4", Some("1.2.3.4")),
            ("::ffff:1.2.3.4", Some("1.2.3.4")),
            ("FE80:0:0::0abc", Some("fe80::abc")),
            ("1.2.3", None),
            ("1.2.3.256", None),
            ("1.2.3.4.5", None),
            ("1..3.4", None),
            ("+1.2.3.4", None),
            ("fe80::1%eth0", None),
            ("", None),
        ] {
            assert_eq!(parse(text).map(|ip| ip.to_string()).as_deref(), wanted, "{text}");
            assert_eq!(refused(legacy, text).is_empty(), wanted.is_some(), "{text}");
        }
    }

    #[test]
    fn newer_fields_take_one_form_of_each_address() {
        for (text, wrong) in [
            ("1.2.3.4", None),
            ("2001:db8::1", None),
            ("1.2.3", Some(NO_ADDRESS)),
            ("01.2.3.4", Some("must not have leading 0s")),
            ("::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address")),
            ("2001:DB8::1", Some("must be in canonical form (\"2001:db8::1\")")),
        ] {
            assert_eq!(strict(text).as_deref(), wrong, "{text}");
        }
    }

    #[test]
    fn ranges_are_read_as_go_reads_them() {
        for (text, wanted) in [
            ("10.0.0.0/8", Some("10.0.0.0/8")),
            ("010.1.0.0/08", Some("10.0.0.0/8")),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
            ("::/0", Some("::/0")),
            ("2001:DB8::1/64", Some("2001:db8::/64")),
            ("::ffff:1.2.3.4/120", Some("1.2.3.0/24")),
            ("10.0.0.0/33", None),
            ("10.0.0.0/", None),
            ("10.0.0.0/+8", None),
            ("10.0.0.0", None),
            ("a/8", None),
        ] {
            assert_eq!(Range::parse(text).map(Range::shown).as_deref(), wanted, "{text}");
        }
        let holds =
            |outer: &str, inner: &str| Range::parse(outer).unwrap().holds_more_than(Range::parse(inner).unwrap());
        assert!(holds("0.0.0.0/0", "10.0.0.0/8") && holds("010.0.0.0/8", "10.1.0.0/16") && holds("::/0", "::1/128"));
        assert!(
            !holds("10.0.0.0/8", "10.0.0.0/8") && !holds("10.0.0.0/8", "11.0.0.0/9") && !holds("::/0", "10.0.0.0/8")
        );
    }

    #[test]
    fn no_form_of_an_address_leads_to_the_host_or_its_link() {
        for text in [
            "127.0.0.1",
            "127.000.0.01",
            "::ffff:127.0.0.1",
            "::ffff:7f00:1",
            "::1",
            "0.0.0.0",
            "::",
            "::ffff:0.0.0.0",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "224.0.0.1",
            "ff02::1",
            "ff12::1",
        ] {
            assert_eq!(refused(endpoint, text).len(), 1, "{text}");
        }
        for text in ["1.2.3.4", "::ffff:1.2.3.4", "2001:db8::1", "224.0.1.1", "ff0e::1"] {
            assert_eq!(refused(endpoint, text), Vec::<String>::new(), "{text}");
        }
    }
}
