//! Traces of requests, as a collector outside receives them from a whole program.

use std::process::Command;
use std::time::Duration;

use oarlock_config::{DataDir, Kubeconfig};
use oarlock_runtime::clock;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::otlp::{Answer, Collector, Span};
use oarlock_testkit::wait::eventually;
use oarlock_testkit::{Cluster, Etcd, Process, oarlock, port, skipped};
use prost::Message as _;
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::runtime::Runtime;

/// OTLP's number of the kind of a span of a call to another server.
const CLIENT: i32 = 3;

/// A collector with the runtime of its tasks, and the file that names it.
struct Bed {
    runtime: Runtime,
    collector: Collector,
    file: NamedTempFile,
}

impl Bed {
    /// `per_million`: how many of the requests without a trusted parent are traced.
    fn new(per_million: u32) -> Self {
        let runtime = Runtime::new().unwrap();
        let collector = runtime.block_on(Collector::start(Answer::Accept));
        let file = NamedTempFile::new().unwrap();
        let content = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: {}\nsamplingRatePerMillion: {per_million}\n",
            collector.address
        );
        std::fs::write(file.path(), content).unwrap();
        Self { runtime, collector, file }
    }

    fn cluster(&self, flags: &[&str]) -> Cluster {
        let only = ["--disable", "scheduler,controller-manager,kubelet", "--tracing-config-file"];
        // By default a span waits 5 s for others.
        let at_once = [("OTEL_BSP_SCHEDULE_DELAY", "1")];
        Cluster::with_variables(&at_once, &[&only, [self.file.path().to_str().unwrap()].as_slice(), flags].concat())
    }

    fn span(&self, what: &str, fits: impl Fn(&Span) -> bool) -> Span {
        self.runtime.block_on(self.collector.span(what, fits))
    }
}

fn text(span: &Span, key: &str) -> Option<String> {
    oarlock_testkit::otlp::text(&span.attributes, key)
}

/// A context of this trace, sampled.
fn traceparent(trace: u8) -> String {
    format!("00-{trace:032x}-00000000000000aa-01")
}

fn is_of(trace: u8) -> impl Fn(&Span) -> bool {
    move |span| span.trace_id == u128::from(trace).to_be_bytes()
}

fn get(http: &Http, path: &str, trace: u8) -> u16 {
    http.send("GET", path, &[("traceparent", &traceparent(trace))], b"").code
}

#[test]
fn the_context_of_an_administrator_counts_and_that_of_a_stranger_does_not() {
    let bed = Bed::new(0);
    let cluster = bed.cluster(&["--ephemeral"]);
    let (stranger, admin) = (cluster.http(Who::Anonymous), cluster.http(Who::Admin));
    for _ in 0..20 {
        assert_eq!(get(&stranger, "/version", 1), 200);
        assert_eq!(get(&stranger, "/api/v1/secrets", 1), 403);
    }
    assert_eq!(get(&admin, "/api/v1/namespaces/default", 2), 200);
    // Spans are sent in the order in which they ended.
    let span = bed.span("the administrator's request", is_of(2));
    assert_eq!(span.name, "GET /api/v1/namespaces/{name}");
    assert_eq!(span.parent_span_id, [0, 0, 0, 0, 0, 0, 0, 0xaa]);
    assert_eq!(text(&span, "k8s.namespace.name").as_deref(), Some("default"));
    let all = bed.collector.spans();
    let of_strangers =
        all.iter().filter(|span| is_of(1)(span) || span.links.iter().any(|link| link.trace_id.ends_with(&[1])));
    assert_eq!(of_strangers.count(), 0, "nothing that a stranger sampled is exported");
}

