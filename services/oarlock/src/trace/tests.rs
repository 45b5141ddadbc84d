//! Tests of the waterfall, the shares and the words, with fixed spans and objects.

use bytes::Bytes;
use oarlock_client::Object;
use oarlock_mesh::member_spans::{MemberReport, TraceReport};
use oarlock_mesh::otlp::common::v1::{AnyValue, KeyValue, any_value::Value as Any};
use oarlock_mesh::otlp::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, status::StatusCode};
use oarlock_schema::{Obj, resource};
use oarlock_telemetry::traces::Change;
use serde_json::{Value, json};

use super::explain::{Stage, explain};
use super::plain::plain;
use super::rows::{Row, Subject, rows};
use super::shares::{BETWEEN, Share, shares};
use super::{ask, objects, spans, waterfall, words};

const UID: &str = "6d0a3c52-9e1f-4b7a-8c55-0123456789ab";
/// The second in which the pod was created, in nanoseconds.
const CREATED: u64 = 1_700_000_000 * 1_000_000_000;
const MS: u64 = 1_000_000;

fn subject(generation: i64) -> Subject {
    Subject {
        title: "pod/web".to_owned(),
        change: "pod create".to_owned(),
        uid: UID.to_owned(),
        generation,
        created: CREATED,
    }
}

fn root_id(generation: i64) -> Vec<u8> {
    Change::new(UID, generation).context().span_id().to_bytes().to_vec()
}

/// A span from one millisecond after the creation to another.
fn span(name: &str, id: &[u8], parent: &[u8], began: u64, ended: u64) -> Span {
    Span {
        trace_id: Change::new(UID, 1).trace().to_bytes().to_vec(),
        span_id: id.to_vec(),
        parent_span_id: parent.to_vec(),
        name: name.to_owned(),
        start_time_unix_nano: CREATED + began * MS,
        end_time_unix_nano: CREATED + ended * MS,
        ..Span::default()
    }
}

fn failed(span: Span, why: &str) -> Span {
    let status = Some(Status { code: StatusCode::Error as i32, message: why.to_owned() });
    let value = Some(AnyValue { value: Some(Any::StringValue("main".to_owned())) });
    let attribute = KeyValue { key: "k8s.container.name".to_owned(), value, ..KeyValue::default() };
    Span { status, attributes: vec![attribute], ..span }
}

/// A life whose first pull failed: commit at 300 ms, Ready at 2,300 ms.
fn life() -> Vec<Span> {
    let root = root_id(1);
    vec![
        span("pod create", &root, &[], 0, 2300),
        span("start", &[6; 8], &root, 2000, 2100),
        failed(span("pull", &[4; 8], &root, 500, 700), "ErrImagePull: no such host"),
        span("pull", &[5; 8], &root, 1500, 2000),
        span("commit", &[1; 8], &root, 300, 310),
        span("sandbox", &[3; 8], &root, 310, 500),
        span("network", &[7; 8], &[3; 8], 400, 450),
        span("ready", &[8; 8], &root, 2100, 2300),
    ]
}

fn names(rows: &[Row]) -> Vec<(usize, &str)> {
    rows.iter().map(|row| (row.depth, row.name.as_str())).collect()
}

#[test]
fn steps_stand_below_their_parents_by_their_start() {
    let rows = rows(&subject(1), &life());
    let wanted = ["commit", "sandbox", "network", "pull", "pull", "start", "ready"]
        .map(|name| (1 + usize::from(name == "network"), name));
    assert_eq!(names(&rows), [&[(0, "pod create")][..], &wanted].concat());
    assert_eq!(rows[0].began, CREATED + 300 * MS, "the creation has whole seconds, the commit does not");
    assert_eq!(
        (rows[4].error.as_deref(), rows[4].container.as_deref()),
        (Some("ErrImagePull: no such host"), Some("main"))
    );
}

#[test]
fn a_change_without_its_root_goes_on_and_orphans_belong_to_it() {
    let mut spans = life();
    spans.remove(0);
    spans.push(span("queue", &[9; 8], &[77; 8], 310, 320));
    let open = rows(&subject(1), &spans);
    assert_eq!((open[0].name.as_str(), open[0].ended), ("pod create", None));
    assert!(names(&open).contains(&(1, "queue")), "its parent was displaced");
    assert_eq!(rows(&subject(1), &[]).len(), 1);
}

#[test]
fn spans_of_earlier_changes_and_of_circles_are_left_out() {
    let mut spans = life();
    spans.extend([span("a", &[10; 8], &[11; 8], 1, 2), span("b", &[11; 8], &[10; 8], 1, 2)]);
    spans.push(span("admit", &[12; 8], &root_id(2), 5000, 5001));
    let second = rows(&subject(2), &spans);
    assert_eq!(names(&second), [(0, "pod create"), (1, "admit")]);
    // The root of the first change may be missing; its steps still are not those of the second.
    spans.remove(0);
    assert_eq!(names(&rows(&subject(2), &spans)), names(&second));
}

