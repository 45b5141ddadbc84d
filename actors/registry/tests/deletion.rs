//! The pure decision about a DELETE: removal, marking, finalizers, grace.

use oarlock_client::{DeleteOptions, Propagation};
use oarlock_meta::Time;
use oarlock_registry::delete::{Now, Plan, is_finished, plan};
use oarlock_registry::kind;
use oarlock_schema::{Obj, resource};

const NOW: Now = Now { unix: 1_000_000, format: |unix| Time::from_unix(unix).to_string() };

fn object(plural: &str, json: &str) -> Obj {
    oarlock_registry::index::decode(json.as_bytes(), resource("", "v1", plural).unwrap().ty).unwrap()
}

fn decide(plural: &str, json: &str, options: &DeleteOptions) -> Plan {
    plan(kind(resource("", "v1", plural).unwrap()), &object(plural, json), 7, options, NOW).unwrap()
}

fn marked(plan: Plan) -> Obj {
    match plan {
        Plan::Mark(obj) => *obj,
        other => panic!("{other:?}"),
    }
}

const PLAIN: &str = r#"{"metadata":{"name":"a","namespace":"b","uid":"u"}}"#;
const BOUND: &str = r#"{"metadata":{"name":"a","namespace":"b","generation":1},"spec":{"nodeName":"n","terminationGracePeriodSeconds":30,"containers":[]}}"#;

#[test]
fn an_object_nobody_holds_goes_at_once() {
    assert_eq!(decide("configmaps", PLAIN, &DeleteOptions::default()), Plan::Remove);
}

#[test]
fn a_finalizer_keeps_an_object_that_is_marked() {
    let json = r#"{"metadata":{"name":"a","namespace":"b","finalizers":["x.y/z"]}}"#;
    let obj = marked(decide("configmaps", json, &DeleteOptions::default()));
    assert_eq!(obj.meta().deletion_timestamp(), Some("1970-01-12T13:46:40Z"));
    assert_eq!(obj.meta().deletion_grace_period_seconds(), Some(0));
    let kind = kind(resource("", "v1", "configmaps").unwrap());
    assert!(!is_finished(kind, &obj));
    let mut free = obj.clone();
    free.meta_mut().unwrap().clear_finalizers();
    assert!(is_finished(kind, &free));
}

#[test]
fn propagation_replaces_the_other_policys_finalizer() {
    let json = r#"{"metadata":{"name":"a","namespace":"b","finalizers":["orphan","x.y/z"]}}"#;
    let options = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
    let obj = marked(decide("configmaps", json, &options));
    assert_eq!(obj.meta().finalizers().iter().collect::<Vec<_>>(), ["x.y/z", "foregroundDeletion"]);
}

#[test]
fn a_running_pod_gets_its_grace_and_a_generation() {
    let obj = marked(decide("pods", BOUND, &DeleteOptions::default()));
    assert_eq!(obj.meta().deletion_grace_period_seconds(), Some(30));
    assert_eq!(obj.meta().deletion_timestamp(), Some("1970-01-12T13:47:10Z"));
    assert_eq!(obj.meta().generation(), 2);
}

#[test]
fn a_pod_that_never_ran_goes_at_once() {
    assert_eq!(decide("pods", PLAIN, &DeleteOptions::default()), Plan::Remove);
}

#[test]
fn a_second_deletion_only_shortens_the_grace() {
    let first = marked(decide("pods", BOUND, &DeleteOptions::default()));
    let pods = kind(resource("", "v1", "pods").unwrap());
    let again = |grace| plan(pods, &first, 7, &DeleteOptions::default().grace(grace), NOW).unwrap();
    assert_eq!(again(60), Plan::Pending);
    assert_eq!(marked(again(5)).meta().deletion_grace_period_seconds(), Some(5));
    assert_eq!(again(0), Plan::Remove);
}

#[test]
fn a_negative_grace_means_a_second() {
    let obj = marked(decide("pods", BOUND, &DeleteOptions::default().grace(-3)));
    assert_eq!(obj.meta().deletion_grace_period_seconds(), Some(1));
}

#[test]
fn a_namespace_turns_terminating_until_its_own_finalizers_are_gone() {
    let json = r#"{"metadata":{"name":"a"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#;
    let obj = marked(decide("namespaces", json, &DeleteOptions::default()));
    assert_eq!(obj.at(&["status", "phase"]).and_then(|v| v.as_str()), Some("Terminating"));
    assert!(!is_finished(kind(resource("", "v1", "namespaces").unwrap()), &obj));
}

#[test]
fn preconditions_that_do_not_hold_are_conflicts() {
    let maps = kind(resource("", "v1", "configmaps").unwrap());
    let refused = |options: &DeleteOptions| plan(maps, &object("configmaps", PLAIN), 7, options, NOW).unwrap_err();
    assert!(refused(&DeleteOptions::uid("other")).is_conflict());
    let options = DeleteOptions { resource_version: Some(oarlock_meta::Revision(6)), ..DeleteOptions::default() };
    assert!(refused(&options).is_conflict());
}

#[test]
fn a_controller_of_old_leaves_its_pods_unless_told_otherwise() {
    let obj = marked(decide("replicationcontrollers", PLAIN, &DeleteOptions::default()));
    assert_eq!(obj.meta().finalizers().iter().collect::<Vec<_>>(), ["orphan"]);
    let background = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    assert_eq!(decide("replicationcontrollers", PLAIN, &background), Plan::Remove);
}

#[test]
fn an_event_has_no_dependents_to_orphan() {
    let orphan = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
    assert_eq!(decide("events", PLAIN, &orphan), Plan::Remove);
}

#[test]
fn a_system_priority_class_stays() {
    let resource = resource("scheduling.k8s.io", "v1", "priorityclasses").unwrap();
    let json = br#"{"metadata":{"name":"system-node-critical"}}"#;
    let class = oarlock_registry::index::decode(json, resource.ty).unwrap();
    let refused = plan(kind(resource), &class, 7, &DeleteOptions::default(), NOW).unwrap_err();
    assert_eq!(refused.code, 403);
}
