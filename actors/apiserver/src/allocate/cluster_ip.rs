//! Allocation of cluster IPs: each is owned by an IPAddress object (KEP-1880).

use std::net::IpAddr;

use oarlock_meta::{ErrorList, FieldError, Path, Status};
use oarlock_registry::{index, key};
use oarlock_runtime::rng;
use oarlock_schema::views::core_v1::Service;
use oarlock_schema::views::networking_v1::IPAddressMut;
use oarlock_schema::{Obj, Resource, Value, resource};
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::Append;

use crate::server::Server;
use crate::target::Target;

/// How many random addresses are tried before every address is tried in turn.
const DRAWS: usize = 32;

/// Fills in `clusterIP` and `clusterIPs`; returns the IPAddress to create or delete.
pub(super) fn assign(
    server: &Server,
    target: &Target<'_>,
    obj: &mut Obj,
    old: Option<&Obj>,
    dry_run: bool,
) -> Result<Vec<Append>, Status> {
    let Some(addresses) = resource("networking.k8s.io", "v1", "ipaddresses") else { return Ok(Vec::new()) };
    let before = old.and_then(ip_of);
    let external = obj.view::<Service<'_>>().is_some_and(|s| s.spec().type_() == "ExternalName");
    if external {
        return Ok(before.map(|ip| delete(server, addresses, &ip)).into_iter().flatten().collect());
    }
    let wrong = super::families::settle(obj, old);
    target.check(obj.name(), &wrong)?;
    let asked = obj.view::<Service<'_>>().map_or("", |s| s.spec().cluster_ip()).to_owned();
    if asked == "None" {
        set(obj, "None", None);
        return Ok(Vec::new());
    }
    if asked.is_empty() && before.is_some() {
        // An update that omits the address keeps it.
        set(obj, before.as_deref().unwrap_or(""), Some("IPv4"));
        return Ok(Vec::new());
    }
    if Some(&asked) == before.as_ref() {
        return Ok(Vec::new());
    }
    let ip = if asked.is_empty() {
        free(server, addresses)?
    } else {
        checked(server, target, addresses, obj.name(), &asked, dry_run)?
    };
    set(obj, &ip, Some("IPv4"));
    if seeded_bug!("allocator_in_memory") {
        return Ok(Vec::new());
    }
    Ok(create(addresses, &ip, obj).into_iter().collect())
}

pub(super) fn release(server: &Server, old: &Obj) -> Vec<Append> {
    let Some(addresses) = resource("networking.k8s.io", "v1", "ipaddresses") else { return Vec::new() };
    ip_of(old).and_then(|ip| delete(server, addresses, &ip)).into_iter().collect()
}

fn ip_of(obj: &Obj) -> Option<String> {
    let ip = obj.view::<Service<'_>>()?.spec().cluster_ip();
    (!ip.is_empty() && ip != "None").then(|| ip.to_owned())
}

fn set(obj: &mut Obj, ip: &str, family: Option<&str>) {
    obj.set_at(&["spec", "clusterIP"], ip);
    obj.set_at(&["spec", "clusterIPs"], [ip].into_iter().collect::<Value>());
    if obj.at(&["spec", "ipFamilies"]).is_none_or(|v| v.items().is_empty()) {
        obj.set_at(&["spec", "ipFamilies"], [family.unwrap_or("IPv4")].into_iter().collect::<Value>());
    }
    if obj.at(&["spec", "ipFamilyPolicy"]).is_none_or(Value::is_null) {
        obj.set_at(&["spec", "ipFamilyPolicy"], "SingleStack");
    }
}

/// Returns a free address. The lower band (up to 256 addresses) is left to explicit requests until the rest is full.
fn free(server: &Server, addresses: &Resource) -> Result<String, Status> {
    let (base, size) = range(server)?;
    let band = (size / 16).clamp(16, 256).min(size.saturating_sub(1));
    let taken = |ip: &str| server.reader().entry(addresses, "", ip).is_some();
    let text = |offset: u32| std::net::Ipv4Addr::from(base + offset).to_string();
    // Offset 0 is the network address, the last one the broadcast address.
    let last = size.saturating_sub(2);
    for _ in 0..DRAWS {
        let span = u64::from(last.saturating_sub(band).max(1));
        let ip = text(band + 1 + u32::try_from(rng::below(span)).unwrap_or(0)).to_owned();
        if !taken(&ip) {
            return Ok(ip);
        }
    }
    (band + 1..=last)
        .chain(1..=band)
        .map(text)
        .find(|ip| !taken(ip))
        .ok_or_else(|| Status::internal_error("failed to allocate a serviceIP: range is full"))
}

