//! Tests of the HTTPS transport against a server that misbehaves on purpose.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use oarlock_client::https::{Auth, TokioSpawn};
use oarlock_client::{Client, DeleteOptions, Endpoint, Event, Https, ListOptions};
use oarlock_meta::Revision;
use oarlock_pki::{Pki, ServingNames, UnixTime, tls};
use oarlock_schema::{Obj, Resource, resource};
use oarlock_telemetry::traces::{self, traceparent};
use oarlock_testkit::wait::STEP_TIMEOUT;
use tokio::sync::{Notify, mpsc};

type Body = UnsyncBoxBody<Bytes, std::io::Error>;
type Answer = Result<Response<Body>, h2::Error>;
type Handler = Arc<dyn Fn(usize, Request<Incoming>) -> BoxFuture<'static, Answer> + Send + Sync>;

struct Server {
    address: String,
    hits: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    goaway: Arc<Notify>,
    /// Whether `/readyz` reports ready.
    ready: Arc<AtomicBool>,
    /// Whether the server accepts connections without ever answering.
    silent: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn pki() -> Pki {
    let names = ServingNames { addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)], ..ServingNames::default() };
    Pki::ephemeral(&names, UnixTime::now()).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a test server without a runtime")]
async fn serve(pki: &Pki, handler: Handler) -> Server {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let tls = tls::server_config(tls::ServingCertificate::new(&pki.serving).unwrap(), None).unwrap();
    let tls = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let (hits, connections, goaway) =
        (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
    let ready = Arc::new(AtomicBool::new(true));
    let silent = Arc::<AtomicBool>::default();
    let (counted, accepted, going, said) = (hits.clone(), connections.clone(), goaway.clone(), ready.clone());
    let mute = silent.clone();
    let task = tokio::spawn(async move {
        let mut all = tokio::task::JoinSet::new();
        let mut unheard = Vec::new();
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            accepted.fetch_add(1, Ordering::SeqCst);
            if mute.load(Ordering::SeqCst) {
                unheard.push(tcp);
                continue;
            }
            let (tls, handler, hits, going) = (tls.clone(), handler.clone(), counted.clone(), going.clone());
            let said = said.clone();
            all.spawn(async move {
                let Ok(tls) = tls.accept(tcp).await else { return };
                let service =
                    hyper::service::service_fn(move |request: Request<Incoming>| -> BoxFuture<'static, Answer> {
                        if request.uri().path() == "/readyz" {
                            let code = if said.load(Ordering::SeqCst) { 200 } else { 500 };
                            return Box::pin(async move { json(code, "") });
                        }
                        handler(hits.fetch_add(1, Ordering::SeqCst), request)
                    });
                let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(tls), service);
                let mut serving = std::pin::pin!(serving);
                tokio::select! {
                    biased;
                    () = going.notified() => serving.as_mut().graceful_shutdown(),
                    _ = serving.as_mut() => return,
                }
                let _ = serving.await;
            });
        }
    });
    Server { address, hits, connections, goaway, ready, silent, task }
}

fn handler<F>(handle: impl Fn(usize, Request<Incoming>) -> F + Send + Sync + 'static) -> Handler
where
    F: Future<Output = Answer> + Send + 'static,
{
    Arc::new(move |hit, request| Box::pin(handle(hit, request)))
}

fn client(pki: &Pki, servers: &[&Server]) -> Client {
    client_at(pki, servers.iter().map(|server| server.address.clone()).collect())
}

fn client_at(pki: &Pki, servers: Vec<String>) -> Client {
    let trust = tls::ServerTrust::Authorities(vec![pki.ca.certificate().clone()]);
    let endpoint = Endpoint {
        servers,
        tls: Arc::new(tls::client_config(trust, None).unwrap()),
        server_name: None,
        auth: Auth::None,
        impersonate: None,
        user_agent: "test/1".to_owned(),
    };
    Client::new(Arc::new(Https::new(endpoint, Arc::new(TokioSpawn)).unwrap())).with_timeout(STEP_TIMEOUT)
}

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

fn json(code: u16, text: &'static str) -> Answer {
    Ok(Response::builder().status(code).body(full(text)).unwrap())
}

const CM: &str =
    r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"d","resourceVersion":"7"}}"#;

