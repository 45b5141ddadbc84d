//! Services: when the type changes, fields that the new type does not use are dropped, unless the same update changes them (upstream
//! `dropTypeDependentFields`).

mod allocated;

use oarlock_schema::views::core_v1::{Service, ServiceSpec};
use oarlock_schema::{Obj, Struct, Value};

use crate::fields;
use crate::kind::{Request, Strategy};

/// Strategy of services.
#[derive(Debug)]
pub struct ServiceStrategy;

impl Strategy for ServiceStrategy {
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        fields::reset_for_create(request.resource, obj);
        allocated::pair_addresses(obj, None);
    }

    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        fields::reset_for_update(request.resource, request.endpoint, new, old);
        if request.endpoint.is_empty() {
            allocated::keep(new, old);
            allocated::pair_addresses(new, Some(old));
            for path in unused_fields(new, old) {
                fields::remove_at(new, path);
            }
            let ports = changed(new, old, has_node_ports) && same_ports(new, old);
            if ports && let Some(Value::List(ports)) = spec(new).and_then(|spec| spec.get_mut("ports")) {
                ports.iter_mut().filter_map(Value::as_struct_mut).for_each(|port| drop(port.remove_name("nodePort")));
            }
        }
    }
}

type Test = fn(ServiceSpec<'_>) -> bool;

fn has_address(spec: ServiceSpec<'_>) -> bool {
    spec.type_() != "ExternalName"
}

fn has_node_ports(spec: ServiceSpec<'_>) -> bool {
    matches!(spec.type_(), "NodePort" | "LoadBalancer")
}

fn is_balanced(spec: ServiceSpec<'_>) -> bool {
    spec.type_() == "LoadBalancer"
}

fn has_health_port(spec: ServiceSpec<'_>) -> bool {
    is_balanced(spec) && spec.external_traffic_policy() == "Local"
}

fn is_reached_from_outside(spec: ServiceSpec<'_>) -> bool {
    has_node_ports(spec) || (spec.type_() == "ClusterIP" && !spec.external_ips().is_empty())
}

/// Whether `test` holds for the old object but not for the new one.
fn changed(new: &Obj, old: &Obj, test: Test) -> bool {
    let is = |obj: &Obj| obj.view::<Service<'_>>().is_some_and(|service| test(service.spec()));
    is(old) && !is(new)
}

/// Returns the fields that the new type does not use and that the update leaves unchanged.
fn unused_fields(new: &Obj, old: &Obj) -> Vec<&'static [&'static str]> {
    const FIELDS: &[(Test, &[&str])] = &[
        (has_address, &["spec", "clusterIP"]),
        (has_address, &["spec", "clusterIPs"]),
        (has_address, &["spec", "ipFamilies"]),
        (has_address, &["spec", "ipFamilyPolicy"]),
        (has_address, &["spec", "internalTrafficPolicy"]),
        (has_health_port, &["spec", "healthCheckNodePort"]),
        (is_balanced, &["spec", "allocateLoadBalancerNodePorts"]),
        (is_balanced, &["spec", "loadBalancerClass"]),
        (is_balanced, &["status", "loadBalancer"]),
        (is_reached_from_outside, &["spec", "externalTrafficPolicy"]),
    ];
    let same = |path: &[&str]| new.at(path) == old.at(path);
    FIELDS.iter().filter(|(test, path)| changed(new, old, *test) && same(path)).map(|(_, path)| *path).collect()
}

fn spec(obj: &mut Obj) -> Option<&mut Struct> {
    obj.get_mut("spec").and_then(Value::as_struct_mut)
}

/// Whether the update requests no new node port.
fn same_ports(new: &Obj, old: &Obj) -> bool {
    let ports = |obj: &Obj| -> Vec<i64> {
        let service = obj.view::<Service<'_>>();
        service.iter().flat_map(|s| s.spec().ports().iter()).map(|port| port.node_port()).filter(|n| *n != 0).collect()
    };
    let before = ports(old);
    ports(new).iter().all(|port| before.contains(port))
}
