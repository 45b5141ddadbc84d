//! The actor of one node: it follows its pods, performs their steps, writes their statuses, and keeps the Node and its Lease current.
//!
//! The actor awaits everything (runtime calls, API calls, runtime events, watches, timers) in one place, so a node costs one actor and one task, however many
//! pods it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{AbortHandle, BoxFuture};
use futures::stream::FuturesUnordered;
use oarlock_client::Client;
use oarlock_informer::{Cache, Item, Key, Notice, Selection, reflect};
use oarlock_meta::Status;
use oarlock_runtime::kind::{ActorKind, Backoff, Exhausted, OnFailure, OnShutdown, Phase};
use oarlock_runtime::{Failure, Instant, LoopCtx, clock, rng};
use oarlock_schema::Str;
use tokio::sync::{mpsc, watch};

use crate::admit::{Amounts, Used};
use crate::affinity::NodeView;
use crate::config::NodeConfig;
use crate::environment::ServiceView;
use crate::event_sender::EventSender;
use crate::image_gc::ImageGc;
use crate::logs;
use crate::manifests::{self, Files};
use crate::metrics::{NodeMetrics, PodShare};
use crate::pod::{Now, Pod, specs};
use crate::template::PodView;

mod api;
mod beat;
pub(crate) mod command;
mod host_resources;
mod pods;
mod probing;
mod statics;
mod steps;
mod sweep;
mod writes;

use api::{Known, Resources};
pub(crate) use api::{LEASE_SECONDS, STATUS_REPORT_SECONDS};
pub(crate) use beat::{LOG_CHECK_PERIOD, NODE_CHECK_PERIOD};
use command::{Command, RunningPod};
use host_resources::HostResources;
use probing::Probing;
use statics::{Mirror, Statics};
use steps::{Outcome, Tools};
use writes::Written;

/// Kind of the actor of a node.
pub(crate) static NODE: ActorKind = ActorKind {
    name: "kubelet.node",
    on_failure: OnFailure::Restart {
        backoff: Backoff::DEFAULT,
        max: 10,
        within: Duration::from_secs(60),
        then: Exhausted::GiveUp,
    },
    on_shutdown: OnShutdown::Finish,
    phase: Phase::Crew,
    ..ActorKind::DEFAULT
};

/// Largest number of queued changes; beyond that the actor reads the whole cache instead.
const MAX_QUEUED_CHANGES: usize = 1024;
/// How long a stopping kubelet waits for writes in flight.
const LAST_WRITES_TIMEOUT: Duration = Duration::from_secs(2);
/// Delay of the first volume update and of the first checks of disk usage and logs after a start.
const FIRST_REFRESH_DELAY: Duration = Duration::from_secs(10);
/// Longest time between two turns of an idle node's actor.
const MAX_IDLE: Duration = Duration::from_secs(3600);

/// Inputs shared by all incarnations of a node's actor.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) client: Client,
    pub(crate) config: NodeConfig,
    pub(crate) event_sender: EventSender,
    pub(crate) commands: tokio::sync::Mutex<mpsc::Receiver<Command>>,
    /// Manifests of static pods; `None` without static pods.
    pub(crate) manifests: Option<watch::Receiver<Files>>,
}

/// A pod's uid as a number, which takes half the memory of its text.
type Uid = u128;

/// Result of one of the node's background futures.
enum Done {
    Step { uid: Uid, seq: u32, outcome: Outcome },
    Written { uid: Uid, written: Written, result: Result<u64, Status> },
    Deleted { uid: Uid, result: Result<(), Status> },
    Mirrored { uid: Uid, result: Result<Option<Mirror>, Status> },
    Retired { key: Key, uid: Str, result: Result<(), Status> },
    Registered(Result<Known, Status>),
    Checked(Result<Option<Known>, Status>),
    Renewed(Result<(), Status>),
    Refreshed(Vec<(Uid, String)>),
    Collected(ImageGc),
    Rotated,
    Swept,
}

