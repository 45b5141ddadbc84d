//! The pods that the controller builds, and the sets that it reads.

use oarlock_informer::{Item, Project};
use oarlock_meta::Revision;
use oarlock_schema::{Obj, Resource};
use serde_json::{Value as Json, json};

use super::super::objects;
use crate::project::{Amount, DaemonPod, DaemonSet, DaemonUpdate, PodView};

fn kind() -> &'static Resource {
    DaemonSet::RESOURCE.find().unwrap()
}

fn whole(pod: &Json, more: &Json) -> Obj {
    let template = json!({"metadata": {"labels": {"app": "log"}, "annotations": {"a": "b"}}, "spec": pod});
    let mut spec = json!({"selector": {"matchLabels": {"app": "log"}}, "template": template});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let annotations = json!({"deprecated.daemonset.template.generation": "7"});
    let meta = json!({"name": "log", "namespace": "ns", "uid": "set", "annotations": annotations});
    oarlock_client::decode(kind().ty, json!({"metadata": meta, "spec": spec}).to_string().as_bytes()).unwrap()
}

/// Builds the pod of a template for the node `n`, after this number of failures.
fn built(pod: &Json, former_failures: i64) -> (Json, Item<PodView>) {
    let whole = whole(pod, &json!({}));
    let set: Item<DaemonSet> = Item::of(&whole, Revision(1));
    let pods = PodView::RESOURCE.find().unwrap();
    let any = objects::pod(pods, (kind(), &set.meta), &whole, ("5d", set.value.template_count)).unwrap();
    let pod = objects::pinned(&any, "n", former_failures);
    let json = serde_json::from_slice(&oarlock_client::encode(&pod)).unwrap();
    (json, Item::of(&pod, Revision(1)))
}

#[test]
fn a_pod_has_the_labels_of_its_template_and_belongs_to_the_set() {
    let (pod, _) = built(&json!({"containers": [{"name": "main", "image": "a:1"}]}), 0);
    let meta = &pod["metadata"];
    assert_eq!((&meta["generateName"], &meta["namespace"]), (&json!("log-"), &json!("ns")));
    let labels = json!({"app": "log", "controller-revision-hash": "5d", "pod-template-generation": "7"});
    assert_eq!((&meta["labels"], &meta["annotations"]), (&labels, &json!({"a": "b"})));
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "log", "uid": "set", "controller": true,
        "blockOwnerDeletion": true}]);
    assert_eq!(meta["ownerReferences"], owner);
    assert_eq!(pod["spec"]["containers"][0]["image"], "a:1");
}

#[test]
fn a_pod_is_pinned_to_its_node_and_keeps_what_its_template_prefers() {
    let preferred = json!([{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]);
    let zone = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]});
    let affinity = json!({
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [zone, zone]},
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]},
    });
    let pin =
        json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]});
    let (pod, seen) = built(&json!({"affinity": affinity, "nodeSelector": {"a": "b"}}), 0);
    let nodes = &pod["spec"]["affinity"]["nodeAffinity"];
    assert_eq!(nodes["requiredDuringSchedulingIgnoredDuringExecution"], pin);
    assert_eq!(nodes["preferredDuringSchedulingIgnoredDuringExecution"], preferred);
    assert_eq!(pod["spec"]["affinity"]["podAntiAffinity"], affinity["podAntiAffinity"]);
    assert_eq!(pod["spec"]["nodeSelector"], json!({"a": "b"}));
    assert_eq!(seen.value.target_node(), "n");
    let (plain, _) = built(&json!({}), 0);
    assert_eq!(plain["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"], pin);
}

#[test]
fn a_pod_carries_on_the_count_of_failures() {
    let (pod, seen) = built(&json!({}), 3);
    assert_eq!(pod["metadata"]["annotations"]["daemonset.oarlock.dev/former-failures"], "3");
    assert_eq!(seen.value.daemon.as_deref(), Some(&DaemonPod { pinned: "n".into(), former_failures: 3 }));
}

#[test]
fn a_pod_tolerates_what_daemons_tolerate_beside_what_its_template_says() {
    let own = json!([
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
        {"key": "gpu", "operator": "Exists"},
    ]);
    let tolerated = |key: &str, effect: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect});
    let (pod, _) = built(&json!({"tolerations": own, "hostNetwork": true}), 0);
    let expected = json!([
        tolerated("not-ready", "NoExecute"),
        {"key": "gpu", "operator": "Exists"},
        tolerated("unreachable", "NoExecute"),
        tolerated("disk-pressure", "NoSchedule"),
        tolerated("memory-pressure", "NoSchedule"),
        tolerated("pid-pressure", "NoSchedule"),
        tolerated("unschedulable", "NoSchedule"),
        tolerated("network-unavailable", "NoSchedule"),
    ]);
    assert_eq!(pod["spec"]["tolerations"], expected);
    let (plain, _) = built(&json!({}), 0);
    assert_eq!(plain["spec"]["tolerations"].as_array().unwrap().len(), 6);
}

#[test]
fn a_set_is_read_with_the_defaults_of_absent_fields() {
    let read = |more: &Json| Item::<DaemonSet>::of(&whole(&json!({}), more), Revision(1)).value;
    let plain = read(&json!({}));
    assert_eq!((plain.min_ready, plain.history, plain.template_count), (0, None, Some(7)));
    assert!(!plain.surges());
    let rolling = |unavailable: Json, surge: Json| {
        read(
            &json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}}),
        )
    };
    let half = rolling(json!("50%"), json!(0));
    assert_eq!(half.update, DaemonUpdate::Rolling { unavailable: Amount::Percent(50), surge: Amount::Count(0) });
    assert!(!half.surges() && rolling(json!(0), json!("1%")).surges());
    let other = read(&json!({"updateStrategy": {"type": "OnDelete"}, "minReadySeconds": 5, "revisionHistoryLimit": 2}));
    assert_eq!((other.update.clone(), other.min_ready, other.history), (DaemonUpdate::OnDelete, 5, Some(2)));
    assert!(!other.surges());
}
