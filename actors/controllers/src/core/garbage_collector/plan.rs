//! What becomes of an object with owners (upstream `attemptToDeleteItem`).

use oarlock_client::Propagation;
use oarlock_informer::{ObjMeta, OwnerRef};
use oarlock_meta::Uid;

/// Dependents go before the object.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Dependents stay and forget the object.
pub(super) const ORPHAN: &str = "orphan";

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is there.
    Solid,
    /// It is gone, or never was in this namespace.
    Absent,
    /// It is there until its blocking dependents are gone.
    Waiting,
}

/// Why an owner cannot be looked up; nothing is done about the dependent then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The owner's kind is not served in the version that the reference states; it may be later.
    Kind,
    /// The dependent is cluster-scoped and the owner's kind is namespaced: such a reference is never valid.
    Namespace,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Keep,
    /// Forget these owners.
    Release(Vec<Uid>),
    /// Delete it; before, let go of owners that wait for it if they wait in a circle.
    Delete {
        /// How its own dependents go.
        propagation: Propagation,
        /// No owner waits for it any more.
        unblock: bool,
    },
}

/// Upstream's words about a reference to an owner that is in another namespace.
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

/// Whether the object is going and waits for this finalizer.
pub(super) fn waits(meta: &ObjMeta, finalizer: &str) -> bool {
    meta.deleting() && has(meta, finalizer)
}

/// Whether the collector has something to do before the object can go.
pub(super) fn pending(meta: &ObjMeta) -> bool {
    waits(meta, FOREGROUND) || waits(meta, ORPHAN)
}

/// The state of an owner that is there. It takes all its dependents along, those that do not block it, too.
pub(super) fn state(owner: &ObjMeta) -> Owner {
    if waits(owner, FOREGROUND) { Owner::Waiting } else { Owner::Solid }
}

/// Decides. `owners` are the states in the order of the references.
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
            // A dependent that is itself waiting may wait for the owner of this object: a circle would never end.
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

/// The dependents for which a foreground deletion waits.
pub(super) fn blocks(owner: &Uid, dependent: &ObjMeta) -> bool {
    dependent.owners.iter().any(|one| one.uid == *owner && one.block_deletion)
}