#[test]
fn a_request_of_a_stranger_is_a_root_that_links_to_the_strangers_span() {
    let bed = Bed::new(1_000_000);
    let cluster = bed.cluster(&["--ephemeral"]);
    assert_eq!(get(&cluster.http(Who::Anonymous), "/version", 1), 200);
    let linked = |span: &Span| span.links.iter().any(|link| link.trace_id == 1_u128.to_be_bytes());
    let span = bed.span("the stranger's request", linked);
    assert!(span.parent_span_id.is_empty() && !is_of(1)(&span));
    let repeated = oarlock_testkit::otlp::texts(&span.attributes, "oarlock.link.request");
    assert_eq!(repeated, [format!("{:032x}-00000000000000aa", 1)]);
}

#[test]
fn no_span_label_or_line_of_the_log_holds_a_body_a_token_or_a_query() {
    let bed = Bed::new(1_000_000);
    let cluster = bed.cluster(&["--ephemeral", "--log", "debug"]);
    let admin = cluster.http(Who::Admin);
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "marked", "annotations": {"note": "hidden-marker"}},
        "stringData": {"key": "hidden-marker"},
    });
    assert_eq!(admin.json("POST", "/api/v1/namespaces/default/secrets", &secret).code, 201);
    let queries =
        ["/version?hidden-marker", "/api/v1/namespaces/default/pods/p/exec?command=hidden-marker", "/hidden-marker"];
    for query in queries {
        let _answer = admin.get(query);
    }
    let headers =
        [("authorization", "Bearer hidden-marker"), ("user-agent", "hidden-marker"), ("traceparent", "hidden-marker")];
    assert_eq!(cluster.http(Who::Anonymous).send("GET", "/api/v1/pods", &headers, b"").code, 401);
    assert_eq!(get(&admin, "/api", 9), 200);
    bed.span("the last request", is_of(9));
    let post = bed.span("the secret's request", |span| span.name == "POST /api/v1/namespaces/{namespace}/secrets");
    assert_eq!(text(&post, "k8s.namespace.name").as_deref(), Some("default"));
    let (metrics, log) = (admin.get("/metrics").text(), cluster.said_in_log());
    assert!(metrics.contains("apiserver_request_total{") && !metrics.contains("hidden-marker"), "{metrics}");
    assert!(log.contains("DEBUG") && !log.contains("hidden-marker"), "{log}");
    // A span for each export would be exported itself. Nothing else here calls another server.
    let calls = bed.collector.spans().into_iter().filter(|span| span.kind == CLIENT);
    assert_eq!(calls.map(|span| span.name).collect::<Vec<_>>(), [""; 0]);
    for (_, request) in bed.collector.requests() {
        let shown = format!("{request:?}");
        assert!(
            !shown.contains("hidden-marker")
                && !request.encode_to_vec().windows(13).any(|part| part == b"hidden-marker"),
            "{shown}"
        );
    }
}

#[test]
fn a_write_over_etcd_has_its_transaction_as_a_child() {
    let etcd = match Etcd::start(1) {
        Ok(etcd) => etcd,
        Err(why) => return skipped!("no etcd: {why}"),
    };
    let bed = Bed::new(0);
    let servers = etcd.endpoints().join(",");
    let cluster = bed.cluster(&["--etcd-servers", &servers]);
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "traced"}}).to_string();
    let headers = [("traceparent", traceparent(3)), ("content-type", "application/json".to_owned())];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(cluster.http(Who::Admin).send("POST", "/api/v1/namespaces", &headers, body.as_bytes()).code, 201);
    let request = bed.span("the request", |span| is_of(3)(span) && span.name == "POST /api/v1/namespaces");
    let call = bed.span("the transaction", |span| is_of(3)(span) && span.name == "etcdserverpb.KV/Txn");
    assert_eq!(call.parent_span_id, request.span_id);
    assert_eq!(text(&call, "db.system.name").as_deref(), Some("etcd"));
    assert_eq!(text(&call, "server.address").as_deref(), Some("127.0.0.1"));
    assert!(
        request.start_time_unix_nano <= call.start_time_unix_nano
            && call.end_time_unix_nano <= request.end_time_unix_nano
    );
}