#[test]
fn each_moment_counts_once_and_the_times_add_up() {
    let rows = rows(&subject(1), &life());
    let shares = shares(&rows, CREATED + 9000 * MS);
    let share = |stage: &str, time| Share { stage: stage.to_owned(), time: time * MS };
    assert_eq!(
        shares,
        [
            share(BETWEEN, 800),
            share("pull", 700),
            share("ready", 200),
            share("sandbox", 140),
            share("start", 100),
            share("network", 50),
            share("commit", 10)
        ]
    );
    assert_eq!(shares.iter().map(|share| share.time).sum::<u64>(), 2000 * MS, "what a user waited");
    let words = words::sentence(&rows[0], &shares, 0);
    assert_eq!(
        words,
        "took 2s; most of it: between steps 800ms (40 %), pull 700ms (35 %), ready 200ms (10 %), sandbox 140ms (7 %)"
    );
}

#[test]
fn steps_that_overlap_and_leave_the_change_count_within_it() {
    let row = |depth, name: &str, began, ended| Row {
        depth,
        name: name.to_owned(),
        began,
        ended: Some(ended),
        ..Row::default()
    };
    let rows = [row(0, "root", 10, 20), row(1, "a", 0, 16), row(1, "b", 12, 30), row(1, "c", 25, 30)];
    let found = shares(&rows, 99);
    let share = |stage: &str, time| Share { stage: stage.to_owned(), time };
    assert_eq!(found, [share("b", 8), share("a", 2)]);
    assert_eq!(shares(&[row(0, "root", 10, 10)], 99), []);
}

#[test]
fn a_waterfall_has_the_width_of_the_terminal() {
    let rows = rows(&subject(1), &life());
    let text = waterfall::draw(&[("pod/web".to_owned(), rows)], 60, CREATED + 9000 * MS);
    let wanted = "\
pod/web
  pod create       +0s        2s  ━━━━━━━━━━━━━━━━━━━━━━━━━━
    commit         +0s      10ms  ━
    sandbox      +10ms     190ms  ━━
      network   +100ms      50ms   ━
    pull main   +200ms     200ms    ━━✗
      error: ErrImagePull: no such host
    pull         +1.2s     500ms                 ━━━━━━━
    start        +1.7s     100ms                        ━
    ready        +1.8s     200ms                         ━━━
";
    let shown: Vec<&str> = text.lines().map(str::trim_end).collect();
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(60), "{widest:?}\n{text}");
    // Positions of bars depend on rounding alone; names, times and marks are what a user reads.
    let words = |line: &str| line.replace('━', "").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        shown.iter().map(|line| words(line)).collect::<Vec<_>>(),
        wanted.lines().map(words).collect::<Vec<_>>(),
        "{text}"
    );
    let open = Row { name: "pod create".to_owned(), began: CREATED, ..Row::default() };
    let text = waterfall::draw(&[("pod/web".to_owned(), vec![open])], 60, CREATED + 9000 * MS);
    assert!(text.contains("9s") && text.trim_end().ends_with('…'), "{text}");
}

#[test]
fn times_have_about_three_digits() {
    let cases = [
        (0, "0s"),
        (1_234, "1.234µs"),
        (1_234_567, "1.23ms"),
        (812_900_000, "812ms"),
        (3_219_000_000, "3.21s"),
        (125_900_000_000, "2m5s"),
    ];
    for (nanos, text) in cases {
        assert_eq!(words::time(nanos), text);
    }
}

#[test]
fn times_at_the_end_of_the_range_are_drawn_and_those_far_ahead_are_left_out() {
    let row = |began, ended| Row { name: "a".to_owned(), began, ended, ..Row::default() };
    for rows in [vec![row(u64::MAX, None)], vec![row(u64::MAX, Some(0))], vec![row(0, Some(u64::MAX)), row(7, None)]] {
        let text = waterfall::draw(&[("pod/web".to_owned(), rows.clone())], 60, CREATED);
        assert_eq!(text.lines().count(), 1 + rows.len(), "{text}");
    }
    let at = |id: u8, began: u64, ended: u64| Span {
        start_time_unix_nano: began,
        end_time_unix_nano: ended,
        ..span("a", &[id; 8], &[], 0, 0)
    };
    let day = 24 * 3600 * 1000 * MS;
    let near = at(1, CREATED, CREATED + day);
    let far = [at(2, u64::MAX, u64::MAX), at(3, CREATED, u64::MAX), at(4, CREATED + day + 1, CREATED)];
    let scope = ScopeSpans { spans: [&[near.clone()][..], &far].concat(), ..ScopeSpans::default() };
    let mut report = TraceReport::default();
    report.traces.resource_spans = vec![ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() }];
    assert_eq!(spans::merge(&report, CREATED).into_values().collect::<Vec<_>>(), [[near]]);
}

