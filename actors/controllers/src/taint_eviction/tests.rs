//! Tolerations over tables.

use oarlock_meta::Time;

use super::plan::leaves;
use crate::project::{PodView, Taint, Toleration};

const NOW: Time = Time::from_unix(1000);

fn toleration(key: &str, exists: bool, value: &str, seconds: Option<i64>) -> Toleration {
    Toleration { key: key.into(), exists, value: value.into(), seconds }
}

fn taint(key: &str, value: &str, added: i64) -> Taint {
    Taint { key: key.into(), value: value.into(), effect: "NoExecute".into(), added: Some(Time::from_unix(added)) }
}

#[test]
fn a_pod_leaves_when_its_shortest_toleration_ends() {
    let for_300 = toleration("unreachable", true, "", Some(300));
    let cases = [
        (vec![], vec![], None),
        (vec![], vec![taint("unreachable", "", 900)], Some(1000)),
        (vec![for_300.clone()], vec![taint("unreachable", "", 900)], Some(1200)),
        (vec![for_300.clone()], vec![taint("unreachable", "", 900), taint("gpu", "", 900)], Some(1000)),
        (vec![toleration("", true, "", None)], vec![taint("unreachable", "", 900), taint("gpu", "", 1)], None),
        (
            vec![for_300.clone(), toleration("unreachable", true, "", None)],
            vec![taint("unreachable", "", 900)],
            Some(1200),
        ),
        (vec![for_300, toleration("unreachable", true, "", Some(10))], vec![taint("unreachable", "", 995)], Some(1005)),
        (vec![toleration("gpu", false, "a100", None)], vec![taint("gpu", "a100", 1)], None),
        (vec![toleration("gpu", false, "a100", None)], vec![taint("gpu", "h100", 1)], Some(1000)),
        (vec![toleration("", false, "", None)], vec![taint("gpu", "", 1)], Some(1000)),
    ];
    for (at, (tolerations, taints, expected)) in cases.into_iter().enumerate() {
        let pod = PodView { tolerations: tolerations.into(), ..PodView::default() };
        assert_eq!(leaves(&pod, taints.iter(), NOW), expected.map(Time::from_unix), "case {at}");
    }
}
