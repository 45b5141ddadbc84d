//! The Service `default/kubernetes`, whose endpoints are all live API servers, and the Leases by which the servers find one another.
//!
//! Upstream keeps the addresses under keys of its own (`masterleases`). Here each server's identity Lease (KEP-1965) carries the server's address as
//! an annotation. A server that has not renewed its Lease within [`ENDPOINT_LIFETIME`] is no endpoint any more, and its Lease is deleted after an
//! hour. A server that shuts down in order removes both at once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use oarlock_meta::{MicroTime, Revision, Status};
use oarlock_runtime::clock;
use oarlock_schema::views::coordination_v1::Lease;
use oarlock_schema::{Obj, Resource, resource};
use serde_json::{Value, json};

use super::desired::{Desired, Repair, from_json, made};
use crate::server::Server;

/// How long a server remains an endpoint after its last renewal: one missed renewal is tolerated (upstream: 15 s).
const ENDPOINT_LIFETIME: Duration = Duration::from_secs(25);
/// Duration that a Lease states, in seconds (upstream: an hour).
const LEASE_DURATION_SECONDS: i64 = 3600;
const NAMESPACE: &str = "kube-system";
const LEASES: &str = "/registry/leases/";
const ROLE: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");
const ADDRESS: &str = "oarlock.dev/advertise-address";

/// Returns the name of this server's Lease.
pub(super) fn lease_name(server: &Server) -> String {
    format!("apiserver-{}", server.config().identity)
}

/// Builds this server's Lease, renewed now.
pub(super) fn lease(server: &Server) -> Result<Desired, Status> {
    let config = server.config();
    let name = lease_name(server);
    let (row, mut obj) = made("coordination.k8s.io", "v1", "leases", NAMESPACE, &name)?;
    if let Some(mut meta) = obj.meta_mut() {
        meta.labels_mut().insert(ROLE.0, ROLE.1);
        meta.annotations_mut().insert(ADDRESS, format!("{} {}", config.advertise_address, config.port));
    }
    let now = MicroTime::from_unix_micros(clock::wall().as_microsecond()).to_string();
    obj.set_at(&["spec", "holderIdentity"], format!("{name}_{}", config.port));
    obj.set_at(&["spec", "leaseDurationSeconds"], LEASE_DURATION_SECONDS);
    obj.set_at(&["spec", "renewTime"], now);
    Ok(Desired { resource: row, obj, repair: Repair::Replace(&["spec"]) })
}

/// Builds the Service, with the Endpoints and the EndpointSlice that list the live servers.
pub(super) fn service(server: &Server) -> Result<Vec<Desired>, Status> {
    let config = server.config();
    let servers = live_servers(server);
    let ip = config.first_service_ip().map(|ip| ip.to_string()).unwrap_or_default();
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let row = |group, version, plural| {
        resource(group, version, plural).ok_or_else(|| Status::internal_error(format!("no resource {plural}")))
    };
    let family = if matches!(config.advertise_address, IpAddr::V4(_)) { "IPv4" } else { "IPv6" };
    let service = json!({
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {"type": "ClusterIP", "clusterIP": ip, "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
                 "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": config.port}]},
    });
    let skip = "endpointslice.kubernetes.io/skip-mirror";
    let endpoints = json!({
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {skip: "true"}},
        "subsets": subsets(&servers),
    });
    // An EndpointSlice has one port for all addresses: that of most servers. Servers have different ports only when several share a machine.
    let common = servers.iter().max_by_key(|(port, addresses)| (addresses.len(), u16::MAX - **port));
    let (port, addresses) = common.map_or((config.port, &[][..]), |(port, addresses)| (*port, addresses.as_slice()));
    let ready = |address: &IpAddr| json!({"addresses": [address], "conditions": {"ready": true}});
    let slice = json!({
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": family,
        "endpoints": addresses.iter().map(ready).collect::<Vec<_>>(),
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    });
    Ok(vec![
        from_json(row("", "v1", "services")?, service, Repair::CreateOnly)?,
        from_json(row("", "v1", "endpoints")?, endpoints, Repair::Replace(&["subsets"]))?,
        from_json(row("discovery.k8s.io", "v1", "endpointslices")?, slice, Repair::Replace(&["endpoints", "ports"]))?,
    ])
}

/// Addresses of servers by port.
type Servers = BTreeMap<u16, Vec<IpAddr>>;

/// An identity Lease, with what is needed to delete it.
pub(super) struct Identity {
    pub(super) resource: &'static Resource,
    pub(super) obj: Obj,
    pub(super) revision: Revision,
}

/// Returns the Leases of all servers from the View.
fn leases(server: &Server) -> Vec<Identity> {
    let Some(resource) = resource("coordination.k8s.io", "v1", "leases") else { return Vec::new() };
    let leases = server.store().view().list(LEASES);
    let ours = leases.iter().filter(|e| e.namespace() == NAMESPACE && e.label(ROLE.0) == Some(ROLE.1));
    let decoded = ours.filter_map(|entry| {
        let obj = oarlock_registry::index::decode(entry.bytes()?, resource.ty).ok()?;
        Some(Identity { resource, obj, revision: entry.revision })
    });
    decoded.collect()
}

/// Returns the expired Leases: their servers have not renewed for an hour.
pub(super) fn expired_leases(server: &Server) -> Vec<Identity> {
    let now = clock::wall().as_microsecond();
    leases(server).into_iter().filter(|lease| is_expired(&lease.obj, now)).collect()
}

/// Whether a Lease has expired. A Lease without a time of renewal or a duration counts as expired.
fn is_expired(lease: &Obj, now: i64) -> bool {
    let until = || {
        let spec = lease.view::<Lease<'_>>()?.spec();
        let renewed = MicroTime::parse(spec.renew_time()?).ok()?.unix_micros();
        renewed.checked_add(spec.lease_duration_seconds()?.checked_mul(1_000_000)?)
    };
    until().is_none_or(|until| until < now)
}

/// Returns every server that has renewed its Lease lately. This server's own Lease is in the View before this is called.
fn live_servers(server: &Server) -> Servers {
    let oldest = clock::wall().as_microsecond() - i64::try_from(ENDPOINT_LIFETIME.as_micros()).unwrap_or(i64::MAX);
    let mut servers = Servers::new();
    for (address, port) in leases(server).iter().filter_map(|lease| address_of(&lease.obj, oldest)) {
        servers.entry(port).or_default().push(address);
    }
    for addresses in servers.values_mut() {
        addresses.sort_unstable();
        addresses.dedup();
    }
    servers
}

/// Returns the address of the server of a Lease, if the Lease was renewed after `oldest`.
fn address_of(lease: &Obj, oldest: i64) -> Option<(IpAddr, u16)> {
    let renewed = MicroTime::parse(lease.view::<Lease<'_>>()?.spec().renew_time()?).ok()?;
    let (address, port) = lease.meta().annotations().get(ADDRESS)?.split_once(' ')?;
    (renewed.unix_micros() >= oldest).then_some((address.parse().ok()?, port.parse().ok()?))
}

fn subsets(servers: &Servers) -> Value {
    let subset = |(port, addresses): (&u16, &Vec<IpAddr>)| {
        let addresses: Vec<Value> = addresses.iter().map(|address| json!({"ip": address})).collect();
        json!({"addresses": addresses, "ports": [{"name": "https", "port": port, "protocol": "TCP"}]})
    };
    servers.iter().map(subset).collect()
}