/// A pod, with the state of its calls to the runtime and the API.
struct Entry {
    pod: Pod,
    /// Whether the pod comes from a manifest and not from the API.
    is_static: bool,
    admitted: bool,
    /// Whether the pod is included in the node's sums of used resources.
    counted: bool,
    /// When the pod's present generation arrived, and when its last step ended, for spans.
    arrived: Instant,
    since: Instant,
    /// The generation whose change has ended: whose root span is recorded, or was before the kubelet started; -1 for none.
    settled: i64,
    /// Number of the step in progress; outcomes of other steps are ignored.
    seq: u32,
    abort: Option<AbortHandle>,
    wake: Option<Instant>,
    /// Time since which the status may differ from the last one written.
    dirty: Option<Instant>,
    /// Whether a status write or a deletion is in flight.
    writing: bool,
    /// Fingerprint of the status in the API, and the revision of the write.
    written: u64,
    revision: u64,
    failures: u32,
    hold: Option<Instant>,
    /// What the pod adds to the metrics, and whether its start is still to be recorded: not of a pod that ran before this kubelet.
    share: PodShare,
    starting: bool,
}

struct Node {
    ctx: LoopCtx,
    parts: Arc<Parts>,
    tools: Tools,
    probing: Probing,
    resources: Resources,
    cache: Arc<Cache<PodView>>,
    known: Option<Known>,
    has: Amounts,
    used: Used,
    /// Boxed, because half-empty tree nodes would double the memory of the entries.
    pods: BTreeMap<Uid, Box<Entry>>,
    timers: BTreeSet<(Instant, Uid)>,
    dirty: BTreeSet<Uid>,
    writing: usize,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// Next renewal of the Lease, and next check of the Node; unset during the call.
    renew_at: Option<Instant>,
    check_at: Option<Instant>,
    /// Next update of the volumes; unset on simulated nodes and during the update.
    refresh_at: Option<Instant>,
    /// Next check of disk usage for image removal; unset on simulated nodes and during the check.
    collect_at: Option<Instant>,
    /// Next check of log sizes; unset on simulated nodes and during the check.
    rotate_at: Option<Instant>,
    image_gc: ImageGc,
    statics: Statics,
    /// Whether the first complete list of pods has been handled.
    synced: bool,
    host_ip: String,
    runtime_name: Str,
    metrics: NodeMetrics,
}

