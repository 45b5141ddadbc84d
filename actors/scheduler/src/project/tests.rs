//! Tests of the projections, compared with pods and nodes built from the tests' short texts.

use oarlock_client::{decode, decode_wanted};
use oarlock_informer::Project;
use oarlock_schema::{Obj, resource};
use serde_json::{Value, json};

use super::{BudgetView, NodeView, PodView, ReplicaSetView, SelectorOf, ServiceView};
use crate::cluster::Budget;
use crate::intern::{Interner, Res};
use crate::labels::{Op, Selector};
use crate::model::{OwnerKind, PodInfo};
use crate::testing;

fn object(group: &str, plural: &str, value: &Value) -> Obj {
    let ty = resource(group, "v1", plural).unwrap().ty;
    decode(ty, &serde_json::to_vec(value).unwrap()).unwrap()
}

/// Returns a pod's projection, and checks that decoding only the declared fields gives the same projection.
fn pod_view(pod: &Value) -> PodView {
    let ty = resource("", "v1", "pods").unwrap().ty;
    let bytes = serde_json::to_vec(pod).unwrap();
    let some = PodView::project(&decode_wanted(ty, &bytes, &PodView::FIELDS.wanted()).unwrap());
    let whole = PodView::project(&decode(ty, &bytes).unwrap());
    assert_eq!(
        (&whole.info, whole.ended, &whole.scheduled_condition),
        (&some.info, some.ended, &some.scheduled_condition)
    );
    some
}

fn projected(spec: Value, labels: Value) -> PodView {
    pod_view(&json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "uid-p", "resourceVersion": "1", "generation": 1, "labels": labels},
        "spec": spec,
    }))
}

#[track_caller]
fn reads(spec: Value, text: &str) {
    let mut wanted: PodInfo = testing::pod(&mut Interner::process(), "p", text);
    let found = projected(spec, json!({"app": "x"}));
    // The builder knows requests as one sum; the cases below that care compare `nonzero` themselves.
    let mut bare = (*wanted.spec).clone();
    bare.nonzero = found.info.spec.nonzero;
    wanted.spec = std::sync::Arc::new(bare);
    assert_eq!(*found.info, wanted);
}

fn container(requests: Value) -> Value {
    json!({"name": "c", "image": "img:1", "resources": {"requests": requests}})
}

const BASE: &str = "label:app=x image:img:1";

#[test]
fn requests_are_summed_over_containers() {
    let spec = json!({"containers": [container(json!({"cpu": "500m", "memory": "1Gi"})), container(json!({"cpu": "0.25", "example.com/gpu": "2"}))]});
    reads(spec.clone(), &format!("{BASE} image:img:1 cpu=750m memory=1Gi example.com/gpu=2"));
    // The second container has no memory request, which counts as 200Mi in `nonzero`.
    assert_eq!(projected(spec, json!({})).info.spec.nonzero, [750, (1 << 30) + 200 * 1024 * 1024]);
}

#[test]
fn init_containers_raise_and_sidecars_add() {
    let mut sidecar = container(json!({"cpu": "100m"}));
    sidecar["restartPolicy"] = json!("Always");
    let spec = json!({
        "containers": [container(json!({"cpu": "1"}))],
        "initContainers": [container(json!({"cpu": "500m"})), sidecar, container(json!({"cpu": "2"}))],
    });
    // While the last init container runs: 2 + 0.1; later: 1 + 0.1.
    reads(spec, &format!("{BASE} image:img:1 image:img:1 image:img:1 cpu=2100m"));
}

#[test]
fn pod_level_requests_replace_and_overhead_adds() {
    let spec = json!({
        "containers": [container(json!({"cpu": "1", "memory": "1Gi"}))],
        "resources": {"requests": {"cpu": "3"}},
        "overhead": {"memory": "1Gi"},
    });
    reads(spec, &format!("{BASE} cpu=3 memory=2Gi"));
}

#[test]
fn a_resize_under_way_counts_the_larger_amount() {
    let value = json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"nodeName": "n", "containers": [container(json!({"cpu": "1"}))]},
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "1500m"}}},
        ]},
    });
    let view = pod_view(&value);
    assert_eq!(view.info.spec.request(Res::CPU), 2000);
}

