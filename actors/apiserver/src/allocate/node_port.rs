//! Allocation of node ports: unique per protocol in the cluster, recorded in one RangeAllocation as upstream does.

mod allocation;
mod shared;

use std::collections::BTreeSet;

use oarlock_meta::Status;
use oarlock_schema::views::core_v1::{Service, ServiceSpec};
use oarlock_schema::{Obj, Struct, Value};
use oarlock_storage::Append;

use self::allocation::Allocation;
use self::shared::{Shared, asked_of};
use crate::server::Server;
use crate::target::Target;

pub(super) const NAME: &str = "servicenodeports";

/// Whether a Service has node ports or asks for some.
pub(super) fn concerns(obj: &Obj) -> bool {
    may_have(obj) || !ports_of(obj).is_empty()
}

fn is(obj: &Obj, test: impl FnOnce(ServiceSpec<'_>) -> bool) -> bool {
    obj.view::<Service<'_>>().is_some_and(|service| test(service.spec()))
}

/// Whether a Service has a type whose ports are open on nodes.
fn may_have(obj: &Obj) -> bool {
    is(obj, |spec| matches!(spec.type_(), "NodePort" | "LoadBalancer"))
}

/// Whether the server allocates node ports for ports that ask for none. A port that asks for one gets it in any case.
fn wants(obj: &Obj) -> bool {
    is(obj, |spec| spec.type_() == "NodePort" || spec.allocate_load_balancer_node_ports() != Some(false))
}

/// Whether the Service has a health check node port, on which the load balancer asks each node whether the node has endpoints (upstream
/// `NeedsHealthCheck`).
fn is_checked(obj: &Obj) -> bool {
    is(obj, |spec| spec.type_() == "LoadBalancer" && spec.external_traffic_policy() == "Local")
}

/// Allocates the ports of a Service whose type has node ports; returns the write of the changed allocation.
pub(super) fn assign(
    server: &Server,
    target: &Target<'_>,
    obj: &mut Obj,
    old: Option<&Obj>,
) -> Result<Option<Append>, Status> {
    let before = old.map(ports_of).unwrap_or_default();
    if !may_have(obj) && before.is_empty() {
        return Ok(None);
    }
    let mut allocation = Allocation::load(server)?;
    let mut after = BTreeSet::new();
    if may_have(obj) {
        let (name, wants) = (obj.name().to_owned(), wants(obj));
        let mut shared = Shared::new(obj, old.is_none());
        let mut distinct = BTreeSet::new();
        for (i, node) in ports_mut(obj).enumerate() {
            let number = node.get("port").and_then(Value::as_int).unwrap_or(0);
            let asked = asked_of(node);
            if asked == 0 && !wants {
                continue;
            }
            let (asked, held) = shared.wish(number, asked);
            let given = if asked == 0 {
                let full = || Status::internal_error("failed to allocate a nodePort: range is full");
                allocation.free(&after).ok_or_else(full)?
            } else {
                let kept = old.is_some() && (before.contains(&asked) || after.contains(&asked));
                if !held && !kept {
                    allocation.check(target, &name, i, asked, &after)?;
                }
                asked
            };
            if old.is_some() {
                let protocol = node.get("protocol").and_then(Value::as_str).unwrap_or("TCP").to_owned();
                let text = format!("duplicate nodePort: {{{protocol} {given}}}");
                if !distinct.insert((protocol, given)) {
                    return Err(Status::unexpected(text));
                }
            }
            after.insert(given);
            shared.note(number, given);
            node.set_name("nodePort", i64::from(given));
        }
        if is_checked(obj) {
            let had = old.filter(|old| is_checked(old)).map_or(0, health_port);
            let given = allocation.health_port(health_port(obj), had, &after)?;
            after.insert(given);
            obj.set_at(&["spec", "healthCheckNodePort"], i64::from(given));
        }
    } else {
        ports_mut(obj).for_each(|port| drop(port.remove_name("nodePort")));
    }
    if before == after {
        return Ok(None);
    }
    for port in before.difference(&after) {
        allocation.set(*port, false);
    }
    for port in after.difference(&before) {
        allocation.set(*port, true);
    }
    Ok(allocation.save())
}

fn ports_mut(obj: &mut Obj) -> impl Iterator<Item = &mut Struct> {
    let ports = match obj.get_mut("spec").and_then(Value::as_struct_mut).and_then(|spec| spec.get_mut("ports")) {
        Some(Value::List(ports)) => Some(ports),
        _ => None,
    };
    ports.into_iter().flatten().filter_map(Value::as_struct_mut)
}

fn health_port(obj: &Obj) -> u16 {
    obj.view::<Service<'_>>().and_then(|s| u16::try_from(s.spec().health_check_node_port()).ok()).unwrap_or(0)
}

pub(super) fn release(server: &Server, old: &Obj) -> Option<Append> {
    let ports = ports_of(old);
    if ports.is_empty() {
        return None;
    }
    let mut allocation = Allocation::load(server).ok()?;
    ports.iter().for_each(|p| allocation.set(*p, false));
    allocation.save()
}

/// Returns the node ports that a Service holds, including its health check node port.
fn ports_of(obj: &Obj) -> BTreeSet<u16> {
    let Some(view) = obj.view::<Service<'_>>() else { return BTreeSet::new() };
    let ports = view.spec().ports().iter().filter_map(|p| u16::try_from(p.node_port()).ok());
    let checked = is_checked(obj).then(|| health_port(obj));
    ports.chain(checked).filter(|p| *p > 0).collect()
}

#[cfg(test)]
mod tests {
    use oarlock_codec::{Mode, json};
    use oarlock_schema::resource;

    use super::*;

    #[test]
    fn a_service_holds_the_port_at_which_it_is_checked_as_long_as_it_is() {
        let held = |spec: &str| {
            let text =
                format!(r#"{{"spec":{{{spec},"healthCheckNodePort":30001,"ports":[{{"port":1,"nodePort":30002}}]}}}}"#);
            let ty = resource("", "v1", "services").unwrap().ty;
            ports_of(&json::decode(text.as_bytes(), ty, Mode::Strict).unwrap().value)
        };
        let local = r#""type":"LoadBalancer","externalTrafficPolicy":"Local""#;
        assert_eq!(held(local), BTreeSet::from([30_001, 30_002]));
        assert_eq!(held(&local.replace("Local", "Cluster")), BTreeSet::from([30_002]));
    }
}
