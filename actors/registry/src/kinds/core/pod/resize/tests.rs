//! Which changes `pods/resize` accepts; the expected results are upstream's answers.

use oarlock_codec::{Mode, json};
use oarlock_meta::ErrorList;
use oarlock_schema::{Obj, resource};

use super::*;
use crate::kind::Strategy as _;

fn pod(spec: &str) -> Obj {
    let text =
        format!(r#"{{"metadata":{{"name":"w","namespace":"n","labels":{{"a":"b"}}}},"spec":{spec},"status":{{}}}}"#);
    let ty = resource("", "v1", "pods").unwrap().ty;
    let mut pod = json::decode(text.as_bytes(), ty, Mode::Strict).unwrap().value;
    oarlock_apis::default(&mut pod);
    let class = qos::computed(pod.view::<Pod<'_>>().unwrap().spec()).as_str();
    pod.set_at(&["status", "qosClass"], class);
    pod
}

/// Returns a pod with a container, a plain init container and a sidecar.
fn spec(main: &str, init: &str, sidecar: &str) -> String {
    format!(
        r#"{{"containers":[{{"name":"c","image":"i",{main}}}],"initContainers":[{{"name":"i","image":"i",{init}}},
            {{"name":"s","image":"i","restartPolicy":"Always",{sidecar}}}]}}"#
    )
}

const MAIN: &str = r#""resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"2","memory":"2Gi"}}"#;
const ONE: &str = r#""resources":{"requests":{"cpu":"1"}}"#;
const MORE: &str = r#""resources":{"requests":{"cpu":"1500m"}}"#;

fn prepare(new: &mut Obj, old: &Obj) {
    let mut request = crate::kind::tests::request(resource("", "v1", "pods").unwrap());
    request.endpoint = "resize";
    super::super::PodStrategy.prepare_update(&request, new, old);
}

fn asked(new: &str, old: &str) -> (Obj, Vec<String>) {
    let (mut new, old) = (pod(new), pod(old));
    prepare(&mut new, &old);
    let mut errors = ErrorList::new();
    validate(new.view::<Pod<'_>>().unwrap(), old.view::<Pod<'_>>().unwrap(), &mut errors);
    (new, errors.iter().map(|e| format!("{}: {}", e.field, e.body())).collect())
}

#[test]
fn cpu_and_memory_of_containers_and_sidecars_may_change_and_nothing_else() {
    let old = spec(MAIN, ONE, ONE);
    let errors = |new: String| asked(&new, &old).1;
    let bigger = MAIN.replace(r#""cpu":"1""#, r#""cpu":"1500m""#);
    let (new, none) = asked(&spec(&bigger, ONE, MORE), &old);
    assert_eq!(none, Vec::<String>::new());
    let containers = |list: &str| new.at(&["spec", list]).unwrap().items().to_vec();
    assert_eq!(containers("containers")[0].at(&["resources", "requests", "cpu"]).unwrap().as_str(), Some("1500m"));
    assert_eq!(containers("initContainers")[1].at(&["resources", "requests", "cpu"]).unwrap().as_str(), Some("1500m"));
    let immutable = "spec: Forbidden: resources for non-sidecar init containers are immutable";
    assert_eq!(errors(spec(MAIN, MORE, ONE)), [immutable]);
    let policy = r#","resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}]"#;
    let only = "spec: Forbidden: only cpu and memory resources are mutable";
    assert_eq!(errors(spec(&format!("{MAIN}{policy}"), ONE, ONE)), [only]);
    let storage = MAIN.replace(r#""requests":{"#, r#""requests":{"ephemeral-storage":"1Gi","#);
    assert_eq!(errors(spec(&storage, ONE, ONE)), [only]);
    let sidecar = r#""resources":{"requests":{"cpu":"1","ephemeral-storage":"1"}}"#;
    assert_eq!(
        errors(spec(MAIN, ONE, sidecar)),
        ["spec: Forbidden: only cpu and memory resources for sidecar containers are mutable"]
    );
}

#[test]
fn what_is_asked_besides_is_left_as_it_is() {
    let old = spec(MAIN, ONE, ONE);
    let mut new = pod(&old);
    new.set_at(&["spec", "nodeName"], "elsewhere");
    new.set_at(&["metadata", "labels", "a"], "c");
    let stored = pod(&old);
    prepare(&mut new, &stored);
    assert_eq!(new, stored);
}

#[test]
fn containers_may_not_come_go_or_change_names() {
    let old = spec(MAIN, ONE, ONE);
    let added = old.replace(r#"{"name":"c","#, r#"{"name":"n","image":"i"},{"name":"c","#);
    let first = |new: &str| asked(new, &old).1;
    assert_eq!(first(&added), ["spec.containers: Forbidden: containers may not be added or removed on resize"]);
    let renamed = old.replace(r#""name":"s""#, r#""name":"t""#);
    assert_eq!(
        first(&renamed),
        ["spec.initContainers[1].name: Forbidden: initContainers may not be renamed or reordered on resize"]
    );
}

#[test]
fn requests_and_limits_may_not_go() {
    let old = spec(MAIN, ONE, ONE);
    let at = "spec.containers[0].resources";
    let limits = format!("{at}.limits: Forbidden: resource limits cannot be removed");
    let requests = format!("{at}.requests: Forbidden: resource requests cannot be removed");
    assert_eq!(asked(&spec(r#""resources":{}"#, ONE, ONE), &old).1, [requests, limits.clone()]);
    let memory = MAIN.replace(r#","memory":"2Gi""#, "");
    assert_eq!(asked(&spec(&memory, ONE, ONE), &old).1, [limits]);
}

#[test]
fn the_class_stays_and_pods_with_resources_of_their_own_are_left_alone() {
    let plain = |resources: &str| format!(r#"{{"containers":[{{"name":"c","image":"i","resources":{resources}}}]}}"#);
    let class = r#"spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing"#;
    assert_eq!(asked(&plain(r#"{"requests":{"cpu":"1"}}"#), &plain("{}")).1, [class]);
    let whole = format!(r#"{{"resources":{{"requests":{{"cpu":"4"}}}},{}"#, &plain("{}")[1..]);
    let errors = asked(&whole, &whole).1;
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("[]: Forbidden: resize of pods with pod-level resources is forbidden"), "{errors:?}");
    let windows = format!(r#"{{"os":{{"name":"windows"}},{}"#, &plain("{}")[1..]);
    assert_eq!(asked(&windows, &windows).1, ["[]: Forbidden: windows pods cannot be resized"]);
}
