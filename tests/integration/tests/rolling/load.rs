//! The load during restarts: our writers, readers and watchers over all servers, raw HTTP, and kube-rs behind a balancer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use oarlock_client::https::TokioSpawn;
use oarlock_client::{Client, Endpoint, Event, Https, ListOptions};
use oarlock_config::Kubeconfig;
use oarlock_informer::{Project, ResourceName, SharedInformers};
use oarlock_meta::Revision;
use oarlock_runtime::{System, clock};
use oarlock_schema::{Obj, Resource, resource};
use oarlock_testkit::Cluster;
use oarlock_testkit::http::{Http, Who};
use oarlock_testkit::wait::{Progress, STEP_TIMEOUT, eventually, gradually, pause, step};
use parking_lot::Mutex;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::balancer::Balancer;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 3;
/// Watchers that share a client, and so its connections.
const SHARE: usize = 50;
/// Enough for some to come while a server refuses, which takes no longer than its watches need to end.
const RAW: u64 = 5;

/// Counts of the faults' effects so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    /// Connections that raw clients were refused.
    pub(super) refused: u64,
    /// Requests that the balancer sent elsewhere for want of a connection.
    pub(super) passed_over: u64,
    /// Watches that ended in order and went on.
    pub(super) resumed: u64,
    /// Watches that broke and went on.
    pub(super) broken: u64,
    /// Writes of unknown outcome.
    pub(super) unknown: u64,
    /// Requests of clients other than ours that were answered with 429 and `Retry-After`.
    pub(super) told_to_wait: u64,
}

impl std::fmt::Display for Marks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

#[derive(Default)]
struct Counts {
    refused: AtomicU64,
    resumed: AtomicU64,
    broken: AtomicU64,
    unknown: AtomicU64,
    told_to_wait: AtomicU64,
    /// Watches that were opened, again after each end.
    opened: AtomicU64,
    /// Calls that were answered.
    calls: AtomicU64,
    /// Events that watchers received.
    told: AtomicU64,
    enough: AtomicBool,
    /// The revision up to which watchers must tell; 0: not known yet.
    last: AtomicU64,
    /// Writes that were acknowledged, with their revisions.
    done: Mutex<BTreeMap<String, u64>>,
    /// Names whose creation has an unknown outcome.
    open: Mutex<BTreeSet<String>>,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The informer's view of a ConfigMap.
struct Seen;

impl Project for Seen {
    const RESOURCE: ResourceName = ResourceName::core("configmaps");

    fn project(_: &Obj) -> Self {
        Self
    }
}

/// The load on the servers: writers, readers, watchers, raw HTTP and kube-rs.
pub(super) struct Load {
    counts: Arc<Counts>,
    runtime: Runtime,
    balancer: Balancer,
    tasks: Vec<JoinHandle<()>>,
    raw: Vec<std::thread::JoinHandle<()>>,
    watchers: Vec<JoinHandle<Vec<(String, u64)>>>,
    follower: JoinHandle<BTreeMap<String, u64>>,
    cache: Arc<oarlock_informer::Cache<Seen>>,
    _system: System,
}

fn maps() -> &'static Resource {
    resource("", "v1", "configmaps").unwrap()
}

fn map(name: &str) -> Obj {
    oarlock_client::decode(
        maps().ty,
        json!({"metadata": {"name": name, "namespace": "default"}}).to_string().as_bytes(),
    )
    .unwrap()
}

/// Our client over all servers, which begins with any of them.
fn client(servers: &[Cluster]) -> Client {
    let all: Vec<String> = servers.iter().map(|s| format!("https://{}", s.http(Who::Admin).address())).collect();
    let admin = Kubeconfig::read(&servers[0].kubeconfig()).unwrap().resolve(None).unwrap().at(&all).unwrap();
    Client::new(Arc::new(Https::new(Endpoint::new(&admin, "rolling/1").unwrap(), Arc::new(TokioSpawn)).unwrap()))
}