#[test]
fn a_process_does_not_wait_for_a_collector_that_never_answers() {
    // A process that waited would do so for the ten seconds that a collector has for a request. The two seconds of the flush are shown in virtual time (`actors/exporter`).
    let took: Vec<Duration> = (0..3).map(|_| end_with_a_hanging_collector()).collect();
    assert!(took.iter().any(|took| *took < Duration::from_secs(10)), "{took:?}");
}

/// Returns how long a process takes from SIGTERM to its end while the collector has a request without an answer, and further spans wait.
fn end_with_a_hanging_collector() -> Duration {
    let bed = Bed::new(1_000_000);
    bed.collector.answer(Answer::Hang);
    let mut cluster = bed.cluster(&["--ephemeral"]);
    let admin = cluster.http(Who::Admin);
    assert_eq!(get(&admin, "/version", 1), 200);
    bed.runtime.block_on(bed.collector.seen(1));
    for _ in 0..20 {
        assert_eq!(get(&admin, "/version", 2), 200);
    }
    let began = clock::now();
    assert_eq!(cluster.stop(), Some(0), "{}", cluster.log_tail());
    began.elapsed()
}

#[test]
fn the_flag_for_the_state_turns_the_recording_off_and_on() {
    for (state, recording) in [("off", false), ("ring", true)] {
        let only = ["--disable", "scheduler,controller-manager,kubelet", "--ephemeral", "--tracing", state];
        let cluster = Cluster::up(&only);
        let answer = cluster.http(Who::Admin).get(&format!("/debug/traces?trace={:032x}", 1));
        assert_eq!(answer.json()["members"][0]["recording"], recording, "{answer}");
    }
}

#[test]
fn an_error_in_the_file_ends_the_program_with_its_field() {
    let file = NamedTempFile::new().unwrap();
    let content =
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 1000001\n";
    std::fs::write(file.path(), content).unwrap();
    for command in ["up", "apiserver"] {
        let folder = tempfile::tempdir().unwrap();
        let mut program = Command::new(oarlock());
        program.args([command, "--data-dir"]).arg(folder.path()).arg("--tracing-config-file").arg(file.path());
        let ran = program.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{command}: {said}");
        let expected =
            format!("{}: samplingRatePerMillion: 1000001 must be at most one million", file.path().display());
        assert!(said.contains(&expected), "{command}: {said}");
    }
}

#[test]
fn variables_without_effect_are_warned_about_and_a_dead_collector_delays_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let port = port::own();
    let mut program = Command::new(oarlock());
    program
        .args(["apiserver", "--store", "memory", "--secure-port", &port.to_string(), "--data-dir"])
        .arg(folder.path());
    // Nobody listens there.
    program.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://127.0.0.1:{}", port::own()));
    program.env("OTEL_PROPAGATORS", "hidden-marker");
    // The library knows this word, and would refuse to start without the feature for it.
    program.env("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd");
    let server = Process::start(program, "apiserver");
    eventually("the warning", || {
        let log = server.said();
        let warned = ["OTEL_PROPAGATORS", "OTEL_EXPORTER_OTLP_COMPRESSION"];
        if warned.iter().all(|name| log.contains(&format!("{name} has no effect"))) { Ok(()) } else { Err(log) }
    });
    assert!(!server.said().contains("hidden-marker"));
    let kubeconfig = DataDir::new(folder.path()).kubeconfig();
    let admin = eventually("its kubeconfig", || Kubeconfig::read(&kubeconfig).and_then(|file| file.resolve(None)));
    let admin = Http::new(&admin, Who::Admin);
    eventually("it answers", || match admin.try_get("/readyz") {
        Ok(answer) if answer.code == 200 => Ok(()),
        Ok(answer) => Err(answer.to_string()),
        Err(error) => Err(error.to_string()),
    });
    eventually("a lost batch is counted", || {
        let metrics = admin.get("/metrics").text();
        let counted = metrics.lines().any(|line| line.starts_with("oarlock_spans_dropped_total{reason=\"failed\"} "));
        if counted { Ok(()) } else { Err("nothing dropped yet") }
    });
}
