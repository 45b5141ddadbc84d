//! Which controllers run.

use futures::FutureExt;

use super::*;
use crate::harness::Need;

const PLAIN: Row = Row {
    name: "plain-controller",
    aliases: &[],
    account: "a",
    component: "c",
    workers: 1,
    spread: Spread::Key,
    why: "a test",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |_| async { Ok(()) }.boxed(),
};
/// Off by default, and not locked.
const GATE: &str = "StorageVersionAPI";

fn names(features: &str, supplies: &Supplies) -> Vec<&'static str> {
    static ROWS: [Row; 3] = [
        PLAIN,
        Row { name: "gated-controller", gate: Some(GATE), ..PLAIN },
        Row { name: "needy-controller", needs: &[Need::RootCa], ..PLAIN },
    ];
    let features = features.parse().unwrap();
    running(&ROWS, &Selection::default(), &features, supplies).iter().map(|row| row.name).collect()
}

#[test]
fn a_controller_whose_gate_is_off_does_not_run() {
    let nothing = Supplies::default();
    assert_eq!(names("", &nothing), ["plain-controller"]);
    assert_eq!(names("StorageVersionAPI=true", &nothing), ["plain-controller", "gated-controller"]);
}

#[test]
fn a_controller_whose_need_is_not_met_does_not_run_and_the_others_do() {
    let root_ca = Supplies { root_ca: Some("pem".into()), ..Supplies::default() };
    assert_eq!(names("", &Supplies::default()), ["plain-controller"]);
    assert_eq!(names("", &root_ca), ["plain-controller", "needy-controller"]);
}

/// Members of an older build hold the same units in one cluster with those of this one.
#[test]
fn units_are_what_they_were() {
    let mut units: Vec<String> = units().iter().map(ToString::to_string).collect();
    units.retain(|unit| !unit.starts_with("controllers/"));
    let singletons = [
        "singleton/garbage-collector-controller",
        "singleton/node-lifecycle-controller",
        "singleton/pod-garbage-collector-controller",
        "singleton/ttl-controller",
    ];
    assert_eq!(units, singletons);
    assert_eq!(cloud_units().iter().map(ToString::to_string).collect::<Vec<_>>(), ["cloud"]);
}
