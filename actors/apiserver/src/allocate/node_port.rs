//! Node ports: unique per protocol over the cluster, kept in one RangeAllocation as upstream does.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oarlock_meta::{ErrorList, FieldError, Path, Revision, Status};
use oarlock_registry::key::RANGES;
use oarlock_runtime::rng;
use oarlock_schema::views::core_v1::{Service, ServiceSpec};
use oarlock_schema::{Obj, Struct, Value, type_named};
use oarlock_storage::{Append, Key};

use crate::server::Server;
use crate::target::Target;

pub(super) const NAME: &str = "servicenodeports";

/// Whether a Service has ports here, or wants some.
pub(super) fn concerns(obj: &Obj) -> bool {
    may_have(obj) || !ports_of(obj).is_empty()
}

fn is(obj: &Obj, test: impl FnOnce(ServiceSpec<'_>) -> bool) -> bool {
    obj.view::<Service<'_>>().is_some_and(|service| test(service.spec()))
}

/// Types whose ports are open on nodes.
fn may_have(obj: &Obj) -> bool {
    is(obj, |spec| matches!(spec.type_(), "NodePort" | "LoadBalancer"))
}

/// Whether ports that name none are given one. Those that name one have it in any case.
fn wants(obj: &Obj) -> bool {
    is(obj, |spec| spec.type_() == "NodePort" || spec.allocate_load_balancer_node_ports() != Some(false))
}

/// Whether a load balancer has to ask nodes if they have endpoints, at a port that all nodes keep for it (upstream `NeedsHealthCheck`).
fn is_checked(obj: &Obj) -> bool {
    is(obj, |spec| spec.type_() == "LoadBalancer" && spec.external_traffic_policy() == "Local")
}

/// Gives ports to a Service of a type that has them; returns the changed allocation.
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
        for (i, node) in ports_mut(obj).enumerate() {
            let asked = node.get("nodePort").and_then(Value::as_int).and_then(|n| u16::try_from(n).ok()).unwrap_or(0);
            if asked == 0 && !wants {
                continue;
            }
            let given = if asked == 0 {
                allocation
                    .free(&after)
                    .ok_or_else(|| Status::internal_error("failed to allocate a nodePort: range is full"))?
            } else {
                if !before.contains(&asked) && !after.contains(&asked) {
                    allocation.check(target, &name, i, asked)?;
                }
                asked
            };
            after.insert(given);
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

/// The ports that a Service holds, with the one at which it is checked.
fn ports_of(obj: &Obj) -> BTreeSet<u16> {
    let Some(view) = obj.view::<Service<'_>>() else { return BTreeSet::new() };
    let ports = view.spec().ports().iter().filter_map(|p| u16::try_from(p.node_port()).ok());
    let checked = is_checked(obj).then(|| health_port(obj));
    ports.chain(checked).filter(|p| *p > 0).collect()
}

/// The bitmap of used ports.
struct Allocation {
    key: Key,
    revision: Option<Revision>,
    low: u16,
    high: u16,
    bits: Vec<u8>,
}

impl Allocation {
    fn load(server: &Server) -> Result<Self, Status> {
        let (low, high) = server.config().node_ports;
        let key = Key::cluster(RANGES, NAME);
        let mut bits = vec![0u8; usize::from(high - low) / 8 + 1];
        let entry = server.view().get(&key);
        if let Some(entry) = &entry {
            let ty = type_named("core/v1.RangeAllocation")
                .ok_or_else(|| Status::internal_error("no RangeAllocation type"))?;
            let bytes = entry.bytes().ok_or_else(|| Status::internal_error("node port allocation is not in memory"))?;
            let obj = oarlock_registry::index::decode(bytes, ty)
                .map_err(|e| Status::internal_error(format!("node port allocation: {e}")))?;
            let data = obj.get("data").and_then(Value::as_str).unwrap_or("");
            let stored =
                STANDARD.decode(data).map_err(|e| Status::internal_error(format!("node port allocation: {e}")))?;
            // The bytes of one large number, its lowest last: upstream's form (`pkg/registry/core/service/allocator`).
            for (slot, byte) in bits.iter_mut().zip(stored.into_iter().rev()) {
                *slot = byte;
            }
        }
        Ok(Self { key, revision: entry.map(|e| e.revision), low, high, bits })
    }

    fn used(&self, port: u16) -> bool {
        let offset = usize::from(port - self.low);
        self.bits.get(offset / 8).is_some_and(|b| b & (1 << (offset % 8)) != 0)
    }

    fn set(&mut self, port: u16, used: bool) {
        if !(self.low..=self.high).contains(&port) {
            return;
        }
        let offset = usize::from(port - self.low);
        if let Some(byte) = self.bits.get_mut(offset / 8) {
            if used { *byte |= 1 << (offset % 8) } else { *byte &= !(1 << (offset % 8)) }
        }
    }

    fn free(&self, also: &BTreeSet<u16>) -> Option<u16> {
        let span = u64::from(self.high - self.low) + 1;
        let start = rng::below(span);
        (0..span)
            .filter_map(|i| u16::try_from((start + i) % span).ok())
            .map(|offset| self.low + offset)
            .find(|port| !self.used(*port) && !also.contains(port))
    }

    /// Why nobody can get a port, if so.
    fn refusal(&self, port: u16) -> Option<String> {
        if !(self.low..=self.high).contains(&port) {
            let range = format!("{}-{}", self.low, self.high);
            return Some(format!("provided port is not in the valid range. The range of valid ports is {range}"));
        }
        self.used(port).then(|| "provided port is already allocated".to_owned())
    }

    /// The port at which a Service is checked: the one it asks for, or any; `had` is its own already, `also` are its ports otherwise. Upstream answers
    /// 500 where it cannot have it.
    fn health_port(&self, asked: u16, had: u16, also: &BTreeSet<u16>) -> Result<u16, Status> {
        if asked == 0 {
            let full = || Status::internal_error("failed to allocate a HealthCheck NodePort 0: range is full");
            return self.free(also).ok_or_else(full);
        }
        let taken = also.contains(&asked).then(|| "provided port is already allocated".to_owned());
        match taken.or_else(|| self.refusal(asked).filter(|_| asked != had)) {
            Some(why) => {
                Err(Status::internal_error(format!("failed to allocate requested HealthCheck NodePort {asked}: {why}")))
            }
            None => Ok(asked),
        }
    }

    fn check(&self, target: &Target<'_>, name: &str, index: usize, port: u16) -> Result<(), Status> {
        let Some(why) = self.refusal(port) else { return Ok(()) };
        let mut errors = ErrorList::default();
        let (spec, ports) = (Path::new("spec"), "ports");
        errors.push(FieldError::invalid(&spec.child(ports).index(index).child("nodePort"), i64::from(port), why));
        Err(Status::invalid(&target.group_kind(), name, errors.as_slice()))
    }

    fn save(&self) -> Option<Append> {
        let mut obj = Obj::new(type_named("core/v1.RangeAllocation")?);
        obj.set_name("range", format!("{}-{}", self.low, self.high));
        let number: Vec<u8> = self.bits.iter().rev().skip_while(|byte| **byte == 0).copied().collect();
        obj.set_name("data", STANDARD.encode(number));
        let encoded = crate::stages::encode(&self.key, &mut obj);
        Some(match self.revision {
            Some(revision) => Append::update(self.key.clone(), revision, encoded.value),
            None => Append::create(self.key.clone(), encoded.value),
        })
    }
}

#[cfg(test)]
mod tests {
    use oarlock_codec::{Mode, json};
    use oarlock_schema::resource;

    use super::*;

    fn allocation() -> Allocation {
        let bits = vec![0; 2];
        Allocation { key: Key::cluster(RANGES, NAME), revision: None, low: 30_000, high: 30_009, bits }
    }

    #[test]
    fn a_port_to_check_at_is_one_that_nobody_has() {
        let mut ports = allocation();
        (30_000..=30_007).for_each(|port| ports.set(port, true));
        let also = BTreeSet::from([30_008]);
        assert_eq!(ports.health_port(0, 0, &also).unwrap(), 30_009, "the only free one");
        assert_eq!(ports.health_port(30_009, 0, &also).unwrap(), 30_009);
        assert_eq!(ports.health_port(30_001, 30_001, &also).unwrap(), 30_001, "its own");
        let why = |asked: u16| {
            let status = ports.health_port(asked, 0, &also).unwrap_err();
            assert_eq!(status.code, 500);
            status.message
        };
        let start = "Internal error occurred: failed to allocate requested HealthCheck NodePort";
        assert_eq!(why(30_001), format!("{start} 30001: provided port is already allocated"));
        assert_eq!(why(30_008), format!("{start} 30008: provided port is already allocated"), "its node port");
        let range = "provided port is not in the valid range. The range of valid ports is 30000-30009";
        assert_eq!(why(1), format!("{start} 1: {range}"));
    }

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
