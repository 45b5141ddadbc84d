//! Table tests of tolerations and of the times of taints.

use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::{Item, Key, ObjMeta};
use oarlock_meta::{Time, Uid};
use oarlock_runtime::clock;

use super::clocks::Clocks;
use super::plan::{Fate, fate};
use crate::project::{PodView, Taint, Toleration};

const NOW: Time = Time::from_unix(1000);

fn toleration(key: &str, exists: bool, value: &str, seconds: Option<i64>) -> Toleration {
    let taints = oarlock_pods::Toleration { key: key.into(), value: value.into(), exists, effect: None };
    Toleration { taints, seconds }
}

fn taint(key: &str, value: &str, added: i64) -> Taint {
    Taint { key: key.into(), value: value.into(), effect: "NoExecute".into(), added: Some(Time::from_unix(added)) }
}

/// A taint without a time, as users and kubectl add it.
fn untimed(key: &str) -> Taint {
    Taint { added: None, ..taint(key, "", 0) }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A pod of the node `n`.
fn pod(created: i64, tolerations: Vec<Toleration>) -> Arc<Item<PodView>> {
    let meta = ObjMeta {
        key: Key::new("ns", "p"),
        uid: Uid::from("u"),
        created: Some(Time::from_unix(created)),
        ..ObjMeta::default()
    };
    Arc::new(Item { meta, value: PodView { node: "n".into(), tolerations: tolerations.into(), ..PodView::default() } })
}

#[test]
fn a_pod_leaves_when_the_first_of_its_taints_is_tolerated_no_longer() {
    let for_300 = toleration("unreachable", true, "", Some(300));
    let waits = |left| Fate::Waits(seconds(left));
    let cases = [
        (vec![], vec![], Fate::Stays),
        (vec![], vec![taint("unreachable", "", 900)], Fate::Goes),
        (vec![for_300.clone()], vec![taint("unreachable", "", 900)], waits(200)),
        (vec![for_300.clone()], vec![taint("unreachable", "", 700)], Fate::TimeIsUp),
        (vec![for_300.clone()], vec![taint("unreachable", "", 900), taint("gpu", "", 900)], Fate::Goes),
        (vec![toleration("", true, "", None)], vec![taint("unreachable", "", 900), taint("gpu", "", 1)], Fate::Stays),
        (
            vec![for_300.clone(), toleration("unreachable", true, "", None)],
            vec![taint("unreachable", "", 900)],
            waits(200),
        ),
        (vec![toleration("", true, "", None), for_300.clone()], vec![taint("unreachable", "", 900)], Fate::Stays),
        (
            vec![for_300.clone(), toleration("unreachable", true, "", Some(10))],
            vec![taint("unreachable", "", 995)],
            waits(295),
        ),
        (
            vec![for_300, toleration("gpu", true, "", Some(10))],
            vec![taint("unreachable", "", 995), taint("gpu", "", 995)],
            waits(5),
        ),
        (vec![toleration("gpu", false, "a100", None)], vec![taint("gpu", "a100", 1)], Fate::Stays),
        (vec![toleration("gpu", false, "a100", None)], vec![taint("gpu", "h100", 1)], Fate::Goes),
        (vec![toleration("gpu", true, "", Some(-1))], vec![taint("gpu", "", 1000)], Fate::TimeIsUp),
    ];
    for (at, (tolerations, taints, expected)) in cases.into_iter().enumerate() {
        let (pod, clocks) = (pod(0, tolerations), Clocks::default());
        let now = clock::now();
        let under = taints.iter().map(|taint| (taint, clocks.under(&pod, taint, now, NOW)));
        assert_eq!(fate(&pod.value, under), expected, "case {at}");
    }
}

#[test]
fn what_is_tolerated_for_a_while_is_not_tolerated_longer_for_being_looked_at() {
    let (mine, other) = (untimed("mine"), untimed("other"));
    let pod = pod(0, vec![toleration("mine", true, "", None), toleration("other", true, "", Some(2))]);
    let (clocks, start) = (Clocks::default(), clock::now());
    let look = |after: u64| {
        let now = start + seconds(after);
        fate(&pod.value, [&mine, &other].map(|taint| (taint, clocks.under(&pod, taint, now, NOW))))
    };
    clocks.node(&"n".into(), [&mine].into_iter(), start);
    clocks.node(&"n".into(), [&mine, &other].into_iter(), start + seconds(10));
    assert_eq!(look(10), Fate::Waits(seconds(2)));
    // A heartbeat of the node does not restart the count.
    clocks.node(&"n".into(), [&other, &mine].into_iter(), start + seconds(11));
    assert_eq!(look(11), Fate::Waits(seconds(1)));
    assert_eq!(look(12), Fate::TimeIsUp);
    // A taint that was removed and added again counts from its new time.
    clocks.node(&"n".into(), [&mine].into_iter(), start + seconds(13));
    clocks.node(&"n".into(), [&mine, &other].into_iter(), start + seconds(14));
    assert_eq!(look(15), Fate::Waits(seconds(1)));
}

#[test]
fn a_pod_that_comes_later_than_the_taint_has_its_whole_time() {
    let timed = taint("gpu", "", 100);
    let untimed = untimed("gpu");
    let pod = pod(990, vec![toleration("gpu", true, "", Some(30))]);
    let (clocks, start) = (Clocks::default(), clock::now());
    clocks.node(&"n".into(), [&untimed].into_iter(), start);
    let now = start + seconds(500);
    assert_eq!(clocks.under(&pod, &timed, now, NOW), seconds(10));
    assert_eq!(clocks.under(&pod, &untimed, now, NOW), seconds(0));
    assert_eq!(clocks.under(&pod, &untimed, now + seconds(7), NOW), seconds(7));
}

#[test]
fn a_deletion_that_is_waited_for_is_cancelled_once() {
    let (pod, clocks) = (pod(0, Vec::new()), Clocks::default());
    assert!(!clocks.cancel(pod.key()) && !clocks.knows(pod.key()));
    clocks.schedule(&pod, clock::now());
    assert!(clocks.knows(pod.key()) && !clocks.knows(&Key::new("ns", "pp")) && !clocks.knows(&Key::new("ns", "o")));
    assert!(clocks.cancel(pod.key()) && !clocks.cancel(pod.key()));
    clocks.schedule(&pod, clock::now());
    assert!(clocks.forget(pod.key()) && !clocks.knows(pod.key()));
}
