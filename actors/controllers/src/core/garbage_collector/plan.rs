//! Decides whether an object with owners is kept, released or deleted (upstream `attemptToDeleteItem`).

use oarlock_client::Propagation;
use oarlock_informer::{ObjMeta, OwnerRef};
use oarlock_meta::Uid;

/// The finalizer of foreground deletion: dependents are deleted before the object.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of orphaning: dependents are kept and lose their reference to the object.
pub(super) const ORPHAN: &str = "orphan";

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The owner exists.
    Solid,
    /// The owner is deleted, or never existed in this namespace.
    Absent,
    /// The owner is being deleted and waits for its blocking dependents.
    Waiting,
}

/// Why an owner cannot be looked up; the dependent is then left unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The owner's kind is not served in the version that the reference states; it may be later.
    Kind,
    /// The dependent is cluster-scoped and the owner's kind is namespaced: such a reference is never valid.
    Namespace,
}

/// The decision about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Leave the object unchanged.
    Keep,
    /// Remove the references to these owners.
    Release(Vec<Uid>),
    /// Delete the object. Owners that wait for the object in a cycle are first released from waiting.
    Delete {
        /// The deletion of the object's own dependents.
        propagation: Propagation,
        /// Whether to clear `blockOwnerDeletion`, so that no owner waits for the object.
        unblock: bool,
    },
}

/// Returns upstream's message about a reference to an owner in another namespace.
pub(super) fn invalid_namespace(owner: &OwnerRef, namespace: &str) -> String {
    let OwnerRef { api_version, kind, name, uid, .. } = owner;
    format!(
        "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {}] does not exist in namespace {namespace:?}",
        uid.as_str()
    )
}

fn has(meta: &ObjMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().any(|one| one == finalizer)
}

/// Whether the object is being deleted and has this finalizer.
pub(super) fn waits(meta: &ObjMeta, finalizer: &str) -> bool {
    meta.deleting() && has(meta, finalizer)
}

/// Whether the collector must act before the object's deletion can finish.
pub(super) fn pending(meta: &ObjMeta) -> bool {
    waits(meta, FOREGROUND) || waits(meta, ORPHAN)
}

/// Returns the state of an existing owner. A foreground deletion deletes all dependents, including those that do not block it.
pub(super) fn state(owner: &ObjMeta) -> Owner {
    if waits(owner, FOREGROUND) { Owner::Waiting } else { Owner::Solid }
}

/// Decides about an object. `owners` are the owners' states in the order of the references.
pub(super) fn judge<'a>(
    meta: &ObjMeta,
    owners: &[Owner],
    mut dependents: impl Iterator<Item = &'a ObjMeta>,
) -> Verdict {
    if owners.contains(&Owner::Solid) {
        let dead = meta.owners.iter().zip(owners).filter(|(_, state)| **state != Owner::Solid);
        let dead: Vec<Uid> = dead.map(|(owner, _)| owner.uid.clone()).collect();
        return if dead.is_empty() { Verdict::Keep } else { Verdict::Release(dead) };
    }
    if owners.contains(&Owner::Waiting) {
        let first = dependents.next();
        if first.is_some() {
            // A dependent that is itself waiting may wait for an owner of this object; such a cycle would never end.
            let unblock = first.into_iter().chain(dependents).any(|dependent| waits(dependent, FOREGROUND));
            return Verdict::Delete { propagation: Propagation::Foreground, unblock };
        }
    }
    let propagation = if has(meta, ORPHAN) {
        Propagation::Orphan
    } else if has(meta, FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Verdict::Delete { propagation, unblock: false }
}

/// Whether the foreground deletion of `owner` waits for the dependent.
pub(super) fn blocks(owner: &Uid, dependent: &ObjMeta) -> bool {
    dependent.owners.iter().any(|one| one.uid == *owner && one.block_deletion)
}
