//! Tests of invariant C1 (every wanted object exists, and no other), with states that violate the invariant: each is a small change of a good state.

use oarlock_check::workloads::Finding::{Duplicate, Endpoints, LeftOver, Missing, NotAtSpec, Orphan, Stuck};
use oarlock_check::workloads::{Finding, State, Wanted, judge};
use serde_json::{Value, json};

fn meta(name: &str, owner: Option<(&str, &str)>) -> Value {
    let mut meta = json!({"name": name, "namespace": "work", "uid": name, "labels": {"app": "web"}, "generation": 2});
    if let Some((kind, owner)) = owner {
        meta["ownerReferences"] = json!([{"kind": kind, "name": owner, "uid": owner, "controller": true}]);
    }
    meta
}

fn pod(name: &str, owner: Option<(&str, &str)>, ip: &str) -> Value {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    json!({"metadata": meta(name, owner), "spec": {"nodeName": "n1"}, "status": {"podIP": ip, "conditions": ready}})
}

/// Makes a pod of a Job that has ended.
fn ended(name: &str, job: &str, phase: &str) -> Value {
    let mut meta = meta(name, Some(("Job", job)));
    meta["labels"] = json!({"job-name": job});
    json!({"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": phase}})
}

/// Makes a state that is as wanted: a Deployment of two pods behind a Service, a complete Job of two completions, and a pod without an owner.
fn good() -> (State, Wanted) {
    let counts = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2});
    let own = Some(("ReplicaSet", "set"));
    let mut alone = pod("alone", None, "10.0.0.9");
    alone["metadata"]["labels"] = json!({"app": "alone"});
    let slice = json!([
        {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
        {"addresses": ["10.0.0.2"], "conditions": {"ready": true}},
        {"addresses": ["10.0.0.3"], "conditions": {"ready": false}},
    ]);
    let state = State {
        namespaces: vec![json!({"metadata": {"name": "work"}}), json!({"metadata": {"name": "kube-system"}})],
        deployments: vec![json!({"metadata": meta("web", None), "spec": {"replicas": 2}, "status": counts})],
        replica_sets: vec![json!({"metadata": meta("set", Some(("Deployment", "web"))), "spec": {"replicas": 2}})],
        jobs: vec![json!({"metadata": meta("job", None), "status": {
            "succeeded": 2, "failed": 1, "conditions": [{"type": "Complete", "status": "True"}],
        }})],
        pods: vec![
            pod("one", own, "10.0.0.1"),
            pod("two", own, "10.0.0.2"),
            alone,
            ended("first", "job", "Succeeded"),
            ended("second", "job", "Succeeded"),
            ended("bad", "job", "Failed"),
        ],
        services: vec![json!({"metadata": meta("front", None), "spec": {"selector": {"app": "web"}}})],
        endpoint_slices: vec![json!({"metadata": meta("front-x", Some(("Service", "front"))), "endpoints": slice})],
        endpoints: vec![json!({
            "metadata": meta("front", None), "subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}],
        })],
    };
    let names = |names: &[&str]| names.iter().map(|name| format!("work/{name}")).collect();
    let wanted = Wanted {
        namespaces: ["work".to_owned()].into(),
        deployments: [("work/web".to_owned(), 2)].into(),
        jobs: [("work/job".to_owned(), 2)].into(),
        services: names(&["front"]),
        pods: names(&["alone"]),
    };
    (state, wanted)
}

/// Asserts that a change of the good state gives exactly these findings.
#[track_caller]
fn breaks(change: impl FnOnce(&mut State, &mut Wanted), findings: &[Finding]) {
    let (mut state, mut wanted) = good();
    change(&mut state, &mut wanted);
    let wrong = judge(&state, &wanted);
    let found: Vec<Finding> = wrong.iter().map(|wrong| wrong.finding).collect();
    assert_eq!(found, findings, "{wrong:#?}");
}

#[test]
fn what_is_as_it_should_be_is_not_complained_of() {
    breaks(|_, _| (), &[]);
    // Objects in other namespaces are not judged, if their namespace and owners exist.
    let elsewhere = |state: &mut State, _: &mut Wanted| {
        let mut other = pod("other", None, "10.0.0.7");
        other["metadata"]["namespace"] = json!("kube-system");
        state.pods.push(other);
    };
    breaks(elsewhere, &[]);
    // A ReplicaSet that was scaled to zero needs no pods, and its pods may still exist.
    let old = |state: &mut State, _: &mut Wanted| {
        let mut old = state.replica_sets[0].clone();
        old["metadata"]["uid"] = json!("old");
        old["spec"]["replicas"] = json!(0);
        state.replica_sets.push(old);
    };
    breaks(old, &[]);
}

#[test]
fn exactly_what_is_wanted_is_there() {
    breaks(|_, wanted| wanted.pods.extend(["work/more".to_owned()]), &[Missing]);
    breaks(|_, wanted| wanted.deployments.extend([("work/more".to_owned(), 0)]), &[Missing]);
    breaks(|_, wanted| wanted.services.extend(["work/more".to_owned()]), &[Missing]);
    breaks(|_, wanted| wanted.namespaces.extend(["more".to_owned()]), &[Missing]);
    breaks(|_, wanted| wanted.pods.clear(), &[LeftOver]);
    breaks(|_, wanted| wanted.deployments.clear(), &[LeftOver]);
    breaks(|_, wanted| wanted.services.clear(), &[LeftOver]);
}