#[test]
fn nothing_is_set_aside_for_a_resize_that_its_node_will_never_grant() {
    let cpu = |condition: Value| {
        let status = |name: &str| json!({"name": name, "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}});
        let mut sidecar = container(json!({"cpu": "8"}));
        sidecar["name"] = json!("s");
        sidecar["restartPolicy"] = json!("Always");
        pod_view(&json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "u"},
            "spec": {"nodeName": "n", "containers": [container(json!({"cpu": "8"}))], "initContainers": [sidecar]},
            "status": {"phase": "Running", "conditions": [condition], "containerStatuses": [status("c")], "initContainerStatuses": [status("s")]},
        }))
        .info
        .spec
        .request(Res::CPU)
    };
    let pending = |reason: &str| json!({"type": "PodResizePending", "status": "True", "reason": reason});
    assert_eq!(cpu(pending("Deferred")), 16_000, "it may still come");
    assert_eq!(cpu(pending("Infeasible")), 2_000);
}

#[test]
fn placement_fields_are_read() {
    let spec = json!({
        "schedulerName": "",
        "priority": 7,
        "preemptionPolicy": "Never",
        "containers": [{"name": "c", "image": "img", "ports": [
            {"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 81, "hostIP": "10.0.0.1"}, {"containerPort": 82},
        ]}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "k", "operator": "Exists"}, {"key": "j", "value": "v", "effect": "NoExecute"}],
        "schedulingGates": [{"name": "g"}],
    });
    reads(
        spec,
        "label:app=x image:img:latest priority=7 never gate:g select:disk=ssd tolerate:k tolerate:j=v:NoExecute port:80 port:81@10.0.0.1",
    );
}

#[test]
fn affinity_is_read() {
    let labels = json!({"matchLabels": {"app": "x"}});
    let term = |topology: &str| json!({"topologyKey": topology, "labelSelector": labels});
    let spec = json!({
        "containers": [container(json!({}))],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}, {"key": "b", "operator": "Exists"}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]},
                ]},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "preference": {"matchExpressions": [{"key": "g", "operator": "Gt", "values": ["3"]}]}},
                    {"weight": 9, "preference": {}},
                ],
            },
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [term("zone")],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2, "podAffinityTerm": term("rack")}],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": labels, "namespaceSelector": {"matchLabels": {"team": "one"}}},
                ],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": term("zone")}],
            },
        },
    });
    reads(
        spec,
        &format!(
            "{BASE} need:a=1,b need:name!=n prefer:5:g>3 near:zone/app=x like:2:rack/app=x apart:zone/app=x/@team=one like:-3:zone/app=x"
        ),
    );
}

#[test]
fn terms_that_cannot_be_parsed_match_no_node() {
    for term in [json!({}), json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]})] {
        let spec = json!({
            "containers": [container(json!({}))],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
        });
        let view = projected(spec, json!({}));
        assert!(view.info.spec.node_required.as_ref().unwrap().iter().all(|term| term.never));
    }
}

#[test]
fn spread_constraints_take_match_label_keys_in() {
    let spec = json!({
        "containers": [container(json!({}))],
        "topologySpreadConstraints": [
            {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3, "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["app", "none"], "labelSelector": {}},
            {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"},
        ],
    });
    reads(spec, &format!("{BASE} spread:zone/2/app=x/3/taints softspread:rack/1/-"));
}

#[test]
fn label_keys_of_affinity_mean_the_labels_that_the_pod_was_created_with() {
    // The API server merged the keys when the label was `old`; the label has changed since.
    let created = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["old"]}]});
    let term = json!({"topologyKey": "zone", "matchLabelKeys": ["app"], "mismatchLabelKeys": ["app"], "labelSelector": created});
    let spec = json!({
        "containers": [container(json!({}))],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    });
    reads(spec, &format!("{BASE} near:zone/app=old"));
}

#[test]
fn pods_that_ended_and_what_waiting_ones_say_are_seen() {
    let value = |phase: &str| {
        json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": []},
            "status": {"phase": phase, "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}]},
        })
    };
    let pending = pod_view(&value("Pending"));
    assert!(!pending.ended && pending.info.terminating);
    assert_eq!(pending.scheduled_condition.map(|told| told.message), Some("m".to_owned()));
    for phase in ["Succeeded", "Failed"] {
        assert!(pod_view(&value(phase)).ended);
    }
}