#[test]
fn control_characters_of_the_cluster_do_not_reach_the_terminal() {
    let bad = "a\u{1b}]0;x\u{7}\n\u{9b}2Jb";
    let good = "a\u{FFFD}]0;x\u{FFFD}\u{FFFD}\u{FFFD}2Jb";
    assert_eq!(plain(bad), good);
    assert_eq!(plain("ü ✗ tab"), "ü ✗ tab");

    let mut step = failed(span(bad, &[1; 8], &root_id(1), 1, 2), bad);
    step.attributes[0].value = Some(AnyValue { value: Some(Any::StringValue(bad.to_owned())) });
    let rows = rows(&subject(1), &[step]);
    let row = &rows[1];
    assert_eq!((row.name.as_str(), row.container.as_deref(), row.error.as_deref()), (good, Some(good), Some(good)));

    let waits = json!([{"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": bad}}}]);
    let (_, _, why) = stage(json!({"nodeName": "n1"}), bound(waits, &[]), None).unwrap();
    assert!(why.ends_with(good), "{why:?}");

    let status = json!({"conditions": [condition("Ready", "False", "KubeletNotReady", bad)]});
    let node = object("nodes", &json!({"metadata": {"name": "n1"}, "status": status}));
    let node = objects::Found { resource: resource("", "v1", "nodes").unwrap(), obj: node };
    let progress = objects::progress(&node).unwrap();
    assert!(progress.ends_with(good), "{progress:?}");

    let member =
        MemberReport { truncated: true, name: bad.to_owned(), error: Some(bad.to_owned()), ..MemberReport::default() };
    let report = TraceReport { members: vec![member], incomplete: Some(bad.to_owned()), ..TraceReport::default() };
    let lines = super::missing(&report);
    assert_eq!(lines.len(), 3);
    for line in lines {
        let text = line.strip_suffix('\n').unwrap();
        assert!(text.contains(good) && !text.contains(char::is_control), "{text:?}");
    }
}

#[test]
fn nodes_are_asked_whether_or_not_the_user_may_read_them() {
    let pod = |name: &str, spec: Value| objects::Found {
        resource: resource("", "v1", "pods").unwrap(),
        obj: object("pods", &json!({"metadata": {"name": name, "uid": UID}, "spec": spec})),
    };
    let owned = vec![pod("b", json!({"nodeName": "n2"})), pod("c", json!({"nodeName": "n1"})), pod("d", json!({}))];
    let object = pod("a", json!({"nodeName": "n1"}));
    let node_names = objects::node_names(owned.iter().chain([&object]));
    // A user who may not read Nodes has a family without Nodes.
    let family = objects::Family { owners: Vec::new(), object, owned, node_names, nodes: Vec::new() };
    let trace = Change::new(UID, 0).trace();
    assert_eq!(ask::paths(&family), [format!("/debug/traces?trace={trace}&node=n1&node=n2")]);
    let shown = super::picture(&family, &spans::Lives::new(), CREATED);
    assert_eq!(shown[0].stage.as_ref().map(|stage| stage.stage), Some("admit"), "an unknown node is not silent");
}

#[test]
fn of_two_records_of_a_root_the_first_end_counts() {
    let (first, second) = (span("pod create", &root_id(1), &[], 0, 10), span("pod create", &root_id(1), &[], 0, 90));
    let resource = |span: &Span| {
        let scope = ScopeSpans { spans: vec![span.clone()], ..ScopeSpans::default() };
        ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() }
    };
    let mut report = TraceReport::default();
    report.traces.resource_spans = vec![resource(&second), resource(&first)];
    assert_eq!(spans::merge(&report, CREATED).into_values().collect::<Vec<_>>(), [[first]]);
}

