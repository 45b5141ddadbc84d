//! Creates what is missing and repairs what may be repaired.

use futures::stream::{self, StreamExt, TryStreamExt};
use oarlock_client::Client;
use oarlock_meta::Status;
use oarlock_schema::{Obj, Resource, Value};

/// Writes under way at a time: they share commits. What they need at once stays with the process for good.
const AT_ONCE: usize = 16;

/// How an object that is there already is treated.
#[derive(Clone, Copy, Debug)]
pub(super) enum Repair {
    /// Left alone.
    CreateOnly,
    /// Missing items of a list are added, unless `rbac.authorization.kubernetes.io/autoupdate` is `false`.
    AddItems(&'static str),
    /// These fields are put back.
    Replace(&'static [&'static str]),
}

/// An object that must be there.
#[derive(Clone, Debug)]
pub(super) struct Desired {
    /// Its resource.
    pub resource: &'static Resource,
    /// The object.
    pub obj: Obj,
    /// What to do when it is there.
    pub repair: Repair,
}

/// Makes sure of every object.
///
/// # Errors
/// The first write that fails for another reason than a race.
pub(super) async fn ensure(client: &Client, desired: Vec<Desired>) -> Result<(), Status> {
    stream::iter(desired).map(|d| one(client, d)).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await.map(|_| ())
}

async fn one(client: &Client, desired: Desired) -> Result<(), Status> {
    let Desired { resource, obj, repair } = desired;
    let (namespace, name) = (obj.namespace().to_owned(), obj.name().to_owned());
    let current = match client.get(resource, &namespace, &name).await {
        Ok(object) => object.obj()?,
        Err(status) if status.is_not_found() => {
            return match client.create(resource, obj).await {
                Ok(_) => Ok(()),
                // Another server was faster.
                Err(status) if status.is_already_exists() => Ok(()),
                Err(status) => Err(status),
            };
        }
        Err(status) => return Err(status),
    };
    let Some(mended) = mended(&current, &obj, repair) else { return Ok(()) };
    match client.update(resource, mended).await {
        Ok(_) => Ok(()),
        // Somebody else changed it; the next round looks again.
        Err(status) if status.is_conflict() => Ok(()),
        Err(status) => Err(status),
    }
}

/// The object after repair; `None` when nothing is to be done.
fn mended(current: &Obj, desired: &Obj, repair: Repair) -> Option<Obj> {
    let mut mended = current.clone();
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
            mended.set_name(field, have.iter().cloned().chain(missing).collect::<Value>());
        }
        Repair::Replace(fields) => {
            if fields.iter().all(|f| current.get(f) == desired.get(f)) {
                return None;
            }
            for field in fields {
                if let Some(value) = desired.get(field) {
                    mended.set_name(field, value.clone());
                }
            }
        }
    }
    Some(mended)
}
