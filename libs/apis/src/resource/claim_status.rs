//! Validation of updates of a ResourceClaim's status (upstream `validateResourceClaimStatusUpdate`).

use std::collections::{HashMap, HashSet};

use oarlock_meta::field::Raw;
use oarlock_meta::quote::quote;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::resource_v1::{
    AllocatedDeviceStatus, AllocationResult, ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus,
};
use oarlock_schema::{Struct, Value};

use crate::core::volume::driver_name;
use crate::rules::{self, label, one_of, required, show, status, subdomain};

/// The most users of a claim at once.
const MAX_USERS: usize = 256;
/// The most devices of an allocation.
const MAX_DEVICES: usize = 32;
/// The most configurations of an allocation: those of its class and its own.
const MAX_CONFIGS: usize = 64;
/// The most requests to which a configuration applies.
const MAX_REQUESTS: usize = 32;
/// The most conditions of a device.
const MAX_CONDITIONS: usize = 8;
/// The longest name of a pool in bytes.
const MAX_POOL_NAME_BYTES: usize = 253;
/// The most bytes of a driver's data about a device, and of the parameters for a driver.
const MAX_DATA_BYTES: usize = 10 * 1024;
const REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// Validates an update of the status. Both arguments are whole claims.
pub fn validate_change(new: &Struct, old: &Struct, errors: &mut ErrorList) {
    let (claim, path) = (ResourceClaim::new(new), Path::new("status"));
    let (now, before) = (claim.status(), ResourceClaim::new(old).status());
    let going = claim.metadata().deletion_timestamp().is_some_and(|time| !time.is_empty());
    users(now, &path.child("reservedFor"), errors);
    devices(now, &path.child("devices"), errors);
    reservations(now, before, going, &path.child("reservedFor"), errors);
    let at = path.child("allocation");
    match (now.allocation(), before.allocation()) {
        (Some(_), Some(_)) => {
            let allocation =
                |status: ResourceClaimStatus<'_>| status.node().and_then(|node| node.get("allocation")).cloned();
            rules::immutable(allocation(now).as_ref(), allocation(before).as_ref(), &at, errors);
        }
        (Some(allocation), None) => allocated(allocation, &Requests::of(claim), &at, errors),
        (None, _) => {}
    }
}

fn users(now: ResourceClaimStatus<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let list = now.reserved_for();
    if list.len() > MAX_USERS {
        errors.push(FieldError::too_many(path, list.len(), MAX_USERS));
        return;
    }
    let mut seen = HashSet::new();
    for (i, user) in list.iter().enumerate() {
        let at = path.index(i);
        for (field, value) in [("resource", user.resource()), ("name", user.name()), ("uid", user.uid())] {
            required(value, &at.child(field), errors);
        }
        if !seen.insert(user.uid()) {
            errors.push(FieldError::duplicate(&at, user.uid()));
        }
    }
}

/// Validates `reservedFor`, which needs an allocation and must not get new entries while the claim is being deleted or deallocated.
fn reservations(
    now: ResourceClaimStatus<'_>,
    before: ResourceClaimStatus<'_>,
    going: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if now.reserved_for().is_empty() {
        return;
    }
    if now.allocation().is_none() {
        errors.push(FieldError::forbidden(path, "may not be specified when `allocated` is not set"));
    } else if going {
        let all = |user: ResourceClaimConsumerReference<'_>| {
            [user.api_group(), user.resource(), user.name(), user.uid()].map(str::to_owned)
        };
        let known: HashSet<_> = before.reserved_for().iter().map(all).collect();
        if now.reserved_for().iter().any(|user| !known.contains(&all(user))) {
            let text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.push(FieldError::forbidden(path, text));
        }
    }
}

/// Returns the name of a device in messages: `driver/pool/device`, and the share of the device.
fn device_name(driver: &str, pool: &str, device: &str, share: Option<&str>) -> String {
    let share = share.map(|share| format!("/{share}")).unwrap_or_default();
    format!("{driver}/{pool}/{device}{share}")
}

