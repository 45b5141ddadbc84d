//! Validates that the cluster IPs of a Service agree with each other and with the Service's IP families.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::core_v1::ServiceSpec;

use crate::rules::show;

/// Validates that there is at most one address per family, each of the family at the same position.
pub(super) fn agreement(spec: ServiceSpec<'_>, given: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    let six = |address: &str| match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V6(ip)) => ip.to_ipv4_mapped().is_none(),
        _ => false,
    };
    if given.len() > 1 && (given.iter().all(|ip| six(ip)) || !given.iter().any(|ip| six(ip))) {
        let shown = Raw(show::items(spec.cluster_ips().values()));
        errors.push(FieldError::invalid(at, shown, "may specify no more than one IP for each IP family"));
    }
    if spec.cluster_ip() == "None" {
        return;
    }
    for (i, (address, family)) in given.iter().zip(spec.ip_families().iter()).enumerate() {
        if matches!(family, "IPv4" | "IPv6") && !address.is_empty() && (family == "IPv6") != six(address) {
            let text = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.push(FieldError::invalid(&at.index(i), *address, text));
        }
    }
}
