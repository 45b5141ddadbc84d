//! The RangeAllocation object that records the node ports in use.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oarlock_meta::{ErrorList, FieldError, Path, Revision, Status};
use oarlock_registry::key::RANGES_PREFIX;
use oarlock_runtime::rng;
use oarlock_schema::{Obj, Value, type_named};
use oarlock_storage::{Append, Key};

use super::NAME;
use crate::server::Server;
use crate::target::Target;

/// A bitmap of the node ports in use.
pub(super) struct Allocation {
    key: Key,
    revision: Option<Revision>,
    low: u16,
    high: u16,
    bits: Vec<u8>,
}

impl Allocation {
    pub(super) fn load(server: &Server) -> Result<Self, Status> {
        let (low, high) = server.config().node_ports;
        let key = Key::cluster(RANGES_PREFIX, NAME);
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
            // The bitmap is stored as the bytes of one large number, the lowest byte last, which is upstream's form
            // (`pkg/registry/core/service/allocator`).
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

    pub(super) fn set(&mut self, port: u16, used: bool) {
        if !(self.low..=self.high).contains(&port) {
            return;
        }
        let offset = usize::from(port - self.low);
        if let Some(byte) = self.bits.get_mut(offset / 8) {
            if used { *byte |= 1 << (offset % 8) } else { *byte &= !(1 << (offset % 8)) }
        }
    }

    pub(super) fn free(&self, also: &BTreeSet<u16>) -> Option<u16> {
        let span = u64::from(self.high - self.low) + 1;
        let start = rng::below(span);
        (0..span)
            .filter_map(|i| u16::try_from((start + i) % span).ok())
            .map(|offset| self.low + offset)
            .find(|port| !self.used(*port) && !also.contains(port))
    }

    /// Returns why a Service cannot have a port, if so. `also` are the ports that the same Service has been given already.
    fn refusal(&self, port: u16, also: &BTreeSet<u16>) -> Option<String> {
        if !(self.low..=self.high).contains(&port) {
            let range = format!("{}-{}", self.low, self.high);
            return Some(format!("provided port is not in the valid range. The range of valid ports is {range}"));
        }
        (self.used(port) || also.contains(&port)).then(|| "provided port is already allocated".to_owned())
    }

    /// Allocates the health check node port of a Service: `asked`, or any free port for 0. `had` is the Service's present one, `also` are its other
    /// node ports. A port that the Service cannot have is a 500, as upstream answers.
    pub(super) fn health_port(&self, asked: u16, had: u16, also: &BTreeSet<u16>) -> Result<u16, Status> {
        if asked == 0 {
            let full = || Status::internal_error("failed to allocate a HealthCheck NodePort 0: range is full");
            return self.free(also).ok_or_else(full);
        }
        let own = asked == had && !also.contains(&asked);
        match self.refusal(asked, also).filter(|_| !own) {
            Some(why) => {
                Err(Status::internal_error(format!("failed to allocate requested HealthCheck NodePort {asked}: {why}")))
            }
            None => Ok(asked),
        }
    }

    /// Refuses a port that a Service cannot have. `also` are the ports that the same Service has been given already.
    pub(super) fn check(
        &self,
        target: &Target<'_>,
        name: &str,
        index: usize,
        port: u16,
        also: &BTreeSet<u16>,
    ) -> Result<(), Status> {
        let Some(why) = self.refusal(port, also) else { return Ok(()) };
        let mut errors = ErrorList::default();
        let (spec, ports) = (Path::new("spec"), "ports");
        errors.push(FieldError::invalid(&spec.child(ports).index(index).child("nodePort"), i64::from(port), why));
        Err(Status::invalid(&target.group_kind(), name, errors.as_slice()))
    }

    pub(super) fn save(&self) -> Option<Append> {
        let mut obj = Obj::new(type_named("core/v1.RangeAllocation")?);
        obj.set_name("range", format!("{}-{}", self.low, self.high));
        let number: Vec<u8> = self.bits.iter().rev().skip_while(|byte| **byte == 0).copied().collect();
        obj.set_name("data", STANDARD.encode(number));
        let encoded = oarlock_registry::stored::encode(&self.key, &mut obj);
        Some(match self.revision {
            Some(revision) => Append::update(self.key.clone(), revision, encoded.value),
            None => Append::create(self.key.clone(), encoded.value),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation() -> Allocation {
        let bits = vec![0; 2];
        Allocation { key: Key::cluster(RANGES_PREFIX, NAME), revision: None, low: 30_000, high: 30_009, bits }
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
}
