//! Node ports: unique per protocol over the cluster, kept in one RangeAllocation as upstream does.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oarlock_meta::{ErrorList, FieldError, Path, Revision, Status};
use oarlock_registry::key::RANGES;
use oarlock_runtime::rng;
use oarlock_schema::views::core_v1::Service;
use oarlock_schema::{Obj, Value, type_named};
use oarlock_storage::{Append, Key};

use crate::server::Server;
use crate::target::Target;

pub(super) const NAME: &str = "servicenodeports";

/// Whether a Service has ports here, or wants some.
pub(super) fn concerns(obj: &Obj) -> bool {
    wants(obj) || !ports_of(obj).is_empty()
}

fn wants(obj: &Obj) -> bool {
    obj.view::<Service<'_>>().is_some_and(|s| {
        let spec = s.spec();
        spec.type_() == "NodePort"
            || (spec.type_() == "LoadBalancer" && spec.allocate_load_balancer_node_ports() != Some(false))
    })
}

/// Gives ports to a Service of a type that has them; returns the changed allocation.
pub(super) fn assign(
    server: &Server,
    target: &Target<'_>,
    obj: &mut Obj,
    old: Option<&Obj>,
) -> Result<Option<Append>, Status> {
    let before = old.map(ports_of).unwrap_or_default();
    let wants = wants(obj);
    if !wants && before.is_empty() {
        return Ok(None);
    }
    let mut allocation = Allocation::load(server)?;
    let mut after = BTreeSet::new();
    if wants {
        let name = obj.name().to_owned();
        let Some(Value::List(ports)) =
            obj.get_mut("spec").and_then(|s| s.as_struct_mut()).and_then(|s| s.get_mut("ports"))
        else {
            return Ok(None);
        };
        for (i, port) in ports.iter_mut().enumerate() {
            let Some(node) = port.as_struct_mut() else { continue };
            let asked = node.get("nodePort").and_then(Value::as_int).and_then(|n| u16::try_from(n).ok()).unwrap_or(0);
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
    } else if let Some(Value::List(ports)) =
        obj.get_mut("spec").and_then(|s| s.as_struct_mut()).and_then(|s| s.get_mut("ports"))
    {
        ports.iter_mut().filter_map(Value::as_struct_mut).for_each(|p| {
            p.remove_name("nodePort");
        });
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

pub(super) fn release(server: &Server, old: &Obj) -> Option<Append> {
    let ports = ports_of(old);
    if ports.is_empty() {
        return None;
    }
    let mut allocation = Allocation::load(server).ok()?;
    ports.iter().for_each(|p| allocation.set(*p, false));
    allocation.save()
}

fn ports_of(obj: &Obj) -> BTreeSet<u16> {
    let Some(view) = obj.view::<Service<'_>>() else { return BTreeSet::new() };
    view.spec().ports().iter().filter_map(|p| u16::try_from(p.node_port()).ok()).filter(|p| *p > 0).collect()
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

    fn check(&self, target: &Target<'_>, name: &str, index: usize, port: u16) -> Result<(), Status> {
        let why = if !(self.low..=self.high).contains(&port) {
            format!("provided port is not in the valid range. The range of valid ports is {}-{}", self.low, self.high)
        } else if self.used(port) {
            "provided port is already allocated".to_owned()
        } else {
            return Ok(());
        };
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
