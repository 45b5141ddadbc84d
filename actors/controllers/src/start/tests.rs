//! Tests of the selection and start of controllers.

use super::*;
use crate::harness::Requirement;

/// A feature gate that is off by default and not locked.
const GATE: &str = "StorageVersionAPI";

fn names(features: &str, supplies: &Supplies) -> Vec<&'static str> {
    static ROWS: [Row; 3] = [
        Row::PLAIN,
        Row { name: "gated-controller", gate: Some(GATE), ..Row::PLAIN },
        Row { name: "needy-controller", needs: &[Requirement::RootCa], ..Row::PLAIN },
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

/// Units must not change between releases, because members of an older release share a cluster with members of this one.
#[test]
fn units_are_what_they_were() {
    let singletons = [
        "singleton-garbage-collector-controller",
        "singleton-node-lifecycle-controller",
        "singleton-pod-garbage-collector-controller",
        "singleton-ttl-controller",
    ];
    let parts = (0..16).map(|part| format!("controllers-{part}"));
    let expected: Vec<String> = parts.chain(singletons.map(str::to_owned)).collect();
    assert_eq!(units().iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    assert_eq!(cloud_units().iter().map(ToString::to_string).collect::<Vec<_>>(), ["cloud"]);
}
