//! The claims of a StatefulSet's pods: which are created, and who owns them.

use std::sync::Arc;

use oarlock_informer::Item;

use super::super::claims::is_of;
use super::super::snapshot::Claim;
use super::{NOW, Reference, claim, planned_with, pod_that, pods, set, shown};
use crate::project::{ClaimDeletion, PodView, StatefulSet};

const KEEP: ClaimDeletion = ClaimDeletion { with_set: false, when_scaled: false };
const WITH_SET: ClaimDeletion = ClaimDeletion { with_set: true, when_scaled: false };
const WHEN_SCALED: ClaimDeletion = ClaimDeletion { with_set: false, when_scaled: true };
const BOTH: ClaimDeletion = ClaimDeletion { with_set: true, when_scaled: true };

/// Makes a set with claim templates `data` and `log`.
fn with_claims(replicas: i64, deletes: ClaimDeletion) -> Item<StatefulSet> {
    set(replicas, |set| {
        set.value.claims = ["data".into(), "log".into()].into();
        set.value.deletes = deletes;
    })
}

fn volumes(pod: &mut Item<PodView>) {
    let name = pod.meta.name().to_owned();
    let volume = |template: &str| (template.into(), format!("{template}-{name}").into());
    pod.value.claims = ["data", "log"].map(volume).into();
}

/// Makes pods with the volumes of their claims.
fn stored(text: &str) -> Vec<super::Pod> {
    let with_volumes = |pod: super::Pod| {
        let mut pod = Item::clone(&pod);
        volumes(&mut pod);
        Arc::new(pod)
    };
    pods(text).into_iter().map(with_volumes).collect()
}

fn going(name: &str) -> Claim {
    let mut claim = Item::clone(&claim(name, &[]));
    claim.meta.deletion = Some(NOW);
    Arc::new(claim)
}

#[test]
fn claims_are_made_with_their_pod_and_again_while_the_pod_is_pending() {
    let set = with_claims(1, KEEP);
    for (present, claims, expected) in [
        ("", vec![], "+0[new 0 1]"),
        ("", vec![claim("data-web-0", &[])], "+0[new 1]"),
        ("", vec![claim("data-web-0", &[]), claim("log-web-0", &[])], "+0"),
        ("", vec![going("data-web-0")], "+0[new 1, deleted data-web-0]"),
        ("0: pending", vec![claim("data-web-0", &[])], "claims-0[new 1]"),
        ("0: pending", vec![claim("data-web-0", &[]), going("log-web-0")], "claims-0[deleted log-web-0]"),
        ("0: unready", vec![], ""),
        ("0: ok", vec![], ""),
    ] {
        let plan = planned_with(&set, &stored(present), &claims, true);
        assert_eq!(shown(&plan), expected, "{present:?}");
    }
}

#[test]
fn a_pod_without_the_volumes_of_its_claims_gets_them() {
    let set = with_claims(1, KEEP);
    let plan = planned_with(&set, &[pod_that("web-0", "ok")], &[claim("log-web-0", &[])], true);
    assert_eq!(shown(&plan), "repair-0(volumes)[new 0]");
}

