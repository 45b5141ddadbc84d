//! Sums of requests and limits.

use std::collections::BTreeMap;

use oarlock_pods::amounts::Quantities;
use oarlock_pods::{Accounting, RequirementKind, Sum, pod_level};
use oarlock_schema::views::core_v1::Pod;
use serde_json::{Value, json};

use crate::common;

/// Makes a container with equal requests and limits.
fn container(name: &str, amounts: &Value) -> Value {
    json!({"name": name, "resources": {"requests": amounts, "limits": amounts}})
}

fn sidecar(name: &str, amounts: &Value) -> Value {
    let mut sidecar = container(name, amounts);
    sidecar["restartPolicy"] = "Always".into();
    sidecar
}

fn cpu(amount: &str) -> Value {
    json!({"cpu": amount})
}

/// Returns the requests and limits of a pod, in the form of quota texts.
fn sums(pod: &Value) -> (String, String) {
    let object = common::pod(pod);
    let pod = object.view::<Pod<'_>>().unwrap();
    let sum = |side| Sum::new(pod.spec(), side).with_status(pod.status()).total(&Quantities).to_string();
    (sum(RequirementKind::Requests), sum(RequirementKind::Limits))
}

fn of_spec(spec: &Value) -> (String, String) {
    sums(&json!({"spec": spec}))
}

#[test]
fn containers_run_at_once_and_init_containers_one_by_one_beside_the_sidecars_before_them() {
    let rows = [
        (json!({"containers": [container("a", &cpu("1")), container("b", &cpu("500m"))]}), "cpu=1500m"),
        // The largest moment of initialization counts where it exceeds the sum of the long-running containers.
        (
            json!({"containers": [container("a", &cpu("1"))], "initContainers": [container("i", &cpu("3")), container("j", &cpu("2"))]}),
            "cpu=3",
        ),
        (json!({"containers": [container("a", &cpu("4"))], "initContainers": [container("i", &cpu("3"))]}), "cpu=4"),
        // A sidecar runs beside everything that starts after the sidecar.
        (
            json!({"containers": [container("a", &cpu("1"))], "initContainers": [sidecar("s", &cpu("2")), container("i", &cpu("3"))]}),
            "cpu=5",
        ),
        (
            json!({"containers": [container("a", &cpu("1"))], "initContainers": [container("i", &cpu("3")), sidecar("s", &cpu("2"))]}),
            "cpu=3",
        ),
        (
            json!({"containers": [container("a", &cpu("4"))], "initContainers": [sidecar("s", &cpu("2")), sidecar("t", &cpu("2"))]}),
            "cpu=8",
        ),
        // Resources that only one of the containers names.
        (
            json!({"containers": [container("a", &cpu("1"))], "initContainers": [
                sidecar("s", &json!({"memory": "2"})), container("i", &json!({"x/gpu": "1"})), container("j", &json!({"memory": "1"}))]}),
            "cpu=1,memory=3,x/gpu=1",
        ),
        (
            json!({"containers": [container("a", &json!({"cpu": "0"}))], "initContainers": [container("i", &json!({"memory": "0"}))]}),
            "cpu=0,memory=0",
        ),
    ];
    for (spec, wanted) in rows {
        assert_eq!(of_spec(&spec), (wanted.to_owned(), wanted.to_owned()), "{spec}");
    }
}

