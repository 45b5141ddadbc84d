//! Tests of probes against real sockets, and of their tasks in virtual time.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::future::join;
use oarlock_client::decode;
use oarlock_runtime::{Universe, clock};
use oarlock_schema::{Obj, type_of_kind};
use oarlock_testkit::wait::STEP_TIMEOUT;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use super::check::Found;
use super::*;
use crate::downward;

fn pod(container: &Value) -> Obj {
    let mut container = container.clone();
    container["name"] = "main".into();
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [container]}});
    decode(type_of_kind("", "v1", "Pod").unwrap(), pod.to_string().as_bytes()).unwrap()
}

fn probes(container: &Value) -> Vec<Arc<Probe>> {
    of_container(downward::pod(&pod(container)).spec().containers().get(0).unwrap())
}

fn readiness(probe: &Value, ports: &Value) -> Arc<Probe> {
    probes(&json!({"readinessProbe": probe, "ports": ports})).remove(0)
}

const SECOND: Duration = Duration::from_secs(1);

/// A runtime whose commands end with a given result.
#[derive(Debug, Default)]
struct Scripted(Mutex<VecDeque<cri::Result<(i32, &'static str)>>>);

impl Scripted {
    fn of(ends: impl IntoIterator<Item = cri::Result<(i32, &'static str)>>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(ends.into_iter().collect())))
    }
}

#[async_trait::async_trait]
impl Exec for Scripted {
    async fn run_in(&self, _: &str, _: &[Str], _: Duration) -> cri::Result<ExecOutput> {
        let (exit_code, text) = self.0.lock().pop_front().unwrap_or(Ok((0, "")))?;
        Ok(ExecOutput { stdout: Bytes::from_static(text.as_bytes()), stderr: Bytes::from_static(b"!"), exit_code })
    }
}

/// Performs a check that has an answer.
async fn look(probe: &Probe) -> Found {
    look_for(STEP_TIMEOUT, probe).await
}

async fn look_for(time: Duration, probe: &Probe) -> Found {
    let ip = Some("127.0.0.1".parse().unwrap());
    probe.check.look("id", ip, time, &Scripted::default()).await
}

#[test]
fn a_probe_is_read_with_the_apis_defaults() {
    let read = probes(&json!({
        "startupProbe": {"exec": {"command": ["check", "$(MODE)"]}, "failureThreshold": 30, "periodSeconds": 2},
        "livenessProbe": {"tcpSocket": {"port": "web"}, "terminationGracePeriodSeconds": 7},
        "env": [{"name": "MODE", "value": "fast"}],
        "ports": [{"name": "web", "containerPort": 8080}],
    }));
    assert_eq!(read.len(), 2);
    assert_eq!(read[0].check, Check::Exec(vec!["check".into(), "fast".into()]));
    assert_eq!((read[0].failure_threshold, read[0].period), (30, 2 * SECOND));
    assert_eq!(read[1].check, Check::Tcp { host: String::new(), port: Ok(8080) });
    assert_eq!((read[1].kind, read[1].grace, read[1].period), (Kind::Liveness, Some(7), 10 * SECOND));
    assert_eq!((read[1].timeout, read[1].success_threshold, read[1].failure_threshold), (SECOND, 1, 3));
    assert_eq!(Kind::Liveness.killing("main"), "Container main failed liveness probe, will be restarted");
}

#[tokio::test]
async fn a_port_that_is_none_is_an_error_and_no_failure() {
    for (port, why) in [
        (json!("none"), "strconv.Atoi: parsing \"none\": invalid syntax"),
        (json!("70000"), "invalid port number: 70000"),
        (json!(0), "invalid port number: 0"),
    ] {
        let probe = readiness(&json!({"tcpSocket": {"port": port}}), &json!([]));
        assert_eq!(look(&probe).await, Found::Error("unknown", why.to_owned()), "{port}");
    }
    let http = readiness(&json!({"httpGet": {"port": "none"}}), &json!([]));
    assert!(matches!(look(&http).await, Found::Error("unknown", _)));
}

#[tokio::test]
async fn a_socket_that_takes_connections_is_well() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let probe = readiness(&json!({"tcpSocket": {"port": port}}), &json!([]));
    assert_eq!(look(&probe).await, Found::Success);
    drop(listener);
    let why = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(look(&probe).await, Found::Failure(why));
}

#[tokio::test]
async fn what_a_command_ends_with_is_its_verdict() {
    let probe = readiness(&json!({"exec": {"command": ["x"]}}), &json!([]));
    let ends = [
        Ok((0, "")),
        Ok((2, "sick")),
        Err(cri::Error::DeadlineExceeded("late".to_owned())),
        Err(cri::Error::Failed("no such file".to_owned())),
    ];
    let runtime = Scripted::of(ends);
    let mut found = Vec::new();
    for _ in 0..4 {
        found.push(probe.check.look("id", None, SECOND, &*runtime).await);
    }
    let want = [
        Found::Success,
        Found::Failure("sick!".to_owned()),
        Found::Failure("command timed out: late".to_owned()),
        Found::Error("unknown", "no such file".to_owned()),
    ];
    assert_eq!(found, want);
}

/// Answers each connection with the next text, and returns the requests.
async fn serve(listener: TcpListener, answers: Vec<String>) -> Vec<String> {
    let mut asked = Vec::new();
    for answer in answers {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).await.unwrap() == 0 {
                break;
            }
            request.push(byte[0]);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        asked.push(String::from_utf8(request).unwrap());
    }
    asked
}

fn answer(code: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {code} X\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

async fn http(probe: impl Fn(u16) -> Value, answers: impl Fn(u16) -> Vec<String>) -> (Found, Vec<String>, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let probe = readiness(&json!({"httpGet": probe(port)}), &json!([{"name": "web", "containerPort": port}]));
    let (found, asked) = join(look(&probe), serve(listener, answers(port))).await;
    (found, asked, port)
}

#[tokio::test]
async fn a_request_looks_as_upstreams_does() {
    let spec = |_| json!({"port": "web", "path": "health z?a=b#c", "httpHeaders": [{"name": "x-own", "value": "1"}]});
    let (found, asked, port) = http(spec, |_| vec![answer(200, "", "ok")]).await;
    assert_eq!(found, Found::Success);
    let want = format!(
        "GET /health%20z?a=b HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: kube-probe/1.35\r\nAccept: */*\r\n\
         X-Own: 1\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(asked, [want]);
    let own = |port| {
        json!({"port": port, "httpHeaders": [
            {"name": "Host", "value": "example.org"}, {"name": "accept", "value": ""}, {"name": "User-Agent", "value": "me"}]})
    };
    let (_, asked, _) = http(own, |_| vec![answer(200, "", "")]).await;
    assert_eq!(asked, ["GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: me\r\nConnection: close\r\n\r\n"]);
}

#[tokio::test]
async fn codes_of_answers_are_verdicts() {
    for (code, want) in [
        (204, Found::Success),
        (304, Found::Warning("Probe terminated redirects, Response body: ".to_owned())),
        (400, Found::Failure("HTTP probe failed with statuscode: 400".to_owned())),
        (503, Found::Failure("HTTP probe failed with statuscode: 503".to_owned())),
    ] {
        // Answers with 204 and 304 have no body.
        let body = if code < 400 { "" } else { "b" };
        let (found, ..) = http(|port| json!({"port": port}), |_| vec![answer(code, "", body)]).await;
        assert_eq!(found, want, "{code}");
    }
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_host_and_nowhere_else() {
    let to = |location: String| answer(302, &format!("Location: {location}\r\n"), "moved");
    let here = |port: u16| {
        vec![to(format!("http://127.0.0.1:{port}/b")), to("c".to_owned()), to("/d".to_owned()), answer(200, "", "")]
    };
    let (found, asked, _) = http(|port| json!({"port": port, "path": "/a"}), here).await;
    let lines: Vec<&str> = asked.iter().map(|asked| asked.lines().next().unwrap()).collect();
    assert_eq!(found, Found::Success);
    assert_eq!(lines, ["GET /a HTTP/1.1", "GET /b HTTP/1.1", "GET /c HTTP/1.1", "GET /d HTTP/1.1"]);
    let away = |_| vec![to("http://example.org/".to_owned())];
    let (found, ..) = http(|port| json!({"port": port}), away).await;
    assert_eq!(found, Found::Warning("Probe terminated redirects, Response body: moved".to_owned()));
    let round = |_| vec![to("/".to_owned()); 10];
    let (found, _, port) = http(|port| json!({"port": port}), round).await;
    assert_eq!(found, Found::Failure(format!("Get \"http://127.0.0.1:{port}/\": stopped after 10 redirects")));
}

#[tokio::test]
async fn a_server_that_does_not_answer_fails() {
    let (found, _, port) = http(|port| json!({"port": port}), |_| vec![String::new()]).await;
    assert_eq!(found, Found::Failure(format!("Get \"http://127.0.0.1:{port}/\": EOF")));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let probe = readiness(&json!({"httpGet": {"port": port, "path": "/x"}}), &json!([]));
    let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    assert_eq!(look_for(SECOND, &probe).await, Found::Failure(format!("Get \"http://127.0.0.1:{port}/x\": {why}")));
    drop(listener);
    let why = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(look(&probe).await, Found::Failure(format!("Get \"http://127.0.0.1:{port}/x\": {why}")));
}

#[tokio::test]
async fn certificates_that_nobody_vouches_for_are_taken() {
    let (certificate, key) = {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.der().clone(), rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()))
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate], key.into()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = tokio_rustls::TlsAcceptor::from(Arc::new(config)).accept(stream).await.unwrap();
        let mut request = [0; 1024];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream.write_all(answer(200, "", "ok").as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    };
    let probe = readiness(&json!({"httpGet": {"port": port, "scheme": "HTTPS"}}), &json!([]));
    let (found, ()) = join(look(&probe), server).await;
    assert_eq!(found, Found::Success);
    let plain = |port| json!({"port": port, "scheme": "HTTPS"});
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let probe = readiness(&json!({"httpGet": plain(port)}), &json!([]));
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut hello = [0; 64];
        assert!(stream.read(&mut hello).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        // Waits until the client has read the answer.
        let _ = stream.read(&mut hello).await;
    };
    let (found, ()) = join(look(&probe), server).await;
    let why = format!("Get \"https://127.0.0.1:{port}/\": http: server gave HTTP response to HTTPS client");
    assert_eq!(found, Found::Failure(why));
}

/// Answers one health call: with the bytes of a message, or with a status in trailers only.
async fn health(listener: TcpListener, reply: Result<u8, (u32, &'static str)>) -> Vec<u8> {
    let (stream, _) = listener.accept().await.unwrap();
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let (request, mut respond) = connection.accept().await.unwrap().unwrap();
    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
    assert_eq!(request.headers()["content-type"], "application/grpc");
    let mut body = request.into_body();
    let work = async {
        let mut asked = Vec::new();
        while let Some(part) = body.data().await {
            asked.extend_from_slice(&part.unwrap());
        }
        let head = ::http::Response::builder().header("content-type", "application/grpc");
        match reply {
            Ok(status) => {
                let mut stream = respond.send_response(head.body(()).unwrap(), false).unwrap();
                stream.send_data(Bytes::from(vec![0, 0, 0, 0, 2, 8, status]), false).unwrap();
                let mut trailers = ::http::HeaderMap::new();
                trailers.insert("grpc-status", "0".parse().unwrap());
                stream.send_trailers(trailers).unwrap();
            }
            Err((code, message)) => {
                let head = head.header("grpc-status", code).header("grpc-message", message);
                respond.send_response(head.body(()).unwrap(), true).unwrap();
            }
        }
        asked
    };
    let (asked, _) = join(work, async { while let Some(Ok(_)) = connection.accept().await {} }).await;
    asked
}

#[tokio::test]
async fn a_grpc_server_says_itself_how_it_is() {
    for (reply, want) in [
        (Ok(1), Found::Success),
        (Ok(2), Found::Failure("service unhealthy (responded with \"NOT_SERVING\")".to_owned())),
        (
            Err((12, "unknown%20service")),
            Found::Failure(
                "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service"
                    .to_owned(),
            ),
        ),
        (
            Err((5, "no such")),
            Found::Failure("error: health rpc probe failed: rpc error: code = NotFound desc = no such".to_owned()),
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let probe = readiness(&json!({"grpc": {"port": port, "service": "db"}}), &json!([]));
        let (found, asked) = join(look(&probe), health(listener, reply)).await;
        assert_eq!(found, want);
        assert_eq!(asked, b"\0\0\0\0\x04\x0a\x02db");
    }
}

/// Answers one health call with an HTTP status and nothing else, or closes the connection after reading the call's head.
async fn no_grpc(listener: TcpListener, status: Option<u16>) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let (request, mut respond) = connection.accept().await.unwrap().unwrap();
    assert!(request.headers()["user-agent"].to_str().unwrap().starts_with("kube-probe/1.35 "));
    let Some(status) = status else { return };
    let head = ::http::Response::builder().status(status).header("content-type", "text/html");
    respond.send_response(head.body(()).unwrap(), true).unwrap();
    while let Some(Ok(_)) = connection.accept().await {}
}

#[tokio::test]
async fn what_is_no_grpc_server_is_unhealthy_in_upstreams_words() {
    for (status, want) in [
        (
            Some(404),
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): \
             unexpected HTTP status code received from server: 404 (Not Found)",
        ),
        (
            Some(503),
            "error: health rpc probe failed: rpc error: code = Unavailable desc = \
             unexpected HTTP status code received from server: 503 (Service Unavailable)",
        ),
        (None, "error: health rpc probe failed: rpc error: code = Unavailable desc = "),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let probe = readiness(&json!({"grpc": {"port": port}}), &json!([]));
        let (found, ()) = join(look(&probe), no_grpc(listener, status)).await;
        let Found::Failure(why) = found else { panic!("{status:?}: {found:?}") };
        assert!(if status.is_some() { why == want } else { why.starts_with(want) }, "{status:?}: {why}");
    }
}

#[tokio::test]
async fn a_grpc_server_that_is_not_there_or_silent_runs_into_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let probe = readiness(&json!({"grpc": {"port": port}}), &json!([]));
    assert_eq!(
        look_for(SECOND, &probe).await,
        Found::Failure("timeout: health rpc did not complete within 1s".to_owned())
    );
    drop(listener);
    let why = format!("timeout: failed to connect service \"127.0.0.1:{port}\" within 1s: context deadline exceeded");
    assert_eq!(look_for(SECOND, &probe).await, Found::Failure(why));
}

/// A probe task in virtual time: its reports with their seconds, and its events.
struct Bench {
    gate: watch::Sender<Gate>,
    reports: mpsc::Receiver<Report>,
    told: Arc<Mutex<Vec<String>>>,
    began: oarlock_runtime::Instant,
}

fn begin(
    probe: &Value,
    kind: &str,
    ends: Vec<cri::Result<(i32, &'static str)>>,
    age: u64,
) -> (Bench, impl Future<Output = ()> + use<>) {
    let mut probe = probe.clone();
    probe["exec"] = json!({"command": ["x"]});
    let probe = probes(&json!({kind: probe})).remove(0);
    let (gate, seen) = watch::channel(Gate::default());
    let (send, reports) = mpsc::channel(16);
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = told.clone();
    let subject = Subject { pod: "u1".into(), index: 0, id: "c1".into(), started: clock::wall().as_second(), ip: None };
    let prober = Prober {
        subject,
        runtime: Scripted::of(ends),
        tell: Arc::new(move |reason, message| into.lock().push(format!("{reason}: {message}"))),
        gate: seen,
        reports: send,
        age: Duration::from_secs(age),
    };
    (Bench { gate, reports, told, began: clock::now() }, run(prober, probe))
}

impl Bench {
    async fn next(&mut self) -> Option<(u64, Verdict)> {
        let report = self.reports.recv().await?;
        Some((self.began.elapsed().as_secs(), report.verdict))
    }
}

fn sweep<F: Future<Output = ()>>(test: impl Fn() -> F) {
    Universe::sweep(0..2, test);
}

#[test]
fn a_ready_container_was_asked_once_it_had_started_and_then_each_period() {
    sweep(|| async {
        let ends = vec![Ok((1, "no")), Ok((0, "")), Ok((1, "a")), Ok((1, "b")), Ok((1, "c"))];
        let (mut bench, task) = begin(&json!({"periodSeconds": 10}), "readinessProbe", ends, 3600);
        let steps = async {
            assert_eq!(bench.next().await, Some((0, Verdict::Failure)), "not ready until asked");
            clock::sleep(Duration::from_secs(13)).await;
            bench.gate.send_replace(Gate { started: true, stopping: false });
            assert_eq!(bench.next().await, Some((23, Verdict::Success)), "asked at 13 and 23");
            assert_eq!(bench.next().await, Some((53, Verdict::Failure)), "the third in a row");
            assert_eq!(bench.told.lock()[0], "Unhealthy: Readiness probe failed: no!");
            drop(bench.gate);
            assert!(bench.reports.recv().await.is_none_or(|report| report.verdict == Verdict::Success));
        };
        join(steps, task).await;
    });
}

#[test]
fn a_startup_probe_ends_with_the_first_verdict_and_a_liveness_probe_with_a_failure() {
    sweep(|| async {
        let spec = json!({"periodSeconds": 1, "failureThreshold": 2, "initialDelaySeconds": 3});
        let (mut bench, task) = begin(&spec, "startupProbe", vec![Ok((1, "")), Ok((0, ""))], 3600);
        let steps = async {
            assert_eq!(bench.next().await, Some((0, Verdict::Unknown)));
            assert_eq!(bench.next().await, Some((4, Verdict::Success)));
            assert!(clock::timeout(Duration::from_secs(60), bench.reports.recv()).await.is_err(), "nothing more");
            bench.gate.send_replace(Gate { started: true, stopping: true });
            assert!(clock::timeout(Duration::from_secs(60), bench.reports.recv()).await.is_err(), "on hold");
            drop(bench.gate);
        };
        join(steps, task).await;
        let (mut bench, task) = begin(&spec, "livenessProbe", vec![Ok((0, "")), Ok((1, "")), Ok((1, ""))], 3600);
        bench.gate.send_replace(Gate { started: true, stopping: false });
        let steps = async {
            assert_eq!(bench.next().await, Some((0, Verdict::Success)));
            assert_eq!(bench.next().await, Some((3, Verdict::Success)));
            assert_eq!(bench.next().await, Some((5, Verdict::Failure)));
            drop(bench.gate);
        };
        join(steps, task).await;
    });
}

#[test]
fn the_liveness_of_a_pod_that_is_deleted_is_well_and_over() {
    sweep(|| async {
        let (mut bench, task) = begin(&json!({"periodSeconds": 5}), "livenessProbe", Vec::new(), 3600);
        bench.gate.send_replace(Gate { started: true, stopping: false });
        let steps = async {
            assert_eq!(bench.next().await, Some((0, Verdict::Success)));
            assert_eq!(bench.next().await, Some((0, Verdict::Success)));
            bench.gate.send_replace(Gate { started: true, stopping: true });
            assert_eq!(bench.next().await, Some((0, Verdict::Success)));
            assert_eq!(bench.reports.recv().await, None, "its task has ended");
        };
        join(steps, task).await;
    });
}

#[test]
fn what_finds_nothing_out_is_tried_three_times_and_changes_nothing() {
    sweep(|| async {
        let error = || Err(cri::Error::Failed("broken".to_owned()));
        let ends = vec![error(), error(), error(), error(), error(), Ok((0, ""))];
        let (mut bench, task) = begin(&json!({"periodSeconds": 1}), "readinessProbe", ends, 3600);
        bench.gate.send_replace(Gate { started: true, stopping: false });
        let steps = async {
            assert_eq!(bench.next().await, Some((0, Verdict::Failure)));
            assert_eq!(bench.next().await, Some((1, Verdict::Success)), "the second look's third attempt");
            let want = "Unhealthy: Readiness probe errored and resulted in unknown state: broken";
            assert_eq!(*bench.told.lock(), [want]);
            drop(bench.gate);
        };
        join(steps, task).await;
    });
}

#[test]
fn a_young_kubelet_spreads_its_first_looks_and_keeps_what_is_known() {
    sweep(|| async {
        let (mut bench, task) = begin(&json!({"periodSeconds": 100}), "readinessProbe", Vec::new(), 0);
        bench.gate.send_replace(Gate { started: true, stopping: false });
        let steps = async {
            assert_eq!(bench.next().await, Some((0, Verdict::Failure)), "this container is as young");
            let (at, verdict) = bench.next().await.unwrap();
            assert!(at < 100 && verdict == Verdict::Success, "{at}");
            drop(bench.gate);
        };
        join(steps, task).await;
    });
}