fn configmaps() -> &'static Resource {
    resource("", "v1", "configmaps").unwrap()
}

fn configmap() -> Obj {
    oarlock_client::decode(configmaps().ty, CM.as_bytes()).unwrap()
}

#[tokio::test]
async fn a_refused_write_is_repeated_when_the_server_says_when() {
    let pki = pki();
    let server = serve(
        &pki,
        handler(|hit, _| async move {
            let again =
                |code: u16| Ok(Response::builder().status(code).header("retry-after", "0").body(full("busy")).unwrap());
            match hit {
                0 => again(429),
                1 => again(503),
                2 => Err(h2::Error::from(h2::Reason::REFUSED_STREAM)),
                _ => json(201, CM),
            }
        }),
    )
    .await;
    let created = client(&pki, &[&server]).create(configmaps(), configmap()).await.unwrap();
    assert_eq!((created.revision, server.hits.load(Ordering::SeqCst)), (Revision(7), 4));
}

#[tokio::test]
async fn a_call_names_the_span_that_causes_it() {
    const SPAN: &str = "00-0000000000000000000000000000feed-0000000000000001-01";
    let pki = pki();
    let server = serve(
        &pki,
        handler(|hit, request| async move {
            let named = request.headers().get(traceparent::HEADER).map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(named.as_deref(), [None, Some(SPAN), None][hit]);
            json(200, CM)
        }),
    )
    .await;
    let client = client(&pki, &[&server]);
    client.get(configmaps(), "default", "a").await.unwrap();
    let call = client.get(configmaps(), "default", "a");
    traces::within(traceparent::parse(SPAN), call).await.unwrap();
    let unsampled = SPAN.replace("-01", "-00");
    let call = client.get(configmaps(), "default", "a");
    traces::within(traceparent::parse(&unsampled), call).await.unwrap();
    assert_eq!(server.hits.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_write_is_not_repeated_when_its_outcome_is_unknown_and_a_read_is() {
    let pki = pki();
    let server = serve(
        &pki,
        handler(|hit, request| async move {
            if request.method() == http::Method::GET && hit > 2 {
                return json(200, CM);
            }
            Err(h2::Error::from(h2::Reason::INTERNAL_ERROR))
        }),
    )
    .await;
    let client = client(&pki, &[&server]);
    let status = client.create(configmaps(), configmap()).await.unwrap_err();
    assert!(status.is_timeout() && status.message.contains("unknown"), "{status:?}");
    assert_eq!(server.hits.load(Ordering::SeqCst), 1);
    client.get(configmaps(), "d", "a").await.unwrap();
    assert_eq!(server.hits.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn a_bare_503_ends_a_write_and_not_a_read() {
    let pki = pki();
    let server =
        serve(&pki, handler(|hit, _| async move { if hit < 3 { json(503, "proxy") } else { json(200, CM) } })).await;
    let client = client(&pki, &[&server]);
    let status = client.delete(configmaps(), "d", "a", DeleteOptions::default()).await.unwrap_err();
    assert!(status.is_service_unavailable() && status.code == 503, "{status:?}");
    client.get(configmaps(), "d", "a").await.unwrap();
    assert_eq!(server.hits.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn a_goaway_costs_no_call_and_lets_open_watches_run() {
    let pki = pki();
    let (events, queue) = mpsc::channel::<Result<Frame<Bytes>, std::io::Error>>(8);
    let queue = parking_lot::Mutex::new(Some(queue));
    let server = serve(
        &pki,
        handler(move |_, request| {
            let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let queue = if watch { queue.lock().take() } else { None };
            async move {
                let Some(mut queue) = queue else { return json(200, CM) };
                let stream = futures::stream::poll_fn(move |context| queue.poll_recv(context));
                Ok(Response::new(StreamBody::new(stream).boxed_unsync()))
            }
        }),
    )
    .await;
    let client = client(&pki, &[&server]);
    let mut watch = client.watch(configmaps(), "", ListOptions::default()).await.unwrap();
    for round in 0..5 {
        client.get(configmaps(), "d", "a").await.unwrap();
        server.goaway.notify_one();
        let line = format!("{{\"type\":\"ADDED\",\"object\":{CM}}}\n");
        if round == 0 {
            events.send(Ok(Frame::data(line.into()))).await.unwrap();
            assert!(matches!(watch.next().await.unwrap()[..], [Event::Added(_)]));
        }
    }
    assert!(server.connections.load(Ordering::SeqCst) > 1, "goaway was not sent");
    drop(events);
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn the_deadline_says_whether_the_outcome_is_known() {
    let pki = pki();
    let answer_once = |hit, _| async move { if hit == 0 { json(200, CM) } else { std::future::pending().await } };
    let server = serve(&pki, handler(answer_once)).await;
    let client = client(&pki, &[&server]);
    // Connecting may take long on a busy machine; an unsent request has a known outcome, so the client retries.
    client.get(configmaps(), "d", "a").await.unwrap();
    let client = client.with_timeout(Duration::from_millis(300));
    let read = client.get(configmaps(), "d", "a").await.unwrap_err();
    assert!(read.is_timeout() && !read.message.contains("unknown"), "{read:?}");
    let write = client.update(configmaps(), configmap()).await.unwrap_err();
    assert!(write.is_timeout() && write.message.contains("unknown"), "{write:?}");
}

#[tokio::test]
async fn a_slow_watcher_stops_the_server_and_loses_nothing() {
    const EVENTS: usize = 20_000;
    let pki = pki();
    let sent = Arc::<AtomicUsize>::default();
    let counter = sent.clone();
    let server = serve(
        &pki,
        handler(move |_, _| {
            let counter = counter.clone();
            async move {
                let stream = futures::stream::iter(0..EVENTS).map_lines(counter);
                Ok(Response::new(StreamBody::new(stream).boxed_unsync()))
            }
        }),
    )
    .await;
    let client = client(&pki, &[&server]);
    let mut watch = client.watch(configmaps(), "", ListOptions::default()).await.unwrap();
    // The server sends until the window is full and then stops: its count settles far from the end.
    let (mut before, mut still) = (0, 0);
    while still < 20 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let now = sent.load(Ordering::SeqCst);
        still = if now == before && now > 0 { still + 1 } else { 0 };
        before = now;
    }
    assert!(before < EVENTS / 2, "{before} events were sent ahead");
    let mut next = 0;
    while let Some(batch) = watch.next().await {
        for event in batch {
            let Event::Modified(object) = event else { panic!("{event:?}") };
            assert_eq!(object.revision, Revision(next + 1));
            next += 1;
        }
    }
    assert_eq!(next, EVENTS as u64);
}

trait MapLines {
    fn map_lines(
        self,
        sent: Arc<AtomicUsize>,
    ) -> impl futures::Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send;
}

impl<S: futures::Stream<Item = usize> + Send> MapLines for S {
    fn map_lines(
        self,
        sent: Arc<AtomicUsize>,
    ) -> impl futures::Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send {
        use futures::StreamExt as _;
        self.map(move |n| {
            sent.fetch_add(1, Ordering::SeqCst);
            let revision = n + 1;
            let line = format!(
                "{{\"type\":\"MODIFIED\",\"object\":{{\"metadata\":{{\"name\":\"a\",\"resourceVersion\":\"{revision}\"}},\"data\":{{\"k\":\"{:0>200}\"}}}}}}\n",
                n
            );
            Ok(Frame::data(line.into()))
        })
    }
}

#[tokio::test]
async fn a_watch_that_is_cut_off_says_so_and_one_that_ends_does_not() {
    use futures::StreamExt as _;
    const EXPIRED: &[u8] = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"old","code":410}}"#;
    let pki = pki();
    let cut = Arc::<Notify>::default();
    let when = cut.clone();
    let answer = handler(move |hit, _| {
        let when = when.clone();
        async move {
            let whole = Ok(Frame::data(format!("{{\"type\":\"DELETED\",\"object\":{CM}}}\n").into()));
            let half = Ok(Frame::data(Bytes::from_static(b"{\"type\":\"ADD")));
            let expired = Ok(Frame::data([EXPIRED, b"\n{\"type\":\"ADDED\",\"object\":{}}\n"].concat().into()));
            let first = match hit {
                0 => vec![whole],
                3 => vec![expired],
                _ => vec![whole, half],
            };
            let last = futures::stream::once(async move {
                when.notified().await;
                Err(std::io::Error::other("cut"))
            });
            let last = if hit == 2 { last.left_stream() } else { futures::stream::empty().right_stream() };
            Ok(Response::new(StreamBody::new(futures::stream::iter(first).chain(last)).boxed_unsync()))
        }
    });
    let server = serve(&pki, answer).await;
    let client = client(&pki, &[&server]);
    for hit in 0..4 {
        let mut watch = client.watch(configmaps(), "", ListOptions::default()).await.unwrap();
        let mut events = Vec::new();
        while let Some(batch) = watch.next().await {
            events.extend(batch);
            if hit == 2 {
                cut.notify_one();
            }
        }
        assert!(watch.next().await.is_none());
        match (hit, &events[..]) {
            (0, [Event::Deleted(_)]) => {}
            (1 | 2, [Event::Deleted(_), Event::Error(status)]) => {
                assert!(status.is_service_unavailable(), "{status:?}")
            }
            (3, [Event::Error(status)]) => assert!(status.is_expired(), "{status:?}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn calls_go_to_all_servers_and_round_the_one_that_died() {
    let pki = pki();
    let ok = || handler(|_, _| async { json(200, CM) });
    let (first, second) = (serve(&pki, ok()).await, serve(&pki, ok()).await);
    let client = client(&pki, &[&first, &second]);
    let hits = |server: &Server| server.hits.load(Ordering::SeqCst);
    reach_all(&client, &[&first, &second]).await;
    let before = [hits(&first), hits(&second)];
    for _ in 0..10 {
        client.get(configmaps(), "d", "a").await.unwrap();
    }
    assert_eq!([hits(&first) - before[0], hits(&second) - before[1]], [5, 5]);
    first.task.abort();
    for _ in 0..10 {
        client.get(configmaps(), "d", "a").await.unwrap();
    }
    assert!(hits(&second) - before[1] >= 14, "{}", hits(&second));
}

/// Like a lost host: connections are neither accepted nor refused.
#[tokio::test]
async fn no_call_waits_for_a_silent_server_while_another_serves() {
    let pki = pki();
    let ok = || handler(|_, _| async { json(200, CM) });
    let (first, second) = (serve(&pki, ok()).await, serve(&pki, ok()).await);
    let client = client(&pki, &[&first, &second]);
    reach_all(&client, &[&first, &second]).await;
    let connections = second.connections.load(Ordering::SeqCst);
    second.silent.store(true, Ordering::SeqCst);
    second.goaway.notify_one();
    // Shorter than the connect timeout.
    let client = client.with_timeout(Duration::from_secs(2));
    until(async || {
        client.create(configmaps(), configmap()).await.unwrap();
        second.connections.load(Ordering::SeqCst) > connections
    })
    .await;
    for _ in 0..10 {
        client.create(configmaps(), configmap()).await.unwrap();
    }
}

/// Calls until each server has received one: connections are made in the background.
async fn reach_all(client: &Client, servers: &[&Server]) {
    until(async || {
        client.get(configmaps(), "d", "a").await.unwrap();
        servers.iter().all(|server| server.hits.load(Ordering::SeqCst) > 0)
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_not_ready_gets_nothing_while_another_is() {
    let pki = pki();
    let ok = || handler(|_, _| async { json(200, CM) });
    let (first, second) = (serve(&pki, ok()).await, serve(&pki, ok()).await);
    first.ready.store(false, Ordering::SeqCst);
    let client = client(&pki, &[&first, &second]);
    let hits = |server: &Server| server.hits.load(Ordering::SeqCst);
    for _ in 0..10 {
        client.create(configmaps(), configmap()).await.unwrap();
    }
    assert_eq!((hits(&first), hits(&second)), (0, 10));
    // The server is probed again, not by waiting calls.
    first.ready.store(true, Ordering::SeqCst);
    until(async || {
        client.get(configmaps(), "d", "a").await.unwrap();
        hits(&first) > 0
    })
    .await;
    // Without another server, one that reports "not ready" is better than none.
    second.task.abort();
    first.ready.store(false, Ordering::SeqCst);
    first.goaway.notify_one();
    for _ in 0..10 {
        client.get(configmaps(), "d", "a").await.unwrap();
    }
}

#[tokio::test]
async fn a_503_sends_a_call_to_another_server_at_once() {
    let pki = pki();
    // An hour is longer than any call may take.
    let busy = || Ok(Response::builder().status(503).header("retry-after", "3600").body(full("stopping")).unwrap());
    let first = serve(&pki, handler(move |_, _| async move { busy() })).await;
    let second = serve(&pki, handler(|_, _| async { json(200, CM) })).await;
    first.ready.store(true, Ordering::SeqCst);
    let client = client(&pki, &[&first, &second]);
    let hits = |server: &Server| server.hits.load(Ordering::SeqCst);
    while hits(&first) == 0 {
        client.create(configmaps(), configmap()).await.unwrap();
    }
    first.ready.store(false, Ordering::SeqCst);
    for _ in 0..10 {
        client.create(configmaps(), configmap()).await.unwrap();
    }
    assert_eq!(hits(&first), 1, "it is left alone");
}

#[tokio::test]
async fn a_429_is_waited_for_unless_the_server_ends() {
    let pki = pki();
    let busy = || Ok(Response::builder().status(429).header("retry-after", "3600").body(full("busy")).unwrap());
    let first = serve(&pki, handler(move |_, _| async move { busy() })).await;
    let second = serve(&pki, handler(|_, _| async { json(200, CM) })).await;
    let client = client(&pki, &[&first, &second]);
    let hits = |server: &Server| server.hits.load(Ordering::SeqCst);
    until(async || {
        drop(client.create(configmaps(), configmap()).await);
        hits(&first) > 0 && hits(&second) > 0
    })
    .await;
    let before = hits(&first);
    let mut answers = Vec::new();
    for _ in 0..4 {
        answers.push(client.create(configmaps(), configmap()).await.map_err(|status| status.code).err());
    }
    answers.sort();
    assert_eq!(answers, [None, None, Some(429), Some(429)], "who is busy is believed");
    first.ready.store(false, Ordering::SeqCst);
    for _ in 0..10 {
        client.create(configmaps(), configmap()).await.unwrap();
    }
    assert_eq!(hits(&first) - before, 3, "and who ends is left alone");
}

#[tokio::test]
async fn a_name_stands_for_all_its_addresses() {
    let pki = pki();
    let server = serve(&pki, handler(|_, _| async { json(200, CM) })).await;
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let client = client_at(&pki, vec![format!("https://localhost:{port}"), server.address.clone()]);
    // One server at 127.0.0.1 by name and by number; where `localhost` is also ::1, no server listens there.
    until(async || {
        client.get(configmaps(), "d", "a").await.unwrap();
        server.connections.load(Ordering::SeqCst) == 2
    })
    .await;
    let nobody = client_at(&pki, vec![format!("https://no-such-host.invalid:{port}"), server.address.clone()]);
    for _ in 0..4 {
        nobody.get(configmaps(), "d", "a").await.unwrap();
    }
}

/// Waits until the condition holds.
async fn until(mut so: impl AsyncFnMut() -> bool) {
    for _ in 0..3000 {
        if so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not become so");
}

#[tokio::test]
async fn a_server_without_a_trusted_certificate_gets_nothing() {
    let (pki, other) = (pki(), self::pki());
    let server = serve(&pki, handler(|_, _| async { json(200, CM) })).await;
    let client = client(&other, &[&server]).with_timeout(Duration::from_secs(3));
    let status = client.get(configmaps(), "d", "a").await.unwrap_err();
    assert!(status.is_service_unavailable(), "{status:?}");
    assert_eq!(server.hits.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn answers_that_are_no_kubernetes_become_statuses() {
    let pki = pki();
    let server = serve(
        &pki,
        handler(|hit, _| async move {
            match hit {
                0 => json(404, "404 page not found"),
                1 => json(200, "<html>"),
                _ => json(200, r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1"}"#),
            }
        }),
    )
    .await;
    let client = client(&pki, &[&server]);
    let status = client.get(configmaps(), "d", "a").await.unwrap_err();
    assert!(status.is_not_found() && status.cause("UnexpectedServerResponse").is_some(), "{status:?}");
    assert!(client.get(configmaps(), "d", "a").await.unwrap_err().is_internal_error());
    assert!(client.list(configmaps(), "d", ListOptions::default()).await.unwrap_err().is_internal_error());
}
