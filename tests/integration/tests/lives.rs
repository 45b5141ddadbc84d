//! The spans of pods' lives, judged: of a hundred pods as they are exported, and of a Deployment as memory keeps them; and spans that are open while many watches are.

use std::process::Command;
use std::time::Duration;

use oarlock_check::traces::{self as judge, Fault, Span, Wait};
use oarlock_mesh::member_spans::TraceReport;
use oarlock_mesh::otlp::trace::v1::span::Link;
use oarlock_runtime::clock;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::otlp::{Answer, Collector};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Process, otlp, port};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::runtime::Runtime;

use crate::trace;

const PODS: usize = 100;
const WATCHES: usize = 100;
const CORE: &str = "/api/v1/namespaces/default";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// Name of the span of the request that creates the Deployment.
const REQUEST: &str = "POST /apis/apps/v1/namespaces/{namespace}/deployments";
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

/// Returns the id of a trace.
fn id(bytes: &[u8]) -> u128 {
    u128::from_be_bytes(bytes.try_into().unwrap())
}

fn judged(span: &otlp::Span) -> Span {
    Span {
        trace: id(&span.trace_id),
        id: number(&span.span_id),
        parent: (!span.parent_span_id.is_empty()).then(|| number(&span.parent_span_id)),
        name: span.name.clone(),
        began: span.start_time_unix_nano,
        ended: span.end_time_unix_nano,
        failed: span.status.as_ref().is_some_and(|status| status.code != 0),
        links: span.links.iter().map(|link| (id(&link.trace_id), number(&link.span_id))).collect(),
    }
}

/// Returns the life of each object in a list; the id of a life is the object's UID.
fn lives(list: &Value) -> Vec<u128> {
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().replace('-', "");
    list["items"].as_array().unwrap().iter().map(|object| u128::from_str_radix(&uid(object), 16).unwrap()).collect()
}

/// Returns the life of the Deployment, and that of its ReplicaSet.
fn owners(admin: &Http) -> Vec<u128> {
    let lists = [DEPLOYMENTS, "/apis/apps/v1/namespaces/default/replicasets"].map(|path| admin.get(path).json());
    lists.iter().flat_map(lives).collect()
}

