//! `pods/ephemeralcontainers`: only adding containers is allowed (texts as a live v1.35.0 server gave them, without its differences).

use oarlock_meta::ErrorList;
use oarlock_registry::kind::{Request, Requester};
use oarlock_registry::{kind, prepare};
use oarlock_schema::{Obj, resource};
use std::collections::BTreeMap;

fn pod(metadata: &str, spec: &str) -> Obj {
    let json = format!(
        r#"{{"metadata":{{"name":"p","namespace":"n","uid":"u"{metadata}}},
            "spec":{{"containers":[{{"name":"c","image":"i"}}]{spec}}}}}"#
    );
    oarlock_registry::index::decode(json.as_bytes(), resource("", "v1", "pods").unwrap().ty).unwrap()
}

/// Returns the object after an update, and the validation errors.
fn change(mut new: Obj, old: &Obj) -> (Obj, Vec<String>) {
    let kind = kind(resource("", "v1", "pods").unwrap());
    let extra = BTreeMap::new();
    let user = Requester { name: "u", uid: "", groups: &[], extra: &extra };
    let request = Request { resource: kind.resource, endpoint: "ephemeralcontainers", now: "", user };
    prepare::before_update(kind, &request, &mut new, old);
    let mut errors = ErrorList::default();
    kind.strategy.validate(&request, &new, Some(old), &mut errors);
    (new, errors.iter().map(|e| format!("{}: {}", e.field, e.body())).collect())
}

const D: &str = r#"{"name":"d","image":"x","targetContainerName":"c"}"#;
const E: &str = r#"{"name":"e","image":"x"}"#;

fn with(containers: &[&str]) -> Obj {
    pod("", &format!(r#","ephemeralContainers":[{}]"#, containers.join(",")))
}

#[test]
fn what_is_there_stays_as_it_is() {
    let old = with(&[D]);
    let removed = ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be removed\n"];
    let changed = ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be changed"];
    assert_eq!(change(with(&[D, E]), &old).1, [""; 0]);
    assert_eq!(change(with(&[E, D]), &old).1, [""; 0], "patches keep no order");
    assert_eq!(change(with(&[E]), &old).1, removed);
    assert_eq!(change(pod("", ""), &old).1, removed);
    assert_eq!(change(with(&[r#"{"name":"d","image":"y","targetContainerName":"c"}"#]), &old).1, changed);
    assert_eq!(change(with(&[r#"{"name":"d","image":"x"}"#]), &old).1, changed);
}

#[test]
fn nothing_but_ephemeral_containers_is_taken_from_the_body() {
    let old = pod(r#","labels":{"a":"b"}"#, "");
    let asked = pod(
        r#","labels":{"a":"c"},"annotations":{"x":"y"},"finalizers":["a.b/c"],
            "ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"o","uid":"o"}]"#,
        &format!(r#","nodeName":"q","ephemeralContainers":[{D}]"#),
    );
    let (new, errors) = change(asked, &old);
    assert_eq!(errors, [""; 0]);
    assert_eq!(new.at(&["metadata", "labels"]), old.at(&["metadata", "labels"]));
    for field in ["annotations", "finalizers", "ownerReferences"] {
        assert_eq!(new.at(&["metadata", field]), None, "{field}");
    }
    assert_eq!(new.at(&["spec", "nodeName"]), old.at(&["spec", "nodeName"]));
    assert_eq!(new.at(&["spec", "ephemeralContainers"]).map(|list| list.items().len()), Some(1));
}

#[test]
fn a_static_pod_gets_none() {
    let old = pod(r#","annotations":{"kubernetes.io/config.mirror":"x"}"#, "");
    let text = ["[]: Forbidden: static pods do not support ephemeral containers"];
    assert_eq!(change(with(&[D]), &old).1, text);
}
