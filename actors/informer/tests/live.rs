//! Tests the informers against a live kube-apiserver, Oarlock's or upstream's:
//! `OARLOCK_LIVE_KUBECONFIG=… OARLOCK_LIVE_COMPACT="etcdctl --endpoints … compact" cargo test -p oarlock-informer --test live -- --ignored`.
//! The compaction test needs a server that does not serve ConfigMap watches from memory (`--watch-cache-sizes=configmaps#0`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::https::TokioSpawn;
use oarlock_client::{Client, DeleteOptions, Endpoint, Https};
use oarlock_config::Kubeconfig;
use oarlock_informer::{
    Cache, Change, EventType, Notice, ObjectRef, Project, Recorder, ResourceName, Selection, SharedInformers,
};
use oarlock_meta::Revision;
use oarlock_runtime::{Options, System, clock};
use oarlock_schema::{Obj, Resource, resource};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

struct Config(String);

impl Project for Config {
    const RESOURCE: ResourceName = ResourceName::core("configmaps");

    fn project(obj: &Obj) -> Self {
        Self(obj.at(&["data", "v"]).and_then(|v| v.as_str()).unwrap_or("").to_owned())
    }
}

fn endpoint() -> Endpoint {
    let path = std::env::var("OARLOCK_LIVE_KUBECONFIG").expect("OARLOCK_LIVE_KUBECONFIG names a kubeconfig");
    let config = Kubeconfig::read(path.as_ref()).unwrap().resolve(None).unwrap();
    Endpoint::new(&config, "oarlock-live/0.1").unwrap()
}

fn client(endpoint: Endpoint) -> Client {
    Client::new(Arc::new(Https::new(endpoint, Arc::new(TokioSpawn)).unwrap()))
}

/// A TCP proxy to the server that a test can cut.
struct Wire {
    address: SocketAddr,
    whole: watch::Sender<bool>,
}

#[expect(clippy::disallowed_methods, reason = "a test's proxy")]
async fn wire(server: &str) -> Wire {
    let target = server.strip_prefix("https://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let whole = watch::Sender::new(true);
    let state = whole.clone();
    tokio::spawn(async move {
        loop {
            let (mut from, _) = listener.accept().await.unwrap();
            let (target, mut state) = (target.clone(), state.subscribe());
            tokio::spawn(async move {
                if !*state.borrow_and_update() {
                    return;
                }
                let mut to = TcpStream::connect(target).await.unwrap();
                tokio::select! {
                    biased;
                    _ = state.wait_for(|whole| !whole) => {}
                    _ = copy_bidirectional(&mut from, &mut to) => {}
                }
            });
        }
    });
    Wire { address, whole }
}

fn configmaps() -> &'static Resource {
    resource("", "v1", "configmaps").unwrap()
}

async fn namespace(client: &Client, test: &str) -> String {
    let name = format!("{test}-{}", std::process::id());
    let namespaces = resource("", "v1", "namespaces").unwrap();
    let mut object = Obj::new(namespaces.ty);
    assert!(object.set_at(&["metadata", "name"], name.as_str()));
    client.create(namespaces, object).await.unwrap();
    name
}

async fn set(client: &Client, namespace: &str, name: &str, value: &str) -> Revision {
    let mut object = Obj::new(configmaps().ty);
    for (path, value) in [(["metadata", "namespace"], namespace), (["metadata", "name"], name), (["data", "v"], value)]
    {
        assert!(object.set_at(&path, value));
    }
    client.apply(configmaps(), &object, "live", true).await.unwrap().revision
}

fn soon() -> clock::Instant {
    clock::after(Duration::from_secs(60))
}

fn contents(cache: &Cache<Config>) -> BTreeMap<String, String> {
    let mut all: BTreeMap<_, _> =
        cache.list().iter().map(|item| (item.meta.name().to_owned(), item.value.0.clone())).collect();
    all.remove("kube-root-ca.crt");
    all
}