fn deployment(replicas: usize) -> Value {
    let labels = json!({"app": "web"});
    let ready = format!("{}s", READY_AFTER.as_secs());
    let template = json!({
        "metadata": {"labels": labels, "annotations": {"sim.oarlock.dev/ready-after": ready}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    });
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
}

/// Creates a Deployment and waits until all its pods are available; returns when it was asked for, and when it was seen.
fn roll_out(admin: &Http) -> (u64, u64) {
    eventually("the default account", || match admin.get(&format!("{CORE}/serviceaccounts/default")) {
        answer if answer.code == 200 => Ok(()),
        answer => Err(answer),
    });
    let asked = now();
    let made = admin.json("POST", DEPLOYMENTS, &deployment(PODS));
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
    let owners = owners(&admin);
    assert_eq!((pods.len(), owners.len()), (PODS, 2));

    let all = [&owners[..], &pods].concat();
    let is_request = |span: &&Span| span.name == REQUEST;
    let spans = eventually("the end of each life is exported", || {
        let spans: Vec<Span> = collector.spans().iter().map(judged).collect();
        let has_root = |life: &&u128| spans.iter().any(|span| span.trace == **life && span.parent.is_none());
        let ended = all.iter().filter(has_root).count();
        let has_request = spans.iter().any(|span| is_request(&span));
        if ended == all.len() && has_request { Ok(spans) } else { Err(format!("{ended} of {}", all.len())) }
    });
    let request = spans.iter().find(is_request).unwrap().trace;
    assert_whole(&spans, (request, &owners, &pods), (asked, seen));
    collector.spans().iter().for_each(assert_links_are_attributes);
}

/// Judges the graph from the request that created the Deployment to the readiness of its last pod, and the times that a user waited for it.
fn assert_whole(spans: &[Span], (request, owners, pods): (u128, &[u128], &[u128]), (asked, seen): (u64, u64)) {
    none(&judge::none_missing(spans, owners, &["commit", "reconcile"]));
    none(&judge::none_missing(spans, pods, &STEPS));
    none(&judge::none_missing(spans, pods, &["pod create"]));
    let graph = [owners, pods, &[request]].concat();
    let of_graph: Vec<Span> = spans.iter().filter(|span| graph.contains(&span.trace)).cloned().collect();
    none(&judge::connected(&of_graph, &graph, &[]));
    none(&judge::none_outlives(spans));
    let at_least = u64::try_from(READY_AFTER.as_nanos()).unwrap();
    let waits: Vec<Wait> = pods.iter().map(|life| Wait { life: *life, asked, seen, at_least }).collect();
    none(&judge::adds_up(spans, &waits));
}

/// Returns the spans in a report of what processes keep in memory.
fn kept(report: &str) -> Vec<otlp::Span> {
    let report: TraceReport = serde_json::from_str(report).unwrap();
    let whole = report.members.iter().all(|member| member.recording && !member.truncated && member.error.is_none());
    assert!(whole && report.incomplete.is_none(), "{:?} {:?}", report.members, report.incomplete);
    let scopes = report.traces.resource_spans.into_iter().flat_map(|of| of.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

/// Returns the traces to which a span has a link of this relation.
fn linked(span: &otlp::Span, relation: &str) -> Vec<u128> {
    let related = |link: &&Link| otlp::text(&link.attributes, "oarlock.link.relation").as_deref() == Some(relation);
    span.links.iter().filter(related).map(|link| id(&link.trace_id)).collect()
}

#[test]
fn memory_keeps_one_graph_from_kubectl_apply_to_the_third_ready_pod() {
    const REPLICAS: usize = 3;
    let cluster = Cluster::up(&["--ephemeral", "--nodes", "2"]);
    let (admin, kubectl) = (cluster.http(Who::Admin), cluster.kubectl());
    kubectl.until_says("get serviceaccount default -o name", ["serviceaccount/default"]);
    let asked = now();
    kubectl.run_with("apply -f -", &deployment(REPLICAS).to_string()).says(["created"]);
    kubectl.ok("rollout status deployment/web --timeout=90s");
    let seen = now();
    let pods = lives(&admin.get(&format!("{CORE}/pods")).json());
    let owners = owners(&admin);
    assert_eq!((pods.len(), owners.len()), (REPLICAS, 2));

    let all = [&owners[..], &pods].concat();
    let mut found = eventually("the end of each life is kept", || {
        let found = kept(&trace::shows(&kubectl, &["deploy/web", "-o", "json"], &[]));
        let is_root = |span: &&otlp::Span| span.parent_span_id.is_empty() && all.contains(&id(&span.trace_id));
        let ended = found.iter().filter(is_root).count();
        if ended == all.len() { Ok(found) } else { Err(format!("{ended} of {}", all.len())) }
    });
    let commit = found.iter().find(|span| span.name == "commit" && id(&span.trace_id) == owners[0]).unwrap();
    let [request] = linked(commit, "request")[..] else { panic!("{commit:?}") };
    let answer = admin.get(&format!("/debug/traces?trace={request:032x}"));
    assert_eq!(answer.code, 200, "{answer}");
    let [of_request] = <[otlp::Span; 1]>::try_from(kept(&answer.text())).unwrap();
    assert_eq!((of_request.name.as_str(), linked(&of_request, "change")), (REQUEST, vec![owners[0]]));
    found.push(of_request);
    found.iter().for_each(assert_links_are_attributes);
    let spans: Vec<Span> = found.iter().map(judged).collect();
    assert_whole(&spans, (request, &owners, &pods), (asked, seen));
}

/// Checks that a viewer without links shows each link of a span.
fn assert_links_are_attributes(span: &otlp::Span) {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for link in &span.links {
        let relation = otlp::text(&link.attributes, "oarlock.link.relation").unwrap();
        let repeated = otlp::texts(&span.attributes, &format!("oarlock.link.{relation}"));
        let wanted = format!("{}-{}", hex(&link.trace_id), hex(&link.span_id));
        assert!(repeated.contains(&wanted), "{}: {relation} {wanted}: {repeated:?}", span.name);
    }
}

#[test]
fn a_root_that_another_process_records_begins_with_its_change() {
    let runtime = Runtime::new().unwrap();
    let collector = runtime.block_on(Collector::start(Answer::Accept));
    let cluster = Cluster::up(&["--disable", "kubelet"]);
    let mut kubelet = Command::new(oarlock_testkit::oarlock());
    kubelet.args(["kubelet", "--runtime", "sim", "--node-name", "apart", "--port", &port::own().to_string()]);
    kubelet.arg("--kubeconfig").arg(cluster.kubeconfig()).arg("--data-dir").arg(cluster.data_dir().root());
    kubelet.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.address));
    kubelet.env("OTEL_BSP_SCHEDULE_DELAY", "1");
    let _kubelet = Process::start(kubelet, "kubelet");
    let admin = cluster.http(Who::Admin);
    let spec = json!({"containers": [{"name": "main", "image": "nginx:1"}]});
    eventually("the default account", || match admin.get(&format!("{CORE}/serviceaccounts/default")) {
        answer if answer.code == 200 => Ok(()),
        answer => Err(answer),
    });
    // The second of the creation may be over when the pod is Ready, whenever it began.
    let asked = now();
    let made = admin.json("POST", &format!("{CORE}/pods"), &json!({"metadata": {"name": "web"}, "spec": spec}));
    let seen = now();
    assert_eq!(made.code, 201, "{made}");
    let root = runtime.block_on(collector.span("the root", |span| span.name == "pod create"));
    let began = root.start_time_unix_nano;
    // The UID holds the time to a quarter of a microsecond.
    assert!((asked.saturating_sub(250)..=seen).contains(&began), "{began} is not in {asked}..={seen}");
    assert!(root.parent_span_id.is_empty() && root.end_time_unix_nano > began);
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