/// Validates the drivers' reports about the allocated devices.
fn devices(now: ResourceClaimStatus<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let given: HashSet<String> = now
        .allocation()
        .map(|allocation| {
            let results = allocation.devices().results();
            results.iter().map(|one| device_name(one.driver(), one.pool(), one.device(), one.share_id())).collect()
        })
        .unwrap_or_default();
    let mut seen = HashSet::new();
    for (i, device) in now.devices().iter().enumerate() {
        let at = path.index(i);
        driver_name(device.driver(), &at.child("driver"), errors);
        pool(device.pool(), &at.child("pool"), errors);
        label(device.device(), &at.child("device"), errors);
        let name = device_name(device.driver(), device.pool(), device.device(), device.share_id());
        if !given.contains(&name) {
            errors.push(FieldError::invalid(&at, shown(device), "must be an allocated device in the claim"));
        }
        let conditions = device.conditions();
        if conditions.len() > MAX_CONDITIONS {
            errors.push(FieldError::too_many(&at.child("conditions"), conditions.len(), MAX_CONDITIONS));
        }
        status::list(conditions.values(), &at.child("conditions"), errors);
        if let Some(data) = device.node().and_then(|node| node.get("data")) {
            object(Some(data), &at.child("data"), errors);
        }
        network(device, &at.child("networkData"), errors);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at, shown(device)));
        }
    }
}

/// Formats a device as Go prints upstream's identity type, which is the value in the error.
fn shown(device: AllocatedDeviceStatus<'_>) -> Raw<String> {
    let share = device.share_id().unwrap_or("");
    let [driver, pool, name, share] = [device.driver(), device.pool(), device.device(), share].map(quote);
    Raw(format!("{{\"Driver\":{driver},\"Pool\":{pool},\"Device\":{name},\"ShareID\":{share}}}"))
}

/// Validates the name of a pool: DNS subdomains, joined by slashes.
fn pool(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    required(name, path, errors);
    if name.is_empty() {
        return;
    }
    if name.len() > MAX_POOL_NAME_BYTES {
        errors.push(FieldError::too_long(path, MAX_POOL_NAME_BYTES));
    }
    name.split('/').for_each(|part| subdomain(part, path, errors));
}

/// Validates a JSON object that only drivers understand.
fn object(value: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    match value {
        None | Some(Value::Null) => errors.push(FieldError::required(path, "")),
        Some(value) if show::json(value).len() > MAX_DATA_BYTES => {
            errors.push(FieldError::too_long(path, MAX_DATA_BYTES))
        }
        Some(Value::Map(_) | Value::Struct(_)) => {}
        Some(_) => errors.push(FieldError::invalid(path, "<value omitted>", "must be a valid JSON object")),
    }
}

/// The most addresses of a device.
const MAX_ADDRESSES: usize = 16;

fn network(device: AllocatedDeviceStatus<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(data) = device.network_data() else { return };
    for (field, text, most) in
        [("interfaceName", data.interface_name(), 256), ("hardwareAddress", data.hardware_address(), 128)]
    {
        if text.len() > most {
            errors.push(FieldError::too_long(&path.child(field), most));
        }
    }
    let (list, at) = (data.ips(), path.child("ips"));
    if list.len() > MAX_ADDRESSES {
        errors.push(FieldError::too_many(&at, list.len(), MAX_ADDRESSES));
        return;
    }
    let mut seen = HashSet::new();
    for (i, address) in list.iter().enumerate() {
        let at = at.index(i);
        interface(address, &at, errors);
        if !seen.insert(address) {
            errors.push(FieldError::duplicate(&at, address));
        }
    }
}