impl Load {
    pub(super) fn start(servers: &[Cluster], watchers: usize) -> Self {
        let counts = Arc::<Counts>::default();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let balancer = Balancer::before(&servers.iter().collect::<Vec<_>>());
        let begin = servers[0].http(Who::Admin).get(MAPS).json()["metadata"]["resourceVersion"].clone();
        let begin: u64 = begin.as_str().unwrap().parse().unwrap();
        let _in = runtime.enter();
        let mut tasks: Vec<_> = (0..WRITERS)
            .map(|n| runtime.spawn(write(client(servers), format!("ours-{n}"), Arc::clone(&counts))))
            .collect();
        tasks.push(runtime.spawn(look(client(servers), Arc::clone(&counts))));
        let foreign = runtime.block_on(foreign(servers, &balancer));
        tasks.push(runtime.spawn(through(foreign.clone(), Arc::clone(&counts))));
        let follower = runtime.spawn(follow(foreign, Arc::clone(&counts)));
        let clients: Vec<Client> = (0..watchers.div_ceil(SHARE)).map(|_| client(servers)).collect();
        let watchers = (0..watchers).map(|n| &clients[n % clients.len()]);
        let watchers = watchers.map(|client| runtime.spawn(watch(client.clone(), begin, Arc::clone(&counts))));
        let watchers = watchers.collect();
        let raw = (0..RAW).map(|n| {
            let (all, counts) = (servers.iter().map(|s| s.http(Who::Admin)).collect(), Arc::clone(&counts));
            std::thread::Builder::new().spawn(move || raw(all, n, &counts)).unwrap()
        });
        let raw = raw.collect();
        let (system, cache) = runtime.block_on(async {
            let system = System::start(oarlock_runtime::Options::default()).await.unwrap();
            let informers = SharedInformers::new(system.clone(), client(servers), "rolling");
            let cache = informers.all::<Seen>().await.unwrap();
            cache.synced(clock::after(STEP_TIMEOUT)).await.unwrap();
            (system, cache)
        });
        Self { counts, runtime, balancer, tasks, raw, watchers, follower, cache, _system: system }
    }

    pub(super) fn marks(&self) -> Marks {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Marks {
            refused: read(&self.counts.refused),
            passed_over: self.balancer.passed_over(),
            resumed: read(&self.counts.resumed),
            broken: read(&self.counts.broken),
            unknown: read(&self.counts.unknown),
            told_to_wait: read(&self.counts.told_to_wait),
        }
    }

    /// Waits until every watcher has opened its watch.
    pub(super) fn all_watch(&self) {
        gradually("watchers open their watches", || match self.counts.opened.load(Ordering::Relaxed) {
            opened if opened >= self.watchers.len() as u64 => Ok(()),
            opened => Err(opened),
        });
    }

    /// Waits until the load has made further progress.
    #[track_caller]
    pub(super) fn goes_on(&self) {
        let missing = |counter: &AtomicU64, wanted: u64| wanted.saturating_sub(counter.load(Ordering::Relaxed));
        let (calls, told) = (&self.counts.calls, &self.counts.told);
        let wanted = (calls.load(Ordering::Relaxed) + 200, told.load(Ordering::Relaxed) + 600);
        let mut progress = Progress::default();
        loop {
            let (calls, events) = (missing(calls, wanted.0), missing(told, wanted.1));
            if (calls, events) == (0, 0) {
                return;
            }
            let over = self.tasks.iter().any(JoinHandle::is_finished)
                || self.watchers.iter().any(JoinHandle::is_finished)
                || self.raw.iter().any(std::thread::JoinHandle::is_finished);
            assert!(!over, "a client has failed: {}", self.marks());
            let stalled = progress.stalled(format!("{calls} calls and {events} events too few"));
            assert!(!stalled, "nothing goes on: {progress}: {}", self.marks());
            pause();
        }
    }

