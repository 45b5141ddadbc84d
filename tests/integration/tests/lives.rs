//! The exported spans of a hundred pods' lives, judged; and spans that are open while many watches are.

use std::time::Duration;

use oarlock_check::traces::{self as judge, Fault, Span, Wait};
use oarlock_runtime::clock;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::otlp::{Answer, Collector};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, otlp};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::runtime::Runtime;

const PODS: usize = 100;
const WATCHES: usize = 100;
const CORE: &str = "/api/v1/namespaces/default";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// How long each container takes to become ready, in the simulation.
const READY_AFTER: Duration = Duration::from_secs(2);
/// The steps of every pod. A pull is made once for each node that lacks the image.
const STEPS: [&str; 8] = ["commit", "queue", "decide", "bind", "admit", "sandbox", "start", "ready"];

fn now() -> u64 {
    u64::try_from(clock::wall().as_nanosecond()).unwrap()
}

/// Fails with the first faults, if there are any.
fn none(faults: &[Fault]) {
    let shown: Vec<String> = faults.iter().take(20).map(Fault::to_string).collect();
    assert!(faults.is_empty(), "{} faults: {shown:#?}", faults.len());
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

fn judged(span: &otlp::Span) -> Span {
    let trace = |bytes: &[u8]| u128::from_be_bytes(bytes.try_into().unwrap());
    Span {
        trace: trace(&span.trace_id),
        id: number(&span.span_id),
        parent: (!span.parent_span_id.is_empty()).then(|| number(&span.parent_span_id)),
        name: span.name.clone(),
        began: span.start_time_unix_nano,
        ended: span.end_time_unix_nano,
        failed: span.status.as_ref().is_some_and(|status| status.code != 0),
        links: span.links.iter().map(|link| (trace(&link.trace_id), number(&link.span_id))).collect(),
    }
}

/// Returns the life of each object in a list; the id of a life is the object's UID.
fn lives(list: &Value) -> Vec<u128> {
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().replace('-', "");
    list["items"].as_array().unwrap().iter().map(|object| u128::from_str_radix(&uid(object), 16).unwrap()).collect()
}

/// Creates a Deployment and waits until all its pods are available; returns when it was asked for, and when it was seen.
fn roll_out(admin: &Http) -> (u64, u64) {
    eventually("the default account", || match admin.get(&format!("{CORE}/serviceaccounts/default")) {
        answer if answer.code == 200 => Ok(()),
        answer => Err(answer),
    });
    let labels = json!({"app": "web"});
    let ready = format!("{}s", READY_AFTER.as_secs());
    let template = json!({
        "metadata": {"labels": labels, "annotations": {"sim.oarlock.dev/ready-after": ready}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    });
    let spec = json!({"replicas": PODS, "selector": {"matchLabels": labels}, "template": template});
    let asked = now();
    let made = admin.json("POST", DEPLOYMENTS, &json!({"metadata": {"name": "web"}, "spec": spec}));
    assert_eq!(made.code, 201, "{made}");
    eventually("all pods are available", || {
        let status = admin.get(&format!("{DEPLOYMENTS}/web")).json()["status"].clone();
        if status["availableReplicas"] == PODS { Ok(()) } else { Err(status) }
    });
    (asked, now())
}

#[test]
fn the_exported_lives_of_a_hundred_pods_are_whole_and_their_stages_are_what_the_user_waited() {
    let runtime = Runtime::new().unwrap();
    let collector = runtime.block_on(Collector::start(Answer::Accept));
    let file = NamedTempFile::new().unwrap();
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 1000000\n";
    std::fs::write(file.path(), format!("{head}endpoint: {}\n", collector.address)).unwrap();
    let cluster = Cluster::up(&["--ephemeral", "--nodes", "2", "--tracing-config-file", file.path().to_str().unwrap()]);
    let admin = cluster.http(Who::Admin);
    let (asked, seen) = roll_out(&admin);
    let pods = lives(&admin.get(&format!("{CORE}/pods")).json());
    let owners = [DEPLOYMENTS, "/apis/apps/v1/namespaces/default/replicasets"].map(|path| admin.get(path).json());
    let owners: Vec<u128> = owners.iter().flat_map(lives).collect();
    assert_eq!((pods.len(), owners.len()), (PODS, 2));

    let all = [&owners[..], &pods].concat();
    let spans = eventually("the end of each life is exported", || {
        let spans: Vec<Span> = collector.spans().iter().map(judged).collect();
        let has_root = |life: &&u128| spans.iter().any(|span| span.trace == **life && span.parent.is_none());
        let ended = all.iter().filter(has_root).count();
        if ended == all.len() { Ok(spans) } else { Err(format!("{ended} of {}", all.len())) }
    });
    none(&judge::none_missing(&spans, &owners, &["commit", "reconcile"]));
    none(&judge::none_missing(&spans, &pods, &STEPS));
    none(&judge::none_missing(&spans, &pods, &["pod create"]));
    let of_lives: Vec<Span> = spans.iter().filter(|span| all.contains(&span.trace)).cloned().collect();
    none(&judge::connected(&of_lives, &all, &[]));
    none(&judge::none_outlives(&spans));
    let at_least = u64::try_from(READY_AFTER.as_nanos()).unwrap();
    let waits: Vec<Wait> = pods.iter().map(|life| Wait { life: *life, asked, seen, at_least }).collect();
    none(&judge::adds_up(&spans, &waits));
}

#[test]
fn a_hundred_watches_hold_no_span_open() {
    let cluster = Cluster::up(&["--ephemeral", "--disable", "scheduler,controller-manager,kubelet"]);
    let admin = cluster.http(Who::Admin);
    let watch = || admin.open("GET", &format!("{CORE}/pods?watch=1"), &[], b"").unwrap();
    let watches: Vec<_> = (0..WATCHES).map(|_| watch()).collect();
    assert_eq!(watches.len(), WATCHES);
    eventually("the one open span is that of the request for the metric", || {
        let metrics = admin.get("/metrics").text();
        let open = metrics.lines().find_map(|line| line.strip_prefix("oarlock_spans_open "));
        if open == Some("1") { Ok(()) } else { Err(format!("{open:?}")) }
    });
}