#[test]
fn pods_with_equal_specs_share_one() {
    let view = || projected(json!({"containers": [container(json!({"cpu": "1"}))]}), json!({"app": "shared"}));
    assert!(std::sync::Arc::ptr_eq(&view().info.spec, &view().info.spec));
}

#[test]
fn a_change_of_no_interest_is_kept_from_the_scheduler() {
    let view = |revision: &str, phase: &str, cpu: &str| {
        pod_view(&json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": revision},
            "spec": {"nodeName": "n", "containers": [container(json!({"cpu": cpu}))]},
            "status": {"phase": phase, "podIP": revision},
        }))
    };
    assert!(view("1", "Pending", "1").same(&view("2", "Running", "1")));
    assert!(!view("1", "Running", "1").same(&view("2", "Succeeded", "1")));
    assert!(!view("1", "Running", "1").same(&view("2", "Running", "2")));
}

#[test]
fn nodes_are_read() {
    let value = json!({
        "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1", "disk": "ssd"}},
        "spec": {"unschedulable": true, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "3500m", "memory": "4Gi", "pods": "32", "example.com/gpu": "1"},
            "images": [{"names": ["a:1", "a@sha256:0"], "sizeBytes": 1048576}],
        },
    });
    let wanted = testing::node(
        &mut Interner::process(),
        "n1",
        "cpu=3500m memory=4Gi pods=32 example.com/gpu=1 label:disk=ssd taint:k=v:NoSchedule cordoned image:a:1=1Mi image:a@sha256:0=1Mi",
    );
    assert_eq!(NodeView::project(&object("", "nodes", &value)).0, wanted);
}

#[test]
fn selectors_of_services_and_owners_are_read() {
    let service = json!({"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "x"}}});
    assert!(ServiceView::project(&object("", "services", &service)).0.is_some());
    let headless = json!({"metadata": {"name": "s", "namespace": "default"}, "spec": {}});
    assert!(ServiceView::project(&object("", "services", &headless)).0.is_none());
    let set = json!({"metadata": {"name": "r", "namespace": "default"}, "spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}});
    let view = ReplicaSetView::project(&object("apps", "replicasets", &set));
    let Selector::All(requirements) = view.selector() else { panic!("a selector") };
    assert!(matches!(requirements[0].op, Op::Exists));
    assert_eq!(ReplicaSetView::KIND, OwnerKind::ReplicaSet);
}

#[test]
fn what_preemption_asks_of_a_pod_is_read() {
    let value = |status: Value| json!({"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {"nodeName": "n"}, "status": status});
    let read = |status: Value| {
        let info = pod_view(&value(status)).info;
        (info.started, info.preempted)
    };
    let condition =
        |status: &str, reason: &str| json!({"type": "DisruptionTarget", "status": status, "reason": reason});
    assert_eq!(read(json!({})), (i64::MAX, false));
    assert_eq!(read(json!({"startTime": "1970-01-01T00:01:40Z"})), (100, false));
    assert_eq!(read(json!({"conditions": [condition("True", "PreemptionByScheduler")]})), (i64::MAX, true));
    assert_eq!(read(json!({"conditions": [condition("False", "PreemptionByScheduler")]})), (i64::MAX, false));
    let other = condition("True", "EvictionByEvictionAPI");
    assert_eq!(read(json!({"conditions": [other, condition("True", "PreemptionByScheduler")]})), (i64::MAX, false));
}

#[test]
fn disruption_budgets_are_read() {
    let read = |spec: Value, status: Value| {
        let value = json!({"metadata": {"name": "b", "namespace": "default"}, "spec": spec, "status": status});
        BudgetView::project(&object("policy", "poddisruptionbudgets", &value)).0
    };
    let status = json!({"disruptionsAllowed": 2, "disruptedPods": {"a": "2030-01-01T00:00:00Z"}});
    let budget = read(json!({"selector": {"matchLabels": {"app": "x"}}}), status);
    let selector = testing::selector(&mut Interner::process(), "app=x");
    assert_eq!(budget, Budget { selector, allowed: 2, disrupted: vec!["a".into()] });
    let nothing = Budget { selector: Selector::Nothing, allowed: 0, disrupted: Vec::new() };
    assert_eq!(read(json!({}), json!({})), nothing);
}
