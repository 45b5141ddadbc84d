//! One API server: its processes, one after the other, and the ways to it and from it to the log.
//!
//! A process is a real server with its own system of actors. It is killed by cutting it off from everything at once, for good: its
//! messages that are under way arrive, and nothing else of it is ever heard; what its actors still do until they are taken down is seen by nobody.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use oarlock_apiserver::streaming::Kubelets;
use oarlock_apiserver::{Assembly, Config, InProcess, Server, assemble};
use oarlock_auth::{Authenticators, UserInfo};
use oarlock_client::{ListOptions, Reply, Request, Transport, WatchStream};
use oarlock_meta::Status;
use oarlock_pki::{Pki, ServingNames, SigningKey, UnixTime};
use oarlock_runtime::shutdown::{Graces, shutdown};
use oarlock_runtime::{Gate, Options, Phase, Rng, System, clock};
use oarlock_schema::Resource;
use oarlock_storage::testing::faulty::{Faults, FaultyLog};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::link::Link;
use super::truth::Truth;
use super::wire::{Kind, Marks, Wire};

/// For how long servers keep history, and how often they look.
pub(super) const WINDOW: Duration = Duration::from_secs(6);
const COMPACT_EVERY: Duration = Duration::from_secs(2);
/// After this without an answer a client gives a call up. Longer than any call may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long an orderly end may take in each phase, and how soon what is dead is taken down.
const GRACE: Duration = Duration::from_secs(5);
const BURIAL: Duration = Duration::from_millis(100);
/// How often actors are looked at whether they get on.
const TICK: Duration = Duration::from_secs(2);

/// Keys, the same for everybody: they sign nothing that is looked at.
static KEYS: LazyLock<(Pki, Arc<SigningKey>)> = LazyLock::new(|| {
    let made = || Pki::ephemeral(&ServingNames::default(), UnixTime::since_unix_epoch(Duration::from_secs(1))).unwrap();
    (made(), Arc::new(made().service_account))
});

/// See the module's text.
pub(super) struct Replica {
    pub(super) name: String,
    /// Between clients and it.
    pub(super) front: Arc<Wire>,
    /// Between it and the log.
    pub(super) back: Arc<Wire>,
    pub(super) log: FaultyLog,
    /// Held by whoever starts or ends a process.
    pub(super) life: Arc<tokio::sync::Mutex<()>>,
    pub(super) cancel_tails: Arc<Notify>,
    truth: Arc<Truth>,
    net: Gate,
    marks: Arc<Marks>,
    processes: AtomicU64,
    running: Mutex<Option<Arc<Process>>>,
}

struct Process {
    server: Server,
    api: InProcess,
    system: System,
    requests: Gate,
    life: CancellationToken,
}

/// What a call came to.
pub(super) enum Answer {
    Told(Result<Reply, Status>),
    /// Nobody took it: it was certainly not begun.
    Refused,
    /// None came.
    Lost,
}

/// A watch, and how it may break.
pub(super) struct Stream {
    process: Arc<Process>,
    front: Arc<Wire>,
    marks: Arc<Marks>,
    events: WatchStream,
}

impl Replica {
    pub(super) fn new(
        name: String,
        rng: &mut Rng,
        truth: Arc<Truth>,
        faults: Faults,
        net: Gate,
        marks: Arc<Marks>,
    ) -> Self {
        let log = FaultyLog::new(Arc::clone(&truth) as _, faults, rng.u64());
        let [front, back] = [(); 2].map(|()| Arc::new(Wire::new(rng.fork(), Arc::clone(&marks))));
        let (life, cancel_tails) = (Arc::default(), Arc::default());
        let (processes, running) = (AtomicU64::new(0), Mutex::default());
        Self { name, front, back, log, life, cancel_tails, truth, net, marks, processes, running }
    }