/// Validates an address with the prefix length of its network, in canonical form (upstream `IsValidInterfaceAddress`).
fn interface(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let parts = text.split_once('/').and_then(|(ip, bits)| {
        let ip: std::net::IpAddr = ip.parse().ok()?;
        let bits: u8 = bits.parse().ok()?;
        (bits <= if ip.is_ipv4() { 32 } else { 128 }).then_some((ip, bits))
    });
    let wrong = match parts {
        None => Some("must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)".to_owned()),
        Some((ip, bits)) => {
            let canonical = format!("{ip}/{bits}");
            (canonical != text).then(|| format!("must be in canonical form ({canonical:?})"))
        }
    };
    if let Some(text_of_error) = wrong {
        errors.push(FieldError::invalid(path, text, text_of_error));
    }
}

/// The names of a claim's requests, each with the names of its alternatives (`firstAvailable`).
struct Requests<'a>(HashMap<&'a str, HashSet<&'a str>>);

impl<'a> Requests<'a> {
    fn of(claim: ResourceClaim<'a>) -> Self {
        let requests = claim.spec().devices().requests();
        Self(
            requests
                .iter()
                .map(|one| (one.name(), one.first_available().iter().map(|sub| sub.name()).collect()))
                .collect(),
        )
    }

    /// Whether the claim has a request: `request`, or `request/alternative`. A bare name may also be that of a request with alternatives.
    fn has(&self, name: &str) -> bool {
        match name.split_once('/') {
            None => self.0.contains_key(name),
            Some((request, alternative)) => self.0.get(request).is_some_and(|names| names.contains(alternative)),
        }
    }

    fn check(&self, name: &str, path: &Path<'_>, errors: &mut ErrorList) {
        if name.split('/').count() > 2 {
            errors.push(FieldError::invalid(path, name, REQUEST));
            return;
        }
        name.split('/').for_each(|part| label(part, path, errors));
        if !self.has(name) {
            errors.push(FieldError::invalid(path, name, REQUEST));
        }
    }
}

/// Validates like upstream's `validateAllocationResult`.
fn allocated(allocation: AllocationResult<'_>, requests: &Requests<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("devices");
    let (results, here) = (allocation.devices().results(), at.child("results"));
    if results.len() > MAX_DEVICES {
        errors.push(FieldError::too_many(&here, results.len(), MAX_DEVICES));
    } else {
        for (i, result) in results.iter().enumerate() {
            let at = here.index(i);
            requests.check(result.request(), &at.child("request"), errors);
            driver_name(result.driver(), &at.child("driver"), errors);
            pool(result.pool(), &at.child("pool"), errors);
            label(result.device(), &at.child("device"), errors);
        }
    }
    let (configs, here) = (allocation.devices().config(), at.child("config"));
    if configs.len() > MAX_CONFIGS {
        errors.push(FieldError::too_many(&here, configs.len(), MAX_CONFIGS));
    } else {
        for (i, config) in configs.iter().enumerate() {
            let at = here.index(i);
            match config.source() {
                "" => errors.push(FieldError::required(&at.child("source"), "")),
                source => one_of(source, &["FromClaim", "FromClass"], &at.child("source"), errors),
            }
            named(config.requests().iter().collect(), requests, &at.child("requests"), errors);
            let opaque = at.child("opaque");
            match config.opaque() {
                None => errors.push(FieldError::required(&opaque, "")),
                Some(told) => {
                    driver_name(told.driver(), &opaque.child("driver"), errors);
                    let parameters = told.node().and_then(|node| node.get("parameters"));
                    object(parameters, &opaque.child("parameters"), errors);
                }
            }
        }
    }
    if let Some(selector) = allocation.node_selector().and_then(View::node) {
        crate::core::scheduling::validate_node_selector(selector, &path.child("nodeSelector"), errors);
    }
}

fn named(names: Vec<&str>, requests: &Requests<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if names.len() > MAX_REQUESTS {
        errors.push(FieldError::too_many(path, names.len(), MAX_REQUESTS));
        return;
    }
    let mut seen = HashSet::new();
    for (i, name) in names.iter().enumerate() {
        requests.check(name, &path.index(i), errors);
        if !seen.insert(*name) {
            errors.push(FieldError::duplicate(&path.index(i), *name));
        }
    }
}