/// Runs one incarnation of a node's actor until it is asked to stop.
pub(crate) async fn run(ctx: LoopCtx, parts: Arc<Parts>) -> Result<(), Failure> {
    let mut commands = parts.commands.lock().await;
    let resources = Resources::find().ok_or("the schema lacks nodes, pods or leases")?;
    // A new incarnation starts without state and reads everything again.
    let real = parts.config.machine.is_some();
    let cache = Arc::new(if real { Cache::projecting(PodView::whole) } else { Cache::<PodView>::default() });
    let mut changes = cache.subscribe(MAX_QUEUED_CHANGES);
    let mut files = parts.manifests.clone();
    let selection = Selection::field("spec.nodeName", &parts.config.name);
    let mut reflector = Box::pin(reflect(ctx.clone(), parts.client.clone(), resources.pods, selection, cache.clone()));
    // The Node's labels and taints decide about the admission of pods, and other clients change them.
    let own = Arc::new(Cache::<NodeView>::default());
    let mut moves = own.subscribe(1);
    let itself = Selection::field("metadata.name", &parts.config.name);
    let mut own_reflector = Box::pin(reflect(ctx.clone(), parts.client.clone(), resources.nodes, itself, own.clone()));
    // Containers get the addresses of Services as variables; simulated containers would not read them.
    let services = Arc::new(Cache::<ServiceView>::default());
    let mut services_reflector: BoxFuture<'static, _> = match real {
        true => {
            let all = Selection::default();
            Box::pin(reflect(ctx.clone(), parts.client.clone(), resources.services, all, services.clone()))
        }
        false => Box::pin(std::future::pending()),
    };
    // The cache sends no change for a first list without pods.
    let mut complete: BoxFuture<'static, ()> = Box::pin(completed(cache.clone()));
    let mut node = Node::new(ctx.clone(), parts.clone(), resources, cache, services.clone());
    node.register();
    loop {
        node.turn();
        let wake = node.wake();
        let stop = ctx
            .protected(async {
                tokio::select! {
                    biased;
                    () = ctx.cancelled() => return true,
                    Some(done) = node.work.next() => node.done(done),
                    event = parts.config.runtime.container_event() => node.event(&event),
                    Some(report) = node.probing.reports.recv() => node.report(&report, Node::now()),
                    // Changes of the Node are handled before those of pods, which may be a consequence.
                    _ = moves.next() => {
                        if let Some(own) = own.named("", &parts.config.name) {
                            node.node_changed(&own, Node::now());
                        }
                    }
                    notice = changes.next() => node.notice(notice),
                    () = &mut complete => {
                        complete = Box::pin(std::future::pending());
                        node.resync(Node::now());
                    }
                    files = manifests::changed(&mut files) => node.manifests(files.as_deref()),
                    Some(command) = commands.recv() => node.command(command),
                    _ = &mut reflector => return true,
                    _ = &mut own_reflector => return true,
                    _ = &mut services_reflector => return true,
                    () = clock::sleep_until(wake) => {}
                }
                false
            })
            .await;
        if stop {
            break;
        }
    }
    let _ = ctx.timeout(LAST_WRITES_TIMEOUT, node.finish()).await;
    Ok(())
}

/// Waits until the first complete list of pods has been received.
async fn completed(cache: Arc<Cache<PodView>>) {
    while cache.synced(clock::after(MAX_IDLE)).await.is_err() {}
}

impl Node {
    fn new(
        ctx: LoopCtx,
        parts: Arc<Parts>,
        resources: Resources,
        cache: Arc<Cache<PodView>>,
        services: Arc<Cache<ServiceView>>,
    ) -> Self {
        let amount = |(name, text): (&Str, &Str)| {
            let quantity = oarlock_meta::Quantity::parse(text).ok()?;
            Some((name.clone(), if name == "cpu" { quantity.milli_value() } else { quantity.value() }))
        };
        let has = parts.config.allocatable.iter().filter_map(amount).collect();
        let host_ip = parts.config.internal_ip.to_string();
        let runtime_name = parts.config.runtime.version().runtime_name;
        let real_node = parts.config.machine.is_some();
        let statics = Statics::new(parts.manifests.is_some());
        let tools = Tools {
            runtime: parts.config.runtime.clone(),
            event_sender: parts.event_sender.clone(),
            node: parts.config.name.as_str().into(),
            host_resources: HostResources::new(&parts.client, &parts.config, services).map(Arc::new),
        };
        Self {
            metrics: NodeMetrics::show(&parts.config.name),
            ctx,
            parts,
            tools,
            probing: Probing::new(),
            resources,
            cache,
            known: None,
            has,
            used: Used::default(),
            pods: BTreeMap::new(),
            timers: BTreeSet::new(),
            dirty: BTreeSet::new(),
            writing: 0,
            work: FuturesUnordered::new(),
            renew_at: None,
            check_at: None,
            refresh_at: real_node.then(|| clock::after(FIRST_REFRESH_DELAY)),
            collect_at: real_node.then(|| clock::after(FIRST_REFRESH_DELAY)),
            rotate_at: real_node.then(|| clock::after(FIRST_REFRESH_DELAY)),
            image_gc: ImageGc::default(),
            statics,
            synced: false,
            host_ip,
            runtime_name,
        }
    }

    fn now() -> Now {
        Now { at: clock::now(), wall: clock::wall().as_second() }
    }