#[test]
fn kinds_have_the_names_of_kubectl() {
    let found = |text: &str| objects::parse(text).map(|(row, name)| (row.plural, name.to_owned()));
    let cases = [
        ("pod/a", "pods"),
        ("po/a", "pods"),
        ("Pods/a", "pods"),
        ("deploy/a", "deployments"),
        ("deployments.apps/a", "deployments"),
        ("job/a", "jobs"),
        ("no/a", "nodes"),
        ("rs/a", "replicasets"),
    ];
    for (text, plural) in cases {
        assert_eq!(found(text).unwrap(), (plural, "a".to_owned()), "{text}");
    }
    for (text, why) in [
        ("web", "write KIND/NAME"),
        ("/web", "write KIND/NAME"),
        ("pod/", "write KIND/NAME"),
        ("foo/a", "resource type \"foo\""),
    ] {
        let error = found(text).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

fn object(plural: &str, json: &Value) -> Obj {
    let bytes = Bytes::from(json.to_string());
    Object::from_json(resource("", "v1", plural).unwrap().ty, bytes).unwrap().obj().unwrap()
}

fn stage(spec: Value, status: Value, node: Option<Option<Value>>) -> Option<(&'static str, String, String)> {
    let pod = object(
        "pods",
        &json!({"metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec, "status": status}),
    );
    let node =
        node.map(|node| node.map(|status| object("nodes", &json!({"metadata": {"name": "n1"}, "status": status}))));
    let node = node.as_ref().map(|node| node.as_ref().and_then(Obj::view));
    let failed = |name: &str| (name == "volumes").then(|| "MountVolume.SetUp failed".to_owned());
    explain(pod.view().unwrap(), node, failed).map(|Stage { stage, since, why }| (stage, since, why))
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:05Z"})
}

fn bound(containers: Value, more: &[Value]) -> Value {
    let scheduled = [condition("PodScheduled", "True", "", "")];
    let conditions = [&scheduled[..], more].concat();
    json!({"phase": "Pending", "startTime": "2026-01-01T00:00:06Z", "containerStatuses": containers, "conditions": conditions})
}

#[test]
fn a_pod_that_is_not_ready_is_explained() {
    let (at, on) = ("2026-01-01T00:00:05Z".to_owned(), json!({"nodeName": "n1"}));
    let ready_node = || Some(Some(json!({"conditions": [condition("Ready", "True", "KubeletReady", "")]})));
    let waits = |reason: &str, message: &str| json!([{"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}]);
    let unschedulable =
        json!({"conditions": [condition("PodScheduled", "False", "Unschedulable", "0/2 nodes are available")]});
    assert_eq!(
        stage(json!({}), unschedulable, None),
        Some(("decide", at.clone(), "Unschedulable: 0/2 nodes are available".to_owned()))
    );
    let (name, since, why) = stage(json!({"schedulerName": "mine"}), json!({}), None).unwrap();
    assert_eq!(
        (name, since.as_str(), why.as_str()),
        ("queue", "2026-01-01T00:00:00Z", "scheduler \"mine\" has not decided yet")
    );
    let cases = [
        (
            bound(waits("ImagePullBackOff", "Back-off pulling image"), &[]),
            ready_node(),
            "pull",
            "main: ImagePullBackOff: Back-off",
        ),
        (bound(waits("CrashLoopBackOff", "back-off 10s"), &[]), ready_node(), "start", "CrashLoopBackOff"),
        (
            bound(waits("ContainerCreating", ""), &[condition("PodReadyToStartContainers", "False", "", "")]),
            ready_node(),
            "volumes",
            "MountVolume.SetUp failed",
        ),
        (
            bound(
                json!([{"name": "main", "started": true, "state": {"running": {"startedAt": "2026-01-01T00:00:07Z"}}}]),
                &[],
            ),
            ready_node(),
            "ready",
            "readiness probe",
        ),
        (
            bound(
                json!([{"name": "main", "started": false, "state": {"running": {"startedAt": "2026-01-01T00:00:07Z"}}}]),
                &[],
            ),
            ready_node(),
            "ready",
            "startup probe",
        ),
        (
            json!({"conditions": [condition("PodScheduled", "True", "", "")]}),
            ready_node(),
            "admit",
            "has not accepted the pod",
        ),
        (
            bound(json!([]), &[]),
            Some(Some(
                json!({"conditions": [condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")]}),
            )),
            "silent kubelet",
            "Kubelet stopped posting",
        ),
        (bound(json!([]), &[]), Some(None), "silent kubelet", "does not exist"),
        (
            json!({"phase": "Failed", "reason": "OutOfcpu", "message": "no room"}),
            ready_node(),
            "failed",
            "OutOfcpu: no room",
        ),
        (
            json!({"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}),
            ready_node(),
            "failed",
            "main ended with exit code 3",
        ),
    ];
    for (status, node, wanted, words) in cases {
        let (name, _, why) = stage(on.clone(), status.clone(), node).unwrap_or_else(|| panic!("{status}"));
        assert_eq!(name, wanted, "{status}");
        assert!(why.contains(words), "{why}");
    }
    let ready = bound(
        json!([{"name": "main", "ready": true, "state": {"running": {}}}]),
        &[condition("Ready", "True", "", "")],
    );
    assert_eq!(stage(on.clone(), ready.clone(), ready_node()), None);
    assert_eq!(stage(on, ready, None), None, "a user may not read Nodes");
}