    /// Ends the load and compares the objects that each client knows with the existing ones.
    #[track_caller]
    pub(super) fn finish(mut self, servers: &[Cluster]) -> Marks {
        self.counts.enough.store(true, Ordering::Release);
        for task in self.tasks.drain(..) {
            self.runtime.block_on(task).unwrap();
        }
        for thread in self.raw.drain(..) {
            thread.join().unwrap();
        }
        let list = servers[0].http(Who::Admin).get(MAPS).json();
        let there = list["items"].as_array().unwrap().iter().map(|item| {
            let revision = item["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
            (item["metadata"]["name"].as_str().unwrap().to_owned(), revision)
        });
        let there: BTreeMap<String, u64> = there.collect();
        let (done, open) = (self.counts.done.lock().clone(), self.counts.open.lock().clone());
        for (name, revision) in &done {
            assert_eq!(there.get(name), Some(revision), "{name} was acknowledged at {revision}");
        }
        let more: Vec<_> = there.keys().filter(|name| !done.contains_key(*name) && !open.contains(*name)).collect();
        assert!(more.is_empty(), "nobody wrote {more:?}");
        // Each watcher received each object once and in order.
        let mut truth: Vec<(String, u64)> = there.clone().into_iter().collect();
        truth.sort_by_key(|(_, revision)| *revision);
        let last = truth.last().unwrap().1;
        self.counts.last.store(last, Ordering::Release);
        // The object wakes the watchers that received the last event before it was known to be the last.
        assert_eq!(servers[1].http(Who::Admin).json("POST", MAPS, &json!({"metadata": {"name": "wake-up"}})).code, 201);
        for (number, watcher) in self.watchers.drain(..).enumerate() {
            let so_far = format!("{number} watchers were told the last");
            let mut told = self.runtime.block_on(step(&so_far, watcher)).unwrap();
            told.retain(|(_, revision)| *revision <= last);
            let gap = truth.iter().zip(&told).find(|(is, was)| is != was);
            assert_eq!((told.len(), gap), (truth.len(), None), "a watcher missed something or was told it twice");
        }
        let followed = self.runtime.block_on(step("kube-rs is told the last", &mut self.follower)).unwrap();
        let missing = there.iter().find(|(name, revision)| followed.get(*name) != Some(revision));
        assert_eq!(missing, None, "kube-rs missed something");
        self.runtime.block_on(self.cache.at_least(Revision(last), clock::after(STEP_TIMEOUT))).unwrap();
        let cached = self.cache.list();
        let cached: BTreeMap<String, u64> =
            cached.iter().map(|item| (item.meta.name().to_owned(), item.meta.revision.get())).collect();
        eventually("the informer has what is there", || {
            let missing = there.iter().find(|(name, revision)| cached.get(*name) != Some(revision));
            missing.map_or(Ok(()), |missing| Err(format!("{missing:?}")))
        });
        let marks = self.marks();
        eprintln!("{marks}; {} calls, {} events", self.counts.calls.load(Ordering::Relaxed), done.len());
        marks
    }
}

/// Creates one object after the other through Oarlock's client. Every create must succeed, unless a server ended during the write.
async fn write(client: Client, writer: String, counts: Arc<Counts>) {
    for n in 0_u64.. {
        if counts.enough.load(Ordering::Acquire) {
            return;
        }
        let name = format!("{writer}-{n}");
        match client.create(maps(), map(&name)).await {
            Ok(object) => {
                counts.done.lock().insert(name, object.revision.get());
            }
            Err(status) if status.code == 504 && status.message.contains("unknown") => {
                count(&counts.unknown);
                counts.open.lock().insert(name);
            }
            Err(status) => panic!("{name}: {status}"),
        }
        count(&counts.calls);
    }
}

/// Reads what was written, and lists.
async fn look(client: Client, counts: Arc<Counts>) {
    while !counts.enough.load(Ordering::Acquire) {
        let one = counts.done.lock().iter().next_back().map(|(name, revision)| (name.clone(), *revision));
        if let Some((name, revision)) = one {
            let object = client.get(maps(), "default", &name).await.unwrap();
            assert_eq!(object.revision.get(), revision, "{name}");
        }
        let options = ListOptions { limit: 5, ..ListOptions::default() };
        client.list(maps(), "default", options).await.unwrap();
        count(&counts.calls);
    }
}

/// kube-rs, which knows one address.
async fn foreign(servers: &[Cluster], balancer: &Balancer) -> Api<ConfigMap> {
    let file = kube::config::Kubeconfig::read_from(servers[0].kubeconfig()).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
    config.cluster_url = format!("https://{}", balancer.address()).parse().unwrap();
    Api::namespaced(kube::Client::try_from(config).unwrap(), "default")
}

/// Creates and reads through the balancer.
async fn through(api: Api<ConfigMap>, counts: Arc<Counts>) {
    for n in 0_u64.. {
        if counts.enough.load(Ordering::Acquire) {
            return;
        }
        let name = format!("foreign-{n}");
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.clone());
        match api.create(&PostParams::default(), &map).await {
            Ok(made) => {
                let revision = made.metadata.resource_version.unwrap().parse().unwrap();
                counts.done.lock().insert(name.clone(), revision);
                let read = read(&api, &name, &counts).await;
                assert_eq!(read, Some(revision), "{name}");
            }
            Err(kube::Error::Api(status)) if status.code == 429 => count(&counts.told_to_wait),
            // The balancer answers 502 when a server ends during the request.
            Err(kube::Error::Api(status)) if status.code == 502 => {
                count(&counts.unknown);
                counts.open.lock().insert(name);
            }
            Err(error) => panic!("{name}: {error}"),
        }
        count(&counts.calls);
    }
}

