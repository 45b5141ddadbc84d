//! Decides which claims a pod of a StatefulSet lacks, and who owns its claims (upstream `stateful_pod_control.go`, `isClaimOwnerUpToDate`).
//!
//! A claim outlives its pod. Only if the set says so, a claim has an owner with which the garbage collector deletes the claim: the set, or the pod of an
//! ordinal that the set does not want any more.

use oarlock_informer::{Item, ObjMeta, OwnerRef};
use oarlock_schema::Str;
use oarlock_seeded_bug::seeded_bug;

use super::members::{self, Pod, pod_name};
use super::snapshot::{Claim, Snapshot};
use crate::project::{ClaimDeletion, StatefulSet};

/// The owner of a claim, with which the claim is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Set,
    Pod,
}

/// Whether an owner reference names a set or a pod of this name. An earlier object of the name may be meant.
pub(super) fn names(owner: (&str, &str, &str), set: &str, pod: &str) -> Option<Owner> {
    match owner {
        ("apps/v1", "StatefulSet", name) if name == set => Some(Owner::Set),
        ("v1", "Pod", name) if name == pod => Some(Owner::Pod),
        _ => None,
    }
}

/// Returns the name of a claim.
pub(super) fn claim_name(template: &str, set: &str, ordinal: i64) -> String {
    format!("{template}-{}", pod_name(set, ordinal))
}

/// Whether a claim of this name is for a pod of the set.
pub(super) fn is_of(set: &Item<StatefulSet>, claim: &str) -> bool {
    let pod = |template: &Str| claim.strip_prefix(template.as_str())?.strip_prefix('-');
    set.value.claims.iter().filter_map(pod).any(|pod| members::ordinal(set.meta.name(), pod).is_some())
}

/// Whether a pod has the volumes that its claims are.
pub(super) fn are_volumes_of(snapshot: &Snapshot<'_>, ordinal: i64, pod: &Pod) -> bool {
    let set = snapshot.set;
    let has = |template: &Str| {
        let name = claim_name(template, set.meta.name(), ordinal);
        pod.value.claims.iter().any(|(volume, claim)| volume == template && *claim == name)
    };
    set.value.claims.iter().all(has)
}

/// Whether a claim of an ordinal without a pod belongs to an earlier pod, with which the claim is about to be deleted.
pub(super) fn is_stale(snapshot: &Snapshot<'_>, ordinal: i64) -> bool {
    let set = snapshot.set;
    if !set.value.deletes.when_scaled {
        return false;
    }
    let pod = pod_name(set.meta.name(), ordinal);
    let is_pods = |owner: &OwnerRef| named(owner, set.meta.name(), &pod) == Some(Owner::Pod);
    let claim = |template: &Str| (snapshot.claim)(&claim_name(template, set.meta.name(), ordinal));
    set.value.claims.iter().filter_map(claim).any(|claim| claim.meta.owners.iter().any(is_pods))
}

/// The changes of a pod's claims.
#[derive(Debug, Default)]
pub(super) struct ClaimWork {
    /// The places of the templates whose claims do not exist.
    pub(super) missing: Vec<usize>,
    /// The names of the claims that are being deleted. A pod must not begin to use such a claim.
    pub(super) deleted: Vec<Str>,
    /// The claims whose owners change, each with the owner that replaces the set and the pod as owners.
    pub(super) owners: Vec<(Claim, Option<Owner>)>,
    /// The names of the claims that another controller manages, so that the set's rule for their deletion is not applied.
    pub(super) conflicts: Vec<Str>,
}

impl ClaimWork {
    /// Plans the missing claims of a pod and the owners of the others; `pod` is `None` for a pod that is yet to be created.
    pub(super) fn complete(snapshot: &Snapshot<'_>, ordinal: i64, pod: Option<&Pod>) -> Self {
        let mut work = Self::owners(snapshot, ordinal, pod, false);
        let names =
            snapshot.set.value.claims.iter().map(|template| claim_name(template, snapshot.set.meta.name(), ordinal));
        for (place, name) in names.enumerate() {
            match (snapshot.claim)(&name) {
                None => work.missing.push(place),
                Some(claim) if claim.meta.deleting() => work.deleted.push(name.into()),
                Some(_) => {}
            }
        }
        work
    }