    /// Starts a process, again and again until one can read the log.
    pub(super) async fn start(&self) {
        loop {
            let host = format!("{}-{}", self.name, self.processes.fetch_add(1, Ordering::Relaxed));
            let system = System::start(Options { host: host.into(), tick: TICK, watchdog: None }).await.unwrap();
            let life = CancellationToken::new();
            let link = Link {
                log: self.log.clone(),
                truth: Arc::clone(&self.truth),
                wire: Arc::clone(&self.back),
                net: self.net.clone(),
                cancel: Arc::clone(&self.cancel_tails),
                life: life.clone(),
                marks: Arc::clone(&self.marks),
                lost: Arc::default(),
            };
            let (pki, signer) = &*KEYS;
            let identity = (vec![pki.kubelet_client.certificate.clone()], pki.kubelet_client.key.to_rustls());
            let store = oarlock_store::Options { window: WINDOW, compact_every: COMPACT_EVERY, ..Default::default() };
            let assembly = Assembly {
                config: config(&self.name),
                log: Arc::new(link),
                store,
                signer: Arc::clone(signer),
                kubelets: Kubelets::new(identity, None).unwrap(),
                disable_admission: Vec::new(),
            };
            match assemble(&system, assembly, |_| Authenticators::new()).await {
                Ok(server) => {
                    let requests = system.gate("requests", Phase::Ingress);
                    let api = InProcess::new(server.clone(), UserInfo::new("admin", ["system:masters"]), "sim/1");
                    let process = Process { server, api, system, requests, life };
                    *self.running.lock() = Some(Arc::new(process));
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, replica = self.name, "it does not start yet");
                    shutdown(&system, Graces::all(BURIAL)).await;
                    clock::sleep(Duration::from_millis(300)).await;
                }
            }
        }
    }

    /// Kills the process.
    pub(super) async fn crash(&self) {
        let Some(process) = self.running.lock().take() else { return };
        process.sound();
        self.marks.note("crash", process.requests.inside() as u64);
        process.life.cancel();
        let burial = async move {
            shutdown(&process.system, Graces::all(BURIAL)).await;
        };
        self.net.spawn("burial", burial).unwrap();
    }

    /// Ends the process in good order: watches end behind their last event, requests are given their time.
    pub(super) async fn bounce(&self) {
        let Some(process) = self.running.lock().clone() else { return };
        process.sound();
        self.marks.note("bounce", process.requests.inside() as u64);
        process.server.state().set_stopping();
        process.server.state().end_watches(Duration::ZERO);
        shutdown(&process.system, Graces::all(GRACE)).await;
        *self.running.lock() = None;
        process.life.cancel();
    }

    /// Makes a call.
    pub(super) async fn call(&self, request: Request) -> Answer {
        let process = self.running.lock().clone();
        let Some(process) = process else {
            clock::sleep(Duration::from_millis(1)).await;
            return Answer::Refused;
        };
        let deadline = clock::after(PATIENCE);
        let ((sender, answer), front, marks) = (oneshot::channel(), Arc::clone(&self.front), Arc::clone(&self.marks));
        let message = async move {
            if !front.pass(Kind::Request).await {
                return;
            }
            let answer = match process.requests.enter("request") {
                Err(_) => Answer::Refused,
                Ok(_inside) => tokio::select! {
                    biased;
                    () = process.life.cancelled() => Answer::Lost,
                    told = process.api.call(request) => Answer::Told(told),
                },
            };
            if matches!(answer, Answer::Refused) {
                marks.note("bounce", 1);
            }
            // A connection that breaks is noticed at once, what a cut swallows is not.
            if matches!(answer, Answer::Lost) || front.pass(Kind::Answer).await {
                let _gave_up = sender.send(answer);
            }
        };
        self.net.spawn("to a server", message).unwrap();
        match clock::timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            _ => {
                clock::sleep_until(deadline).await;
                Answer::Lost
            }
        }
    }

    /// Begins a watch; `None` when it does not come about.
    pub(super) async fn watch(
        &self,
        resource: &'static Resource,
        namespace: &str,
        options: ListOptions,
    ) -> Option<Stream> {
        let process = self.running.lock().clone()?;
        let (front, marks) = (Arc::clone(&self.front), Arc::clone(&self.marks));
        let begin = async {
            if process.requests.is_closed() || !self.front.pass(Kind::Request).await {
                return None;
            }
            let events = process.api.watch(resource, namespace, options).await.ok()?;
            self.front.pass(Kind::Answer).await.then_some(events)
        };
        let events = clock::timeout(PATIENCE, process.or_killed(begin)).await.ok()???;
        Some(Stream { process, front, marks, events })
    }

    /// Whether a process runs that has not failed.
    pub(super) fn is_running(&self) -> bool {
        self.running.lock().as_ref().is_some_and(|process| {
            process.sound();
            true
        })
    }
}

impl Process {
    /// What the future came to; `None` when the process was killed.
    async fn or_killed<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.life.cancelled() => None,
            value = future => Some(value),
        }
    }

    /// Nothing that is done to a server makes it fail.
    fn sound(&self) {
        assert_eq!(self.system.fatal(), None);
    }
}

impl Stream {
    /// The next events; `Ok(None)` when it ended in good order.
    ///
    /// # Errors
    /// It broke.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<oarlock_client::Event>>, ()> {
        let Some(events) = self.process.or_killed(self.events.next()).await else {
            self.marks.note("crash", 1);
            return Err(());
        };
        let way = clock::timeout(PATIENCE, self.process.or_killed(self.front.pass(Kind::Stream))).await;
        if way != Ok(Some(true)) {
            return Err(());
        }
        if events.is_none() && self.process.server.state().is_stopping() {
            self.marks.note("bounce", 1);
        }
        Ok(events)
    }
}

fn config(name: &str) -> Config {
    Config {
        advertise_address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        port: 6443,
        service_cidr: "10.96.0.0/16".parse().unwrap(),
        node_ports: (30000, 32767),
        event_ttl: Duration::from_secs(3600),
        request_timeout: Duration::from_secs(60),
        goaway_chance: 0.0,
        termination: Default::default(),
        max_body: 3 << 20,
        identity: name.to_owned(),
        ca_pem: String::new(),
        client_ca_pem: String::new(),
        front_proxy_ca_pem: String::new(),
        issuer: "https://sim".to_owned(),
        jwks: String::new(),
    }
}
