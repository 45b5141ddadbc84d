//! Table tests of the garbage collector's decisions.

use oarlock_client::Propagation;
use oarlock_informer::{ObjMeta, OwnerRef};
use oarlock_meta::{Time, Uid};

use super::absent::{Absent, Asked};
use super::graph::served;
use super::plan::{FOREGROUND, ORPHAN, Owner, Verdict, blocks, invalid_namespace, judge, pending, state};

fn owner(uid: &str, block: bool) -> OwnerRef {
    OwnerRef {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: uid.into(),
        uid: Uid::from(uid),
        controller: true,
        block_deletion: block,
    }
}

fn object(owners: &[&str], finalizers: &[&str], deleting: bool) -> ObjMeta {
    ObjMeta {
        owners: owners.iter().map(|uid| owner(uid, true)).collect(),
        finalizers: finalizers.iter().map(|one| (*one).into()).collect(),
        deletion: deleting.then(|| Time::from_unix(1)),
        ..ObjMeta::default()
    }
}

#[test]
fn an_object_lives_as_long_as_one_owner_does() {
    use Owner::{Absent, Solid, Waiting};
    let two = object(&["a", "b"], &[], false);
    let none = std::iter::empty;
    assert_eq!(judge(&two, &[Solid, Solid], none()), Verdict::Keep);
    assert_eq!(judge(&two, &[Solid, Absent], none()), Verdict::Release(vec![Uid::from("b")]));
    assert_eq!(judge(&two, &[Waiting, Solid], none()), Verdict::Release(vec![Uid::from("a")]));
    let background = Verdict::Delete { propagation: Propagation::Background, unblock: false };
    assert_eq!(judge(&two, &[Absent, Absent], none()), background);
    assert_eq!(judge(&two, &[Absent, Waiting], none()), background, "nothing depends on it");
}

#[test]
fn finalizers_of_the_object_choose_how_its_dependents_go() {
    for (finalizer, propagation) in [(ORPHAN, Propagation::Orphan), (FOREGROUND, Propagation::Foreground)] {
        let verdict = judge(&object(&["a"], &[finalizer], false), &[Owner::Absent], std::iter::empty());
        assert_eq!(verdict, Verdict::Delete { propagation, unblock: false });
    }
}

#[test]
fn below_a_waiting_owner_everything_goes_in_the_foreground_and_circles_are_broken() {
    let middle = object(&["top"], &[], false);
    let leaf = object(&["middle"], &[], false);
    let waiting = object(&["middle"], &[FOREGROUND], true);
    let verdict = |dependent| judge(&middle, &[Owner::Waiting], std::iter::once(dependent));
    assert_eq!(verdict(&leaf), Verdict::Delete { propagation: Propagation::Foreground, unblock: false });
    assert_eq!(verdict(&waiting), Verdict::Delete { propagation: Propagation::Foreground, unblock: true });
}

#[test]
fn an_owner_waits_only_for_dependents_that_block_it() {
    let going = object(&[], &[FOREGROUND], true);
    assert_eq!(state(&going), Owner::Waiting);
    assert_eq!(state(&object(&[], &[], true)), Owner::Solid, "deleted in the background");
    assert!(pending(&going) && !pending(&object(&[], &[FOREGROUND], false)));
    assert!(blocks(&Uid::from("a"), &object(&["a"], &[], false)));
    let unblocked = ObjMeta { owners: Box::new([owner("a", false)]), ..ObjMeta::default() };
    assert!(!blocks(&Uid::from("a"), &unblocked));
}

#[test]
fn an_owner_is_of_the_version_that_it_names_and_no_other() {
    let of = |api_version: &str, kind: &str| {
        let reference = OwnerRef { api_version: api_version.into(), kind: kind.into(), ..owner("a", false) };
        served(&reference).map(|resource| (resource.group, resource.plural))
    };
    assert_eq!(of("v1", "ConfigMap"), Some(("", "configmaps")));
    assert_eq!(of("apps/v1", "ReplicaSet"), Some(("apps", "replicasets")));
    for (version, kind) in [
        ("v1beta1", "ConfigMap"),
        ("v2", "ConfigMap"),
        ("apps/v1beta2", "ReplicaSet"),
        ("v1", "ReplicaSet"),
        ("", "Pod"),
    ] {
        assert_eq!(of(version, kind), None, "{version} {kind}");
    }
}

#[test]
fn an_owner_that_is_named_wrongly_is_not_gone_for_those_who_name_it_well() {
    let (absent, well) = (Absent::default(), owner("a", false));
    absent.add(Asked::new(&well, "elsewhere"));
    absent.add(Asked::new(&OwnerRef { name: "other".into(), ..well.clone() }, "ns"));
    absent.add(Asked::new(&OwnerRef { kind: "Deployment".into(), ..well.clone() }, "ns"));
    assert!(absent.has(&Asked::new(&well, "elsewhere")) && !absent.has(&Asked::new(&well, "ns")));
    absent.add(Asked::new(&well, "ns"));
    assert!(absent.has(&Asked::new(&OwnerRef { controller: false, ..well }, "ns")), "flags are no coordinates");
}

#[test]
fn a_reference_into_another_namespace_is_told_of_in_upstreams_words() {
    let text = "ownerRef [apps/v1/ReplicaSet, namespace: , name: a, uid: a] does not exist in namespace \"\"";
    assert_eq!(invalid_namespace(&owner("a", true), ""), text);
}
