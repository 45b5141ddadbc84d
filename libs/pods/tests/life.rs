//! Sidecars, conditions and the end of pods.

use oarlock_pods::{conditions, sidecar, termination};
use oarlock_schema::views::core_v1::Pod;
use serde_json::json;

use crate::common;

#[test]
fn init_containers_that_are_always_restarted_are_sidecars() {
    let object = common::of_spec(&json!({
        "containers": [{"name": "a"}, {"name": "b", "restartPolicy": "Always"}],
        "initContainers": [
            {"name": "i"}, {"name": "s", "restartPolicy": "Always"}, {"name": "j", "restartPolicy": "OnFailure"},
            {"name": "t", "restartPolicy": "Always"},
        ],
    }));
    let spec = object.view::<Pod<'_>>().unwrap().spec();
    let names = |containers: &mut dyn Iterator<Item = oarlock_schema::views::core_v1::Container<'_>>| {
        containers.map(|container| container.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut sidecar::sidecars(spec)), ["s", "t"]);
    assert_eq!(names(&mut sidecar::long_running(spec)), ["a", "b", "s", "t"]);
    assert!(sidecar::has_sidecar(spec, "s") && !sidecar::has_sidecar(spec, "i") && !sidecar::has_sidecar(spec, "b"));
}

#[test]
fn of_several_conditions_of_a_type_the_first_counts() {
    let of = |statuses: &[(&str, &str)]| {
        let list: Vec<_> = statuses.iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect();
        let pod = common::pod(&json!({"status": {"conditions": list}}));
        conditions::is_ready(pod.view::<Pod<'_>>().unwrap().status())
    };
    let rows = [
        (vec![], false),
        (vec![("Ready", "True")], true),
        (vec![("Ready", "False"), ("Ready", "True")], false),
        (vec![("Ready", "Unknown")], false),
        (vec![("ContainersReady", "True")], false),
        (vec![("Initialized", "False"), ("Ready", "True")], true),
    ];
    for (statuses, wanted) in rows {
        assert_eq!(of(&statuses), wanted, "{statuses:?}");
    }
}

#[test]
fn two_phases_are_the_end() {
    for (phase, wanted) in
        [("", false), ("Pending", false), ("Running", false), ("Unknown", false), ("Succeeded", true), ("Failed", true)]
    {
        let pod = common::pod(&json!({"status": {"phase": phase}}));
        assert_eq!(termination::has_ended(pod.view::<Pod<'_>>().unwrap().status()), wanted, "{phase}");
    }
}