/// Makes a pod with only these init containers, each with the same status.
fn resized(init: &[Value], conditions: &Value) -> Value {
    let status = |container: &Value| json!({"name": container["name"], "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}});
    let statuses: Vec<Value> = init.iter().map(status).collect();
    json!({"spec": {"containers": [], "initContainers": init}, "status": {"conditions": conditions, "initContainerStatuses": statuses}})
}

fn pending(reason: &str) -> Value {
    json!([{"type": "PodResizePending", "status": "True", "reason": reason}])
}

#[test]
fn what_runs_counts_with_what_it_was_given() {
    let rows = [
        (container("i", &cpu("1")), json!([]), ("cpu=1", "cpu=1")),
        (sidecar("s", &cpu("1")), json!([]), ("cpu=3", "cpu=4")),
        (sidecar("s", &cpu("8")), json!([]), ("cpu=8", "cpu=8")),
        (sidecar("s", &cpu("8")), pending("Deferred"), ("cpu=8", "cpu=8")),
    ];
    for (container, conditions, (requests, limits)) in rows {
        let pod = resized(std::slice::from_ref(&container), &conditions);
        assert_eq!(sums(&pod), (requests.to_owned(), limits.to_owned()), "{pod}");
    }
    let main = json!({"spec": {"containers": [container("a", &cpu("1"))]}, "status": {"containerStatuses": [
        {"name": "a", "resources": {"requests": {"cpu": "9"}}}, {"name": "a", "resources": {"requests": {"cpu": "2"}}}]}});
    assert_eq!(sums(&main).0, "cpu=2", "of two statuses the last counts");
    let silent = json!({"spec": {"containers": [container("a", &cpu("1"))]}, "status": {"containerStatuses": [
        {"name": "a", "allocatedResources": {"cpu": "2"}}]}});
    assert_eq!(sums(&silent).0, "cpu=1", "a kubelet that cannot resize reports no resources");
}

#[test]
fn nothing_is_reserved_for_an_infeasible_resize() {
    assert_eq!(
        sums(&resized(&[sidecar("s", &cpu("8"))], &pending("Infeasible"))),
        ("cpu=3".to_owned(), "cpu=4".to_owned())
    );
    let untouched =
        json!({"spec": {"containers": [container("a", &cpu("8"))]}, "status": {"conditions": pending("Infeasible")}});
    assert_eq!(sums(&untouched).0, "cpu=8", "a container that no kubelet speaks of");
}

#[test]
fn statuses_of_many_containers_are_found_by_name() {
    let names: Vec<String> = (0..40).map(|at| format!("c{at}")).collect();
    let containers: Vec<Value> = names.iter().map(|name| container(name, &cpu("1"))).collect();
    let status = |name: &String| json!({"name": name, "resources": {"requests": {"cpu": "2"}}});
    let statuses: Vec<Value> = names.iter().rev().map(status).collect();
    let pod = json!({"spec": {"containers": containers}, "status": {"containerStatuses": statuses}});
    assert_eq!(sums(&pod).0, "cpu=80");
}

#[test]
fn the_pod_as_a_whole_speaks_before_its_containers_and_overhead_is_added() {
    let spec = json!({
        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "5", "hugepages-2Mi": "4Mi"}},
        "overhead": {"cpu": "250m", "memory": "1"},
        "containers": [container("a", &json!({"cpu": "1", "memory": "7"}))],
    });
    assert_eq!(of_spec(&spec), ("cpu=2250m,memory=8".to_owned(), "cpu=5250m,hugepages-2Mi=4Mi,memory=8".to_owned()));
    let object = common::of_spec(&spec);
    let pod = object.view::<Pod<'_>>().unwrap();
    let sum = Sum::new(pod.spec(), RequirementKind::Requests);
    assert_eq!(sum.without_overhead(&Quantities).to_string(), "cpu=2,memory=7");
    assert_eq!(sum.of_containers(&Quantities).to_string(), "cpu=1,memory=7");
}

#[test]
fn overhead_raises_no_limit_that_is_not_there_or_is_zero() {
    let spec = json!({"overhead": {"cpu": "1", "memory": "1"}, "containers": [{"name": "a", "resources": {"limits": {"cpu": "0"}}}]});
    assert_eq!(of_spec(&spec), ("cpu=1,memory=1".to_owned(), "cpu=0".to_owned()));
}

#[test]
fn pods_as_a_whole_ask_for_compute_alone() {
    let is_set = |resources: Value| {
        let object = common::of_spec(&json!({"resources": resources, "containers": []}));
        pod_level::is_set(object.view::<Pod<'_>>().unwrap().spec())
    };
    assert!(is_set(json!({"requests": {"cpu": "1"}})) && is_set(json!({"limits": {"hugepages-2Mi": "2Mi"}})));
    assert!(!is_set(json!({})) && !is_set(json!({"limits": {"x/gpu": "1"}})));
    let spec =
        json!({"resources": {"requests": {"x/gpu": "4"}}, "containers": [container("a", &json!({"x/gpu": "1"}))]});
    assert_eq!(of_spec(&spec).0, "x/gpu=1");
}

/// Whole units of memory; a container without an amount counts with 10.
struct Memory;

impl Accounting for Memory {
    type List = BTreeMap<u8, i64>;

    fn read<'a>(&self, amounts: impl Iterator<Item = (&'a str, &'a str)>) -> Self::List {
        amounts.filter(|(name, _)| *name == "memory").map(|(_, text)| (0, text.parse().unwrap())).collect()
    }

    fn fill_in(&self, container: &mut Self::List) {
        container.entry(0).or_insert(10);
    }
}

#[test]
fn containers_that_say_nothing_are_filled_in_each() {
    let of = |spec: Value| {
        let object = common::of_spec(&spec);
        Sum::new(object.view::<Pod<'_>>().unwrap().spec(), RequirementKind::Requests).total(&Memory).get(&0).copied()
    };
    let (silent, zero) = (json!({"name": "a"}), container("b", &json!({"memory": "0"})));
    assert_eq!(of(json!({"containers": [silent, zero, silent]})), Some(20));
    assert_eq!(of(json!({"containers": [zero], "initContainers": [sidecar("s", &json!({})), silent]})), Some(20));
    let all = i64::MAX.to_string();
    let most = container("c", &json!({"memory": all}));
    assert_eq!(of(json!({"containers": [most, most]})), Some(i64::MAX), "no sum wraps round to less");
}