#[test]
fn a_claim_is_owned_as_the_set_wants() {
    let (of_set, of_pod) = (("StatefulSet", "web", "set", true), ("Pod", "web-0", "web-0", true));
    let owned_otherwise = ("Thing", "x", "x", true);
    let seen = ("Thing", "x", "x", false);
    let rows: [(ClaimDeletion, i64, &[Reference<'_>], &str); 22] = [
        (KEEP, 1, &[], ""),
        (KEEP, 1, &[of_set], "nobody"),
        (KEEP, 1, &[of_pod], "nobody"),
        (KEEP, 1, &[owned_otherwise], ""),
        (KEEP, 0, &[of_set, of_pod], "nobody"),
        (WITH_SET, 1, &[], "the set"),
        (WITH_SET, 1, &[of_set], ""),
        (WITH_SET, 1, &[seen, of_set], ""),
        (WITH_SET, 0, &[], "the set"),
        (WITH_SET, 1, &[of_set, of_pod], "the set"),
        (WHEN_SCALED, 1, &[], ""),
        (WHEN_SCALED, 1, &[of_pod], "nobody"),
        (WHEN_SCALED, 0, &[], "the pod"),
        (WHEN_SCALED, 0, &[of_pod], ""),
        (BOTH, 1, &[], "the set"),
        (BOTH, 1, &[of_pod], "the set"),
        (BOTH, 0, &[of_set], "the pod"),
        (BOTH, 0, &[of_pod], ""),
        (BOTH, 1, &[("StatefulSet", "web", "set", false)], "the set"),
        (BOTH, 1, &[("StatefulSet", "web", "an earlier set", true)], ""),
        (BOTH, 1, &[owned_otherwise], ""),
        (BOTH, 1, &[owned_otherwise, ("StatefulSet", "web", "set", false)], "nobody"),
    ];
    for (deletes, replicas, owners, expected) in rows {
        let mut set = with_claims(replicas, deletes);
        set.value.claims = ["data".into()].into();
        let plan = planned_with(&set, &stored("0: ok"), &[claim("data-web-0", owners)], true);
        let change = if expected.is_empty() { String::new() } else { format!("data-web-0 of {expected}") };
        let text = shown(&plan);
        assert_eq!(text.contains(" of "), !expected.is_empty(), "{deletes:?} {replicas} {owners:?}: {text}");
        assert!(text.contains(&change), "{deletes:?} {replicas} {owners:?}: {text}");
    }
}

#[test]
fn the_owner_of_a_claim_changes_before_its_pod_is_deleted() {
    let set = with_claims(0, WHEN_SCALED);
    let claims = [claim("data-web-0", &[]), claim("log-web-0", &[])];
    let plan = planned_with(&set, &stored("0: ok"), &claims, true);
    assert_eq!(shown(&plan), "claims-0[data-web-0 of the pod, log-web-0 of the pod] | -web-0");
}

#[test]
fn a_claim_of_a_pod_that_the_set_wants_is_never_deleted_with_the_pod() {
    for deletes in [KEEP, WITH_SET, WHEN_SCALED, BOTH] {
        let set = with_claims(2, deletes);
        for present in ["", "0: ok, 1: pending", "0: old, 1: old", "0: failed, 1: going"] {
            let claims = [claim("data-web-0", &[]), claim("data-web-1", &[])];
            let text = shown(&planned_with(&set, &stored(present), &claims, true));
            assert!(!text.contains("of the pod"), "{deletes:?} {present:?}: {text}");
        }
    }
}

#[test]
fn a_pod_waits_for_the_end_of_a_claim_that_is_deleted_with_the_former_pod() {
    let former = claim("data-web-1", &[("Pod", "web-1", "earlier", true)]);
    let claims = [claim("data-web-0", &[]), claim("log-web-0", &[]), former];
    let waits = planned_with(&with_claims(2, WHEN_SCALED), &stored("0: ok"), &claims, true);
    assert_eq!(shown(&waits), "");
    let kept = planned_with(&with_claims(2, WITH_SET), &stored("0: ok"), &claims[..2], true);
    assert_eq!(shown(&kept), "repair-0[data-web-0 of the set, log-web-0 of the set] | +1[new 0 1]");
    let mut parallel = with_claims(3, WHEN_SCALED);
    parallel.value.parallel = true;
    let plan = planned_with(&parallel, &stored("0: ok"), &claims, true);
    assert_eq!(shown(&plan), "+2[new 0 1]");
}

#[test]
fn another_controller_of_a_claim_is_reported() {
    let mut set = with_claims(1, BOTH);
    set.value.claims = ["data".into()].into();
    let claims = [claim("data-web-0", &[("Thing", "x", "x", true)])];
    assert_eq!(shown(&planned_with(&set, &[], &claims, true)), "+0[conflict data-web-0]");
    set.value.deletes = KEEP;
    assert_eq!(shown(&planned_with(&set, &[], &claims, true)), "+0");
}

#[test]
fn a_claim_belongs_to_the_set_in_its_name() {
    let set = with_claims(1, KEEP);
    for (name, expected) in [
        ("data-web-0", true),
        ("log-web-12", true),
        ("data-web-", false),
        ("data-web-x", false),
        ("data-other-0", false),
        ("data-data-web-0", false),
        ("web-0", false),
    ] {
        assert_eq!(is_of(&set, name), expected, "{name}");
    }
}