    /// Performs all due work.
    fn turn(&mut self) {
        let now = Self::now();
        self.beat(now);
        while let Some((at, uid)) = self.timers.first().copied() {
            if at > now.at {
                break;
            }
            self.timers.pop_first();
            if let Some(entry) = self.pods.get_mut(&uid) {
                entry.wake = None;
            }
            self.touch(uid, now);
        }
        self.flush(now);
    }

    fn wake(&self) -> Instant {
        let timer = self.timers.first().map(|(at, _)| *at);
        let wakes = [timer, self.renew_at, self.check_at, self.refresh_at, self.collect_at, self.rotate_at];
        wakes.into_iter().flatten().min().unwrap_or_else(|| clock::after(MAX_IDLE))
    }

    fn done(&mut self, done: Done) {
        let now = Self::now();
        match done {
            Done::Step { uid, seq, outcome } => self.stepped(uid, seq, outcome, now),
            Done::Written { uid, written, result } => self.wrote(uid, written, result, now),
            Done::Deleted { uid, result } => self.deleted(uid, result, now),
            Done::Mirrored { uid, result } => self.mirrored(uid, result, now),
            Done::Retired { key, uid, result } => self.retired(&key, &uid, result),
            Done::Registered(result) => self.registered(result, now),
            Done::Checked(result) => self.checked(result, now),
            Done::Renewed(result) => self.renewed(result, now),
            Done::Rotated => self.rotated(now),
            Done::Collected(gc) => self.collected(gc, now),
            Done::Refreshed(evicted) => self.refreshed(evicted, now),
            Done::Swept => {}
        }
    }

    fn notice(&mut self, notice: Notice<PodView>) {
        let now = Self::now();
        match notice {
            Notice::Resync => self.resync(now),
            Notice::Changes(changes) => {
                for change in changes {
                    if let Some(old) = &change.old
                        && change.new.as_ref().is_none_or(|new| new.meta.uid != old.meta.uid)
                    {
                        self.pod_removed(old, now);
                    }
                    if let Some(new) = change.new {
                        self.pod_changed(new, now);
                    }
                }
            }
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Log(ask, reply) => reply.send(match self.named(&ask.namespace, &ask.pod) {
                Some(pod) => logs::choose(pod, &ask),
                None => Err((404, format!("pod \"{}\" does not exist", ask.pod))),
            }),
            Command::Find { namespace, pod, reply } => reply.send(self.named(&namespace, &pod).map(running)),
        }
    }

    fn named(&self, namespace: &str, name: &str) -> Option<&Pod> {
        let pods = self.pods.values().map(|entry| &entry.pod).filter(|pod| !pod.gone);
        let key = |pod: &&Pod| pod.item.meta.key.namespace == namespace && pod.item.meta.key.name == name;
        pods.into_iter().find(key)
    }

    /// Waits for writes in flight.
    async fn finish(&mut self) {
        while self.writing > 0 {
            let Some(done) = self.work.next().await else { return };
            if matches!(done, Done::Written { .. } | Done::Deleted { .. } | Done::Mirrored { .. }) {
                self.done(done);
            }
        }
    }
}

fn running(pod: &Pod) -> RunningPod {
    let containers = specs(pod.template()).zip(&pod.containers).filter(|(_, container)| container.running());
    let running = containers.map(|(spec, container)| (spec.name.clone(), container.id.clone())).collect();
    RunningPod { uid: pod.item.meta.uid.0.clone(), sandbox: pod.sandbox.clone(), running }
}

fn uid_of(item: &Item<PodView>) -> Uid {
    use std::hash::BuildHasher;
    let text = item.meta.uid.0.as_str();
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let number = if digits.len() == 32 { Uid::from_str_radix(&digits, 16).ok() } else { None };
    // A uid that is no UUID comes from a test or from another server.
    number.unwrap_or_else(|| foldhash::quality::FixedState::default().hash_one(text).into())
}

/// Returns a random duration in the second half of `period`, so that nodes started together drift apart.
fn spread(period: Duration) -> Duration {
    rng::jitter(period, 20)
}