    /// Plans the owners of a pod's claims.
    pub(super) fn owners(snapshot: &Snapshot<'_>, ordinal: i64, pod: Option<&Pod>, is_surplus: bool) -> Self {
        let (set, mut work) = (snapshot.set, Self::default());
        let names = set.value.claims.iter().map(|template| claim_name(template, set.meta.name(), ordinal));
        for claim in names.filter_map(|name| (snapshot.claim)(&name)) {
            let pod_name = pod_name(set.meta.name(), ordinal);
            let parties = Parties { set: &set.meta, pod_name: &pod_name, pod: pod.map(|pod| &pod.meta), is_surplus };
            let Ownership { conflicts, change } = judge(&claim.meta.owners, &parties, set.value.deletes);
            if conflicts {
                work.conflicts.push(claim.key().name.clone());
            }
            if let Some(owner) = change {
                work.owners.push((claim, owner));
            }
        }
        work
    }

    /// Whether no claim must be created or changed, and nothing reported.
    pub(super) fn is_empty(&self) -> bool {
        let Self { missing, deleted, owners, conflicts } = self;
        missing.is_empty() && deleted.is_empty() && owners.is_empty() && conflicts.is_empty()
    }

    /// Whether a claim gets another owner.
    pub(super) fn changes_owners(&self) -> bool {
        !self.owners.is_empty()
    }
}

/// The set and the pod that can own a claim.
struct Parties<'a> {
    set: &'a ObjMeta,
    pod_name: &'a str,
    /// The pod; `None` if it is yet to be created.
    pod: Option<&'a ObjMeta>,
    /// Whether the set does not want the pod's ordinal any more.
    is_surplus: bool,
}

/// The judgement of a claim's owners.
#[derive(Debug, PartialEq, Eq)]
struct Ownership {
    /// Whether another controller manages the claim.
    conflicts: bool,
    /// The owner to set in place of the set and the pod; `None` to leave all owners as they are.
    change: Option<Option<Owner>>,
}

fn named(owner: &OwnerRef, set: &str, pod: &str) -> Option<Owner> {
    names((owner.api_version.as_str(), owner.kind.as_str(), owner.name.as_str()), set, pod)
}

/// Compares a claim's owners with those that the set wants. Owners that are earlier objects of the same names are left to the garbage collector.
fn judge(owners: &[OwnerRef], parties: &Parties<'_>, deletes: ClaimDeletion) -> Ownership {
    let uid = |owner| match owner {
        Owner::Set => Some(&parties.set.uid),
        Owner::Pod => parties.pod.map(|pod| &pod.uid),
    };
    let ours: Vec<(Owner, &OwnerRef)> = owners
        .iter()
        .filter_map(|reference| Some((named(reference, parties.set.name(), parties.pod_name)?, reference)))
        .collect();
    let is_managed = deletes.with_set || deletes.when_scaled;
    let is_foreign =
        |owner: &OwnerRef| owner.controller && named(owner, parties.set.name(), parties.pod_name).is_none();
    let has_foreign = is_managed && owners.iter().any(is_foreign);
    if ours.iter().any(|(owner, reference)| uid(*owner) != Some(&reference.uid)) {
        return Ownership { conflicts: is_managed, change: None };
    }
    let wanted = wanted_owner(deletes, parties.is_surplus).filter(|_| !has_foreign);
    let has = |owner: Owner| ours.iter().any(|(known, _)| *known == owner);
    let is_right = [Owner::Set, Owner::Pod].into_iter().all(|owner| has(owner) == (wanted == Some(owner)))
        && ours.iter().all(|(_, reference)| reference.controller);
    Ownership { conflicts: has_foreign, change: (!is_right).then_some(wanted) }
}

/// Returns the owner that a claim must have.
fn wanted_owner(deletes: ClaimDeletion, is_surplus: bool) -> Option<Owner> {
    let is_surplus = is_surplus || seeded_bug!("claim_owned_by_a_wanted_pod");
    match deletes {
        ClaimDeletion { when_scaled: true, .. } if is_surplus => Some(Owner::Pod),
        ClaimDeletion { with_set: true, .. } => Some(Owner::Set),
        _ => None,
    }
}

/// The owner that a new claim gets.
pub(super) fn owner_of_new(set: &StatefulSet) -> Option<Owner> {
    wanted_owner(set.deletes, false)
}