fn compact(revision: Revision) {
    let command = std::env::var("OARLOCK_LIVE_COMPACT").expect("OARLOCK_LIVE_COMPACT compacts the store");
    let mut words = command.split_whitespace();
    let status = std::process::Command::new(words.next().unwrap()).args(words).arg(revision.to_string()).status();
    assert!(status.unwrap().success());
}

#[tokio::test]
#[ignore = "needs a live apiserver"]
async fn an_informer_survives_a_cut_wire_and_a_compaction() {
    let direct = client(endpoint());
    let ns = namespace(&direct, "informer").await;
    let wire = wire(&endpoint().servers[0]).await;
    let system = System::start(Options::default()).await.unwrap();
    let through = client(endpoint().with_servers(vec![format!("https://{}", wire.address)]));
    let informers = SharedInformers::new(system.clone(), through.with_timeout(Duration::from_secs(2)), "live");
    for name in ["kept", "changed", "gone"] {
        set(&direct, &ns, name, "1").await;
    }
    let cache = informers.select::<Config>(Selection::namespace(ns.as_str())).await.unwrap();
    cache.synced(soon()).await.unwrap();
    let expect = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(contents(&cache), expect(&[("changed", "1"), ("gone", "1"), ("kept", "1")]));

    // A cut alone: the watch resumes at the cache's revision.
    wire.whole.send_replace(false);
    let revision = set(&direct, &ns, "meanwhile", "1").await;
    wire.whole.send_replace(true);
    cache.at_least(revision, soon()).await.unwrap();
    let mut changes = cache.subscribe(100);
    assert!(matches!(changes.next().await, Notice::Resync));

    // A cut and a compaction: the reflector takes a new complete state and reports deletions.
    wire.whole.send_replace(false);
    direct.delete(configmaps(), &ns, "gone", DeleteOptions::default()).await.unwrap();
    set(&direct, &ns, "changed", "2").await;
    let revision = set(&direct, &ns, "new", "1").await;
    compact(revision);
    wire.whole.send_replace(true);
    cache.at_least(revision, soon()).await.unwrap();
    let wanted = expect(&[("changed", "2"), ("kept", "1"), ("meanwhile", "1"), ("new", "1")]);
    assert_eq!(contents(&cache), wanted);
    let mut heard = Vec::new();
    while let Some(Notice::Changes(batch)) = changes.try_next() {
        for Change { key, old, new } in batch {
            heard.push((key.name.to_string(), old.is_some(), new.is_some()));
        }
    }
    heard.sort();
    let told = |name: &str, old, new| (name.to_owned(), old, new);
    assert_eq!(heard, [told("changed", true, true), told("gone", true, false), told("new", false, true)]);

    let status = system.snapshot();
    let reflector = status.iter().find(|actor| actor.kind == "informer.reflector").unwrap();
    assert_eq!((&reflector.state["states"], &reflector.state["watchList"]), (&2.into(), &true.into()), "{reflector:?}");
    assert_eq!(reflector.restarts, 0);
}

#[tokio::test]
#[ignore = "needs a live apiserver"]
async fn an_event_is_recorded_and_counted() {
    let client = client(endpoint());
    let ns = namespace(&client, "events").await;
    let system = System::start(Options::default()).await.unwrap();
    let recorder = Recorder::start(&system, client.clone(), "live-test", "").await.unwrap();
    let about = ObjectRef {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: ns.as_str().into(),
        name: "some".into(),
        uid: "1234".into(),
        ..ObjectRef::default()
    };
    for _ in 0..3 {
        recorder.event(&about, EventType::Warning, "Tested", "told three times");
    }
    let events = resource("", "v1", "events").unwrap();
    let deadline = soon();
    loop {
        let found = client.list(events, &ns, Default::default()).await.unwrap().items;
        let counts: Vec<_> =
            found.iter().map(|event| event.obj().unwrap().at(&["count"]).and_then(|count| count.as_int())).collect();
        if counts == [Some(3)] {
            break;
        }
        assert!(!deadline.passed() && counts.len() <= 1, "{counts:?}");
        clock::sleep(Duration::from_millis(20)).await;
    }
}