fn checked(
    server: &Server,
    target: &Target<'_>,
    addresses: &Resource,
    name: &str,
    asked: &str,
    dry_run: bool,
) -> Result<String, Status> {
    let refuse = |why: String| {
        let mut errors = ErrorList::default();
        errors.push(FieldError::invalid(
            &Path::new("spec").child("clusterIPs"),
            oarlock_meta::field::Raw(format!("[\"{asked}\"]")),
            why,
        ));
        Status::invalid(&target.group_kind(), name, errors.as_slice())
    };
    let ip: IpAddr = asked
        .parse()
        .map_err(|_| refuse(format!("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff), got {asked}")))?;
    // The network and broadcast addresses of the range are never given to a Service.
    let (base, size) = range(server)?;
    let edge = matches!(ip, IpAddr::V4(v4) if [0, size.saturating_sub(1)].contains(&u32::from(v4).wrapping_sub(base)));
    if edge || !server.config().service_cidr.contains(&ip) {
        // Upstream looks for a range that contains the address and finds none; in a dry run upstream asks its only range, so the texts differ.
        let range = server.config().service_cidr;
        let why = if dry_run {
            format!("the provided IP ({asked}) is not in the valid range. The range of valid IPs is {range}")
        } else {
            "the provided network does not match the current range".to_owned()
        };
        return Err(refuse(format!("failed to allocate IP {asked}: {why}")));
    }
    // As upstream, a dry run asks whether the address is in the range, and not whether it is taken.
    if !dry_run && server.reader().entry(addresses, "", asked).is_some() {
        return Err(refuse(format!("failed to allocate IP {asked}: provided IP is already allocated")));
    }
    Ok(asked.to_owned())
}

fn range(server: &Server) -> Result<(u32, u32), Status> {
    match server.config().service_cidr {
        ipnet::IpNet::V4(net) => {
            Ok((u32::from(net.network()), 1u32.checked_shl(32 - u32::from(net.prefix_len())).unwrap_or(u32::MAX)))
        }
        ipnet::IpNet::V6(_) => Err(Status::internal_error("the service range is no IPv4 range")),
    }
}

/// Builds the IPAddress object of a Service's address.
#[must_use]
pub(super) fn ip_address(addresses: &Resource, ip: &str, namespace: &str, name: &str) -> Obj {
    let mut obj = Obj::new(addresses.ty);
    let now = crate::now::text();
    let mut address = IPAddressMut::new(&mut obj);
    let mut meta = address.metadata_mut();
    meta.set_name(ip).set_uid(rng::uid().to_string()).set_creation_timestamp(now);
    meta.labels_mut().insert("ipaddress.kubernetes.io/ip-family", "IPv4");
    meta.labels_mut().insert("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
    let mut spec = address.spec_mut();
    spec.parent_ref_mut().set_resource("services").set_namespace(namespace).set_name(name);
    crate::ownership::of_server(addresses, &mut obj);
    obj
}

fn create(addresses: &Resource, ip: &str, service: &Obj) -> Option<Append> {
    let mut obj = ip_address(addresses, ip, service.namespace(), service.name());
    let key = key::key(addresses, "", ip)?;
    debug_assert!(std::ptr::eq(index::stored_type(addresses), addresses.ty));
    let encoded = oarlock_registry::stored::encode(&key, &mut obj);
    Some(Append::create(key, encoded.value))
}

fn delete(server: &Server, addresses: &Resource, ip: &str) -> Option<Append> {
    let entry = server.reader().entry(addresses, "", ip)?;
    Some(Append::delete(entry.key.clone(), entry.revision))
}
