//! The quota usage of services and device claims, and the names of object counts.

use compact_str::{CompactString, format_compact};
use oarlock_meta::Quantity;
use oarlock_meta::quantity::Format;
use oarlock_schema::views::core_v1::Service;
use oarlock_schema::{Obj, Resource, Value};

use oarlock_pods::{Amounts, ResourceList};

const DEVICE_SUFFIX: &str = ".deviceclass.resource.k8s.io/devices";
const DEVICE_CLAIMS: &str = "count/resourceclaims.resource.k8s.io";
/// The charge of a request for all devices: the most that a claim can get.
const ALL_DEVICES: i64 = 32;

/// Returns a whole number as a quantity.
pub(super) fn whole(n: i64) -> Quantity {
    Quantity::new(n, Format::DecimalSi)
}

/// Returns the resource name of object counts: `count/<plural>[.<group>]`.
pub(super) fn count_name(resource: &Resource) -> CompactString {
    match resource.group {
        "" => format_compact!("count/{}", resource.plural),
        group => format_compact!("count/{}.{group}", resource.plural),
    }
}

/// Returns the usage of a service; node ports count as requested, because they may not be allocated yet.
pub(super) fn service(object: &Obj) -> Amounts {
    let mut amounts = Amounts::default();
    let Some(spec) = object.view::<Service<'_>>().map(Service::spec) else { return amounts };
    let ports = spec.ports();
    let explicit = ports.iter().filter(|p| p.node_port() != 0).count();
    let balanced = spec.type_() == "LoadBalancer";
    let node_ports = match spec.type_() {
        "NodePort" => ports.len(),
        "LoadBalancer" if spec.allocate_load_balancer_node_ports() == Some(false) => explicit,
        "LoadBalancer" => ports.len(),
        _ => 0,
    };
    amounts.set("services", whole(1));
    amounts.set("count/services", whole(1));
    amounts.set("services.nodeports", whole(i64::try_from(node_ports).unwrap_or(i64::MAX)));
    amounts.set("services.loadbalancers", whole(i64::from(balanced)));
    amounts
}

/// Whether device claims are counted under this resource name.
pub(super) fn counts_devices(name: &str) -> bool {
    name == DEVICE_CLAIMS || name.ends_with(DEVICE_SUFFIX)
}

/// Returns the usage of a device claim: the object, and devices by class; of alternatives the largest counts.
pub(super) fn devices(object: &Obj) -> Amounts {
    let mut sum = Amounts::default();
    sum.set(DEVICE_CLAIMS, whole(1));
    for request in object.at(&["spec", "devices", "requests"]).map_or(&[][..], Value::items) {
        let alternatives = request.get("firstAvailable").map_or(&[][..], Value::items);
        let mut largest = Amounts::default();
        for one in request.get("exactly").into_iter().chain(alternatives) {
            let text = |field: &str| one.get(field).and_then(Value::as_str).unwrap_or("");
            let count = match text("allocationMode") {
                "All" => ALL_DEVICES,
                _ => one.get("count").and_then(Value::as_int).unwrap_or(1),
            };
            if !text("deviceClassName").is_empty() {
                let mut amounts = Amounts::default();
                amounts.set(format_compact!("{}{DEVICE_SUFFIX}", text("deviceClassName")), whole(count));
                largest.raise(&amounts);
            }
        }
        sum.add(&largest);
    }
    sum
}