/// Runs kube-rs's own watcher through the balancer; the watcher may list only at its start. Returns the revision of each object that it received.
async fn follow(api: Api<ConfigMap>, counts: Arc<Counts>) -> BTreeMap<String, u64> {
    let (mut told, mut lists) = (BTreeMap::new(), 0);
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let map = match event {
            Ok(watcher::Event::InitApply(map) | watcher::Event::Apply(map)) => map,
            Ok(watcher::Event::Init) => {
                lists += 1;
                assert_eq!(lists, 1, "it lists again");
                continue;
            }
            Ok(watcher::Event::InitDone) => continue,
            Ok(other) => panic!("{other:?}"),
            // The balancer closed the connection, or answered that the client should retry later.
            Err(_) => continue,
        };
        let revision = map.metadata.resource_version.unwrap().parse().unwrap();
        told.insert(map.metadata.name.unwrap(), revision);
        let last = counts.last.load(Ordering::Acquire);
        if last > 0 && revision >= last {
            break;
        }
    }
    told
}

async fn read(api: &Api<ConfigMap>, name: &str, counts: &Counts) -> Option<u64> {
    loop {
        match api.get(name).await {
            Ok(read) => return read.metadata.resource_version.unwrap().parse().ok(),
            Err(kube::Error::Api(status)) if status.code == 429 => count(&counts.told_to_wait),
            Err(kube::Error::Api(status)) if status.code == 502 => count(&counts.broken),
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// HTTP/1.1, a connection for each request, the next server for each. Nobody at home is the only thing that may happen.
fn raw(servers: Vec<Http>, number: u64, counts: &Counts) {
    for n in 0_u64.. {
        if counts.enough.load(Ordering::Acquire) {
            return;
        }
        let http = &servers[usize::try_from(n + number).unwrap() % servers.len()];
        let name = format!("raw-{number}-{n}");
        let body = json!({"metadata": {"name": name}}).to_string();
        let sent = http.try_send("POST", MAPS, &[("Content-Type", "application/json")], body.as_bytes());
        match sent {
            Ok(answer) if answer.code == 201 => {
                let revision = answer.json()["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                counts.done.lock().insert(name, revision);
            }
            Ok(answer) if answer.code == 429 && answer.header("retry-after") == Some("5") => {
                count(&counts.told_to_wait)
            }
            Ok(answer) => panic!("{name}: {answer}"),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => count(&counts.refused),
            Err(error) => {
                eprintln!("{name}: {error}");
                count(&counts.unknown);
                counts.open.lock().insert(name);
            }
        }
        count(&counts.calls);
        pause();
    }
}

/// Watches from a revision on, through ends and breaks, until the last event, and returns the events.
async fn watch(client: Client, begin: u64, counts: Arc<Counts>) -> Vec<(String, u64)> {
    let (mut position, mut told) = (begin, Vec::new());
    let over = |position: u64| {
        let last = counts.last.load(Ordering::Acquire);
        last > 0 && position >= last
    };
    loop {
        let options = ListOptions {
            resource_version: Some(Revision(position)),
            allow_bookmarks: true,
            timeout: Some(Duration::from_secs(600)),
            ..ListOptions::default()
        };
        let mut watch = client.watch(maps(), "default", options).await.unwrap();
        count(&counts.opened);
        while let Some(events) = watch.next().await {
            for event in events {
                match event {
                    Event::Added(object) => {
                        position = object.revision.get();
                        told.push((object.name().as_str().to_owned(), position));
                        count(&counts.told);
                    }
                    Event::Bookmark { revision, .. } => position = revision.get(),
                    Event::Error(status) if status.code == 503 => count(&counts.broken),
                    other => panic!("{other:?}"),
                }
            }
            if over(position) {
                return told;
            }
        }
        count(&counts.resumed);
    }
}
