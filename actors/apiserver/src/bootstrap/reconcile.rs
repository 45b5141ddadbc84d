//! Creates missing bootstrap objects and repairs existing ones.

use futures::stream::{self, StreamExt, TryStreamExt};
use oarlock_client::Client;
use oarlock_meta::Status;
use oarlock_schema::{Obj, Value};

use super::desired::{Desired, Repair};

/// Maximum number of concurrent writes, which share commits. The bound is low because the process keeps the memory of the peak.
const MAX_CONCURRENT_WRITES: usize = 16;

/// Creates or repairs every object.
///
/// # Errors
/// The first failed write; losing a race against another writer is no failure.
pub(super) async fn ensure(client: &Client, desired: Vec<Desired>) -> Result<(), Status> {
    stream::iter(desired)
        .map(|d| one(client, d))
        .buffer_unordered(MAX_CONCURRENT_WRITES)
        .try_collect::<Vec<()>>()
        .await
        .map(|_| ())
}

async fn one(client: &Client, desired: Desired) -> Result<(), Status> {
    let Desired { resource, obj, repair } = desired;
    let (namespace, name) = (obj.namespace().to_owned(), obj.name().to_owned());
    let current = match client.get(resource, &namespace, &name).await {
        Ok(object) => object.obj()?,
        Err(status) if status.is_not_found() => {
            return match client.create(resource, obj).await {
                Ok(_) => Ok(()),
                // Another server created the object first.
                Err(status) if status.is_already_exists() => Ok(()),
                Err(status) => Err(status),
            };
        }
        Err(status) => return Err(status),
    };
    let Some(repaired) = repaired(&current, &obj, repair) else { return Ok(()) };
    match client.update(resource, repaired).await {
        Ok(_) => Ok(()),
        // Another client changed the object; the next round repairs it.
        Err(status) if status.is_conflict() => Ok(()),
        Err(status) => Err(status),
    }
}

/// Returns the repaired object; `None` when nothing has to be repaired.
fn repaired(current: &Obj, desired: &Obj, repair: Repair) -> Option<Obj> {
    let mut repaired = current.clone();
    match repair {
        Repair::CreateOnly => return None,
        Repair::AddItems(field) => {
            let auto = current.meta().annotations().get("rbac.authorization.kubernetes.io/autoupdate");
            if auto == Some("false") {
                return None;
            }
            let have = current.get(field).map_or(&[][..], Value::items);
            let want = desired.get(field).map_or(&[][..], Value::items);
            let missing: Vec<Value> = want.iter().filter(|item| !have.contains(item)).cloned().collect();
            if missing.is_empty() {
                return None;
            }
            repaired.set_name(field, have.iter().cloned().chain(missing).collect::<Value>());
        }
        Repair::Replace(fields) => {
            if fields.iter().all(|f| current.get(f) == desired.get(f)) {
                return None;
            }
            for field in fields {
                if let Some(value) = desired.get(field) {
                    repaired.set_name(field, value.clone());
                }
            }
        }
    }
    Some(repaired)
}
