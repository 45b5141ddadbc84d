//! A process of an API server: the real server without its listener, with its own system of actors.
//!
//! A process is killed by cutting all of its connections at once, for good. Messages on the wire arrive; no later message does. Nothing observes what
//! the process's actors do until they are stopped.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use oarlock_apiserver::kubelets::Kubelets;
use oarlock_apiserver::{Assembly, Config, Egress, InProcess, Server, assemble};
use oarlock_auth::{Authenticators, UserInfo};
use oarlock_pki::{Pki, ServingNames, SigningKey, UnixTime};
use oarlock_runtime::shutdown::{Graces, shutdown};
use oarlock_runtime::{Gate, Options, Phase, System};
use oarlock_storage::Log;
use tokio_util::sync::CancellationToken;

use super::link::Link;

/// Time for which servers keep history, and the interval of their compaction.
pub(super) const WINDOW: Duration = Duration::from_secs(6);
const COMPACT_EVERY: Duration = Duration::from_secs(2);
/// Grace of each phase of an orderly shutdown, and of the removal of a killed process.
const GRACE: Duration = Duration::from_secs(5);
const BURIAL: Duration = Duration::from_millis(100);
/// Interval of the check for stuck actors.
const TICK: Duration = Duration::from_secs(2);

/// Keys shared by all servers; no test checks their signatures.
static KEYS: LazyLock<(Pki, Arc<SigningKey>)> = LazyLock::new(|| {
    let made = || Pki::ephemeral(&ServingNames::default(), UnixTime::since_unix_epoch(Duration::from_secs(1))).unwrap();
    (made(), Arc::new(made().service_account))
});

/// One process of an API server: the real server without its listener, and a system of actors.
pub(super) struct Process {
    pub(super) server: Server,
    /// The client of the API, as an administrator.
    pub(super) api: InProcess,
    /// Gate of the requests in progress.
    pub(super) requests: Gate,
    pub(super) life: CancellationToken,
    system: System,
}

impl Process {
    /// Starts a process; `None` when the process cannot read the log.
    pub(super) async fn start(host: String, link: Link) -> Option<Self> {
        let options = Options { host: host.as_str().into(), tick: TICK, watchdog: None };
        let (system, life) = (System::start(options).await.unwrap(), link.life.clone());
        let store = oarlock_store::Options { window: WINDOW, compact_every: COMPACT_EVERY, ..Default::default() };
        let assembly = assembly(host, Arc::new(link), store);
        match assemble(&system, assembly, |_| Authenticators::new()).await {
            Ok(server) => {
                let requests = system.gate("requests", Phase::Ingress);
                let api = InProcess::new(server.clone(), UserInfo::new("admin", ["system:masters"]), "sim/1");
                Some(Self { server, api, requests, life, system })
            }
            Err(error) => {
                tracing::debug!(%error, "it does not start yet");
                shutdown(&system, Graces::all(BURIAL)).await;
                None
            }
        }
    }

    /// Kills the process; the returned future stops its actors.
    pub(super) fn kill(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        self.sound();
        self.life.cancel();
        async move {
            shutdown(&self.system, Graces::all(BURIAL)).await;
        }
    }

    /// Shuts the process down in order: watches end after their last event, requests in progress may finish.
    pub(super) async fn end(&self) {
        self.sound();
        self.server.state().set_stopping();
        self.server.state().end_watches(Duration::ZERO);
        shutdown(&self.system, Graces::all(GRACE)).await;
        self.life.cancel();
    }

    /// Returns the output of the future; `None` when the process was killed.
    pub(super) async fn or_killed<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.life.cancelled() => None,
            value = future => Some(value),
        }
    }

    /// Checks that no fault has made one of the server's actors fail.
    pub(super) fn sound(&self) {
        assert_eq!(self.system.fatal(), None);
    }
}

/// Returns the inputs of a server with this host name.
pub(crate) fn assembly(host: String, log: Arc<dyn Log>, store: oarlock_store::Options) -> Assembly {
    let (pki, signer) = &*KEYS;
    let identity = (vec![pki.kubelet_client.certificate.clone()], pki.kubelet_client.key.to_rustls());
    let kubelets = Kubelets::new(identity, None).unwrap();
    let (signer, egress) = (Arc::clone(signer), Egress::default());
    Assembly { config: config(host), log, store, signer, kubelets, egress, disable_admission: Vec::new() }
}

fn config(identity: String) -> Config {
    Config {
        advertise_address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        port: 6443,
        service_cidr: "10.96.0.0/16".parse().unwrap(),
        node_ports: (30000, 32767),
        event_ttl: Duration::from_secs(3600),
        request_timeout: Duration::from_secs(60),
        goaway_chance: 0.0,
        termination: Default::default(),
        features: Default::default(),
        max_body: 3 << 20,
        limits: Default::default(),
        identity,
        ca_pem: String::new(),
        client_ca_pem: String::new(),
        front_proxy_ca_pem: String::new(),
        issuer: "https://sim".to_owned(),
        jwks: String::new(),
    }
}
