//! Cache of API objects by name, each valid for a limited time (upstream's `Cache` strategy of `pkg/kubelet/util/manager`).
//!
//! Concurrent readers of one object share one call. After a failed call the cached object is used on, except that 403 and 404 drop it.

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
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Deadline of a reader, which may wait for other readers' calls.
const READ_TIMEOUT: Duration = Duration::from_secs(25);
/// Largest number of cached objects; further ones are read each time.
const MAX_OBJECTS: usize = 4096;

type Slot = Arc<tokio::sync::Mutex<Option<Kept>>>;

#[derive(Debug)]
struct Kept {
    object: Arc<Obj>,
    /// When the cached object expires; `None` for an immutable object.
    until: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Objects {
    client: Client,
    slots: Mutex<HashMap<(Str, Reference), Slot>>,
    /// Age at which a cached object expires.
    fresh: Duration,
}

impl Objects {
    pub(super) fn new(client: Client, fresh: Duration) -> Self {
        Self { client: client.with_timeout(CALL_TIMEOUT), slots: Mutex::default(), fresh }
    }

    /// Returns an object, from the cache if fresh.
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
        clock::timeout(READ_TIMEOUT, read).await.unwrap_or_else(late)
    }

    /// Makes the next reader of an object call the API.
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
        if slots.len() >= MAX_OBJECTS {
            // A slot in use stays valid for its readers; expired slots are dropped.
            let old = |slot: &Slot| {
                slot.try_lock()
                    .is_ok_and(|kept| kept.as_ref().is_none_or(|kept| kept.until.is_some_and(Instant::passed)))
            };
            slots.retain(|_, slot| !old(slot));
        }
        if slots.len() < MAX_OBJECTS {
            slots.insert(key, slot.clone());
        }
        slot
    }

    async fn read(&self, namespace: &str, reference: &Reference) -> Result<Arc<Obj>, Status> {
        let (resource, namespace) = resource_of(reference.kind)
            .map(|resource| (resource, if resource.namespaced { namespace } else { "" }))
            .ok_or_else(|| Status::internal_error(format!("the schema lacks {}", reference.kind.name())))?;
        let read = self.client.get(resource, namespace, &reference.name).await;
        // Upstream's kubelet names these two kinds in the singular.
        let in_singular = |status: Status| match reference.kind {
            Kind::ConfigMap | Kind::Secret if status.is_not_found() => {
                let singular = GroupResource::new("", reference.kind.name().to_lowercase());
                Status::not_found(&singular, &reference.name)
            }
            _ => status,
        };
        Ok(Arc::new(read.map_err(in_singular)?.obj()?))
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
