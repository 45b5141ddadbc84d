//! Objects by name, each kept for a while (upstream's `Cache` strategy of `pkg/kubelet/util/manager`).
//!
//! Readers of one object share one call. An object that could not be read stays what it was; one that is gone is gone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::Client;
use oarlock_meta::{GroupResource, Status};
use oarlock_runtime::{Instant, clock};
use oarlock_schema::value::Value;
use oarlock_schema::{Obj, Resource, Str, resource};
use parking_lot::Mutex;

use super::{Kind, Reference};

/// Deadline of one call.
const CALL: Duration = Duration::from_secs(10);
/// Deadline of a reader, who may wait for the calls of others.
const WAIT: Duration = Duration::from_secs(25);
/// Objects kept; beyond that they are read each time.
const KEPT: usize = 4096;

type Slot = Arc<tokio::sync::Mutex<Option<Kept>>>;

#[derive(Debug)]
struct Kept {
    object: Arc<Obj>,
    /// `None`: it never changes.
    until: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Objects {
    client: Client,
    slots: Mutex<HashMap<(Str, Reference), Slot>>,
    /// An object is read again after this.
    fresh: Duration,
}

impl Objects {
    pub(super) fn new(client: Client, fresh: Duration) -> Self {
        Self { client: client.with_timeout(CALL), slots: Mutex::default(), fresh }
    }

    /// Reads an object.
    pub(super) async fn get(&self, namespace: &str, reference: &Reference) -> Result<Arc<Obj>, Status> {
        let slot = self.slot(namespace, reference);
        let read = async {
            let mut kept = slot.lock().await;
            if let Some(kept) = &*kept
                && kept.until.is_none_or(|until| !until.passed())
            {
                return Ok(kept.object.clone());
            }
            match self.read(namespace, reference).await {
                Ok(object) => {
                    let immutable = object.get("immutable").and_then(Value::as_bool) == Some(true);
                    let until = (!immutable).then(|| clock::after(self.fresh));
                    *kept = Some(Kept { object: object.clone(), until });
                    Ok(object)
                }
                Err(status) if status.is_not_found() || status.is_forbidden() => {
                    *kept = None;
                    Err(status)
                }
                Err(status) => match &*kept {
                    Some(kept) => {
                        let kind = reference.kind.name();
                        tracing::warn!(namespace, kind, name = %reference.name, %status, "not read again");
                        Ok(kept.object.clone())
                    }
                    None => Err(status),
                },
            }
        };
        let late =
            |_| Err(Status::timeout(format!("{} {} was not read in time", reference.kind.name(), reference.name), 1));
        clock::timeout(WAIT, read).await.unwrap_or_else(late)
    }

    /// Makes the next reader ask the API.
    pub(super) fn forget(&self, namespace: &str, reference: &Reference) {
        self.slots.lock().remove(&(Str::from(namespace), reference.clone()));
    }

    fn slot(&self, namespace: &str, reference: &Reference) -> Slot {
        let mut slots = self.slots.lock();
        let key = (Str::from(namespace), reference.clone());
        if let Some(slot) = slots.get(&key) {
            return slot.clone();
        }
        let slot = Slot::default();
        if slots.len() >= KEPT {
            // Whoever holds a slot goes on with it; what is old goes.
            let old = |slot: &Slot| {
                slot.try_lock()
                    .is_ok_and(|kept| kept.as_ref().is_none_or(|kept| kept.until.is_some_and(Instant::passed)))
            };
            slots.retain(|_, slot| !old(slot));
        }
        if slots.len() < KEPT {
            slots.insert(key, slot.clone());
        }
        slot
    }

    async fn read(&self, namespace: &str, reference: &Reference) -> Result<Arc<Obj>, Status> {
        let (resource, namespace) = resource_of(reference.kind)
            .map(|resource| (resource, if resource.namespaced { namespace } else { "" }))
            .ok_or_else(|| Status::internal_error(format!("the schema lacks {}", reference.kind.name())))?;
        let read = self.client.get(resource, namespace, &reference.name).await;
        // Upstream's kubelet names these two in the singular.
        let told = |status: Status| match reference.kind {
            Kind::ConfigMap | Kind::Secret if status.is_not_found() => {
                let singular = GroupResource::new("", reference.kind.name().to_lowercase());
                Status::not_found(&singular, &reference.name)
            }
            _ => status,
        };
        Ok(Arc::new(read.map_err(told)?.obj()?))
    }
}

fn resource_of(kind: Kind) -> Option<&'static Resource> {
    let plural = match kind {
        Kind::ConfigMap => "configmaps",
        Kind::Secret => "secrets",
        Kind::Claim => "persistentvolumeclaims",
        Kind::Volume => "persistentvolumes",
    };
    resource("", "v1", plural)
}