#[test]
fn workloads_are_at_their_spec() {
    breaks(|_, wanted| wanted.deployments.extend([("work/web".to_owned(), 3)]), &[NotAtSpec]);
    for count in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "observedGeneration"] {
        breaks(|state, _| state.deployments[0]["status"][count] = json!(1), &[NotAtSpec]);
    }
    breaks(|state, _| state.pods[2]["spec"]["nodeName"] = Value::Null, &[NotAtSpec]);
    breaks(|state, _| state.pods[2]["status"]["conditions"][0]["status"] = json!("False"), &[NotAtSpec]);
    // The ReplicaSet lacks a pod that the Service's endpoints still name.
    breaks(|state, _| drop(state.pods.remove(1)), &[NotAtSpec, Endpoints, Endpoints]);
}

#[test]
fn jobs_end_and_count_each_success_once() {
    breaks(|state, _| state.jobs[0]["status"]["conditions"][0]["status"] = json!("False"), &[NotAtSpec]);
    breaks(|state, _| state.jobs[0]["status"]["active"] = json!(1), &[NotAtSpec]);
    breaks(|_, wanted| wanted.jobs.extend([("work/more".to_owned(), 1)]), &[Missing]);
    breaks(|_, wanted| wanted.jobs.clear(), &[LeftOver]);
    // The Job counts a pod that did not succeed, or counts fewer than succeeded.
    breaks(|state, _| state.pods[3]["status"]["phase"] = json!("Failed"), &[NotAtSpec]);
    breaks(|state, _| state.pods[5]["status"]["phase"] = json!("Succeeded"), &[Duplicate]);
    breaks(|state, _| state.pods[5]["status"]["phase"] = json!("Running"), &[LeftOver]);
    let kept = |state: &mut State, _: &mut Wanted| {
        state.pods[5]["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
    };
    breaks(kept, &[Stuck]);
    let no_job = |state: &mut State, wanted: &mut Wanted| {
        state.jobs.clear();
        wanted.jobs.clear();
    };
    breaks(no_job, &[NotAtSpec, NotAtSpec, NotAtSpec, Orphan, Orphan, Orphan]);
}

#[test]
fn nothing_is_there_twice() {
    let third = |state: &mut State, _: &mut Wanted| {
        let mut third = pod("three", Some(("ReplicaSet", "set")), "10.0.0.4");
        third["metadata"]["labels"] = json!({});
        state.pods.push(third);
    };
    breaks(third, &[Duplicate]);
    let second = |state: &mut State, _: &mut Wanted| {
        let mut second = state.replica_sets[0].clone();
        second["metadata"]["uid"] = json!("second");
        state.replica_sets.push(second);
    };
    breaks(second, &[NotAtSpec, Duplicate]);
}

#[test]
fn whoever_belongs_to_somebody_goes_with_them() {
    let no_set = |state: &mut State, _: &mut Wanted| state.replica_sets.clear();
    breaks(no_set, &[Orphan, Orphan]);
    let no_deployment = |state: &mut State, wanted: &mut Wanted| {
        state.deployments.clear();
        wanted.deployments.clear();
    };
    breaks(no_deployment, &[Orphan]);
    let no_service = |state: &mut State, wanted: &mut Wanted| {
        state.services.clear();
        wanted.services.clear();
    };
    breaks(no_service, &[Orphan, Orphan]);
    let no_namespace = |state: &mut State, _: &mut Wanted| {
        let mut lost = pod("lost", None, "10.0.0.8");
        lost["metadata"]["namespace"] = json!("gone");
        state.pods.push(lost);
    };
    breaks(no_namespace, &[Orphan]);
}

#[test]
fn what_is_deleted_goes() {
    let deleted = |object: &mut Value| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    breaks(|state, _| deleted(&mut state.pods[2]), &[Stuck]);
    breaks(|state, _| deleted(&mut state.deployments[0]), &[Stuck]);
    breaks(|state, _| deleted(&mut state.namespaces[1]), &[Stuck]);
}

#[test]
fn endpoints_are_the_ready_pods() {
    breaks(|state, _| state.endpoint_slices.clear(), &[Endpoints]);
    breaks(|state, _| state.endpoints.clear(), &[Endpoints]);
    let unready = |state: &mut State, _: &mut Wanted| {
        state.endpoint_slices[0]["endpoints"][0]["conditions"]["ready"] = json!(false);
    };
    breaks(unready, &[Endpoints]);
    breaks(|state, _| state.endpoints[0]["subsets"][0]["addresses"][0]["ip"] = json!("10.0.0.5"), &[Endpoints]);
    breaks(|state, _| state.services[0]["spec"]["selector"] = json!({"app": "none"}), &[Endpoints, Endpoints]);
}
