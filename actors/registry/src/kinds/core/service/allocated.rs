//! Values that the server allocated to a Service: an update without them keeps them, so that a manifest can be applied again.

use std::collections::{BTreeMap, BTreeSet};

use oarlock_schema::views::core_v1::{Service, ServiceSpec};
use oarlock_schema::{Obj, Value};

use super::{has_address, has_health_port, is_balanced};
use crate::fields;

const ADDRESS: [&str; 2] = ["spec", "clusterIP"];
const ADDRESSES: [&str; 2] = ["spec", "clusterIPs"];
const HEALTH: [&str; 2] = ["spec", "healthCheckNodePort"];

/// Copies allocated values from the stored Service where the update leaves them out (upstream `patchAllocatedValues`).
pub(super) fn keep(new: &mut Obj, old: &Obj) {
    let both = |new: &Obj, test: fn(ServiceSpec<'_>) -> bool| {
        [new, old].into_iter().all(|obj| obj.view::<Service<'_>>().is_some_and(|service| test(service.spec())))
    };
    let empty = |new: &Obj, path: &[&str]| {
        new.at(path).is_none_or(|v| v.is_null() || v.as_str() == Some("") || v.as_int() == Some(0))
    };
    if both(new, has_address) {
        if empty(new, &ADDRESS) {
            fields::restore_at(new, old, &ADDRESS);
        }
        if addresses(new).is_empty() {
            fields::restore_at(new, old, &ADDRESSES);
        }
    }
    if both(new, has_health_port) && empty(new, &HEALTH) {
        fields::restore_at(new, old, &HEALTH);
    }
    if both(new, gets_node_ports) {
        keep_ports(new, old);
    }
}

fn gets_node_ports(spec: ServiceSpec<'_>) -> bool {
    spec.type_() == "NodePort" || (is_balanced(spec) && spec.allocate_load_balancer_node_ports() != Some(false))
}

/// Keeps the node ports of ports that keep their names, unless the update gives the node port to another port.
fn keep_ports(new: &mut Obj, old: &Obj) {
    let ports = |obj: &Obj| -> Vec<(String, i64)> {
        let service = obj.view::<Service<'_>>();
        let ports = service.iter().flat_map(|s| s.spec().ports().iter());
        ports.map(|port| (port.name().to_owned(), port.node_port())).collect()
    };
    let used = |ports: &[(String, i64)]| ports.iter().map(|(_, port)| *port).filter(|port| *port != 0).collect();
    let (now, before) = (ports(new), ports(old));
    let (now, same): (BTreeSet<i64>, BTreeSet<i64>) = (used(&now), used(&before));
    let taken: BTreeSet<i64> = now.intersection(&same).copied().collect();
    let given: BTreeMap<String, i64> = before.into_iter().collect();
    let Some(Value::List(ports)) = new.get_mut("spec").and_then(Value::as_struct_mut).and_then(|s| s.get_mut("ports"))
    else {
        return;
    };
    for port in ports.iter_mut().filter_map(Value::as_struct_mut) {
        if port.get("nodePort").and_then(Value::as_int).unwrap_or(0) != 0 {
            continue;
        }
        let had = given.get(port.get("name").and_then(Value::as_str).unwrap_or("")).copied().unwrap_or(0);
        if had != 0 && !taken.contains(&had) {
            port.set_name("nodePort", had);
        }
    }
}

fn addresses(obj: &Obj) -> Vec<String> {
    let service = obj.view::<Service<'_>>();
    service.iter().flat_map(|s| s.spec().cluster_ips().iter()).map(str::to_owned).collect()
}

/// Derives `clusterIPs` from `clusterIP` for clients that know the latter only (upstream `normalizeClusterIPs`).
pub(super) fn pair_addresses(new: &mut Obj, old: Option<&Obj>) {
    let one = |obj: &Obj| obj.at(&ADDRESS).and_then(Value::as_str).unwrap_or("").to_owned();
    let (now, many) = (one(new), addresses(new));
    let Some(old) = old else {
        if !now.is_empty() && many.is_empty() {
            new.set_at(&ADDRESSES, [now.as_str()].into_iter().collect::<Value>());
        }
        return;
    };
    let (before, had) = (one(old), addresses(old));
    if now == before {
        if many.is_empty() && !had.is_empty() {
            fields::restore_at(new, old, &ADDRESSES);
        }
    } else if many == had {
        if now.is_empty() {
            fields::remove_at(new, &ADDRESSES);
        } else {
            new.set_at(&ADDRESSES, [now.as_str()].into_iter().collect::<Value>());
        }
    }
}

#[cfg(test)]
mod tests {
    use oarlock_codec::{Mode, json};
    use oarlock_schema::resource;

    use super::*;

    fn service(spec: &str) -> Obj {
        let text = format!(r#"{{"spec":{{{spec}}}}}"#);
        json::decode(text.as_bytes(), resource("", "v1", "services").unwrap().ty, Mode::Strict).unwrap().value
    }

    fn settled(new: &str, old: &str) -> Obj {
        let (mut new, old) = (service(new), service(old));
        keep(&mut new, &old);
        pair_addresses(&mut new, Some(&old));
        new
    }

    const HAD: &str = r#""type":"LoadBalancer","externalTrafficPolicy":"Local","healthCheckNodePort":31000,"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],
        "ports":[{"name":"a","port":1,"nodePort":30001},{"name":"b","port":2,"nodePort":30002}]"#;

    #[test]
    fn what_was_given_is_kept_where_nothing_is_said() {
        let bare = r#""type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[{"name":"b","port":2},{"name":"a","port":1},{"name":"c","port":3}]"#;
        let new = settled(bare, HAD);
        let view = new.view::<Service<'_>>().unwrap();
        let spec = view.spec();
        assert_eq!((spec.cluster_ip(), spec.health_check_node_port()), ("10.0.0.1", 31_000));
        assert_eq!(spec.cluster_ips().iter().collect::<Vec<_>>(), ["10.0.0.1"]);
        assert_eq!(spec.ports().iter().map(|p| p.node_port()).collect::<Vec<_>>(), [30_002, 30_001, 0]);
    }

    #[test]
    fn a_node_port_that_another_port_has_now_is_not_given_twice() {
        let moved = r#""type":"NodePort","ports":[{"name":"a","port":1},{"name":"c","port":2,"nodePort":30001}]"#;
        let new = settled(moved, HAD);
        let view = new.view::<Service<'_>>().unwrap();
        assert_eq!(view.spec().ports().iter().map(|p| p.node_port()).collect::<Vec<_>>(), [0, 30_001]);
        assert_eq!(view.spec().health_check_node_port(), 0, "another type has none");
    }

    #[test]
    fn another_cluster_ip_means_another_list() {
        let old = r#""type":"ClusterIP","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"]"#;
        let new = settled(r#""type":"ClusterIP","clusterIP":"None","clusterIPs":["10.0.0.1"]"#, old);
        assert_eq!(addresses(&new), ["None"]);
        let mut created = service(r#""clusterIP":"None""#);
        pair_addresses(&mut created, None);
        assert_eq!(addresses(&created), ["None"]);
    }
}
