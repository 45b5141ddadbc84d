//! A process: a real server, all of it but its listener, with its own system of actors.
//!
//! It is killed by cutting it off from everything at once, for good: its messages that are under way arrive, and nothing else of it is ever
//! heard. What its actors still do until they are taken down is seen by nobody.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use oarlock_apiserver::kubelets::Kubelets;
use oarlock_apiserver::{Assembly, Config, InProcess, Server, assemble};
use oarlock_auth::{Authenticators, UserInfo};
use oarlock_pki::{Pki, ServingNames, SigningKey, UnixTime};
use oarlock_runtime::shutdown::{Graces, shutdown};
use oarlock_runtime::{Gate, Options, Phase, System};
use oarlock_storage::Log;
use tokio_util::sync::CancellationToken;

use super::link::Link;

/// For how long servers keep history, and how often they look.
pub(super) const WINDOW: Duration = Duration::from_secs(6);
const COMPACT_EVERY: Duration = Duration::from_secs(2);
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

/// One process of an API server: the real server without its listener, and a system of actors.
pub(super) struct Process {
    pub(super) server: Server,
    /// What clients call, as an administrator.
    pub(super) api: InProcess,
    /// Those under way.
    pub(super) requests: Gate,
    pub(super) life: CancellationToken,
    system: System,
}

impl Process {
    /// Starts one; `None` when it cannot read the log.
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

    /// Kills it; the future takes away what is left.
    pub(super) fn kill(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        self.sound();
        self.life.cancel();
        async move {
            shutdown(&self.system, Graces::all(BURIAL)).await;
        }
    }

    /// Ends it in good order: watches end behind their last event, requests are given their time.
    pub(super) async fn end(&self) {
        self.sound();
        self.server.state().set_stopping();
        self.server.state().end_watches(Duration::ZERO);
        shutdown(&self.system, Graces::all(GRACE)).await;
        self.life.cancel();
    }

    /// What the future came to; `None` when the process was killed.
    pub(super) async fn or_killed<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.life.cancelled() => None,
            value = future => Some(value),
        }
    }

    /// Nothing that is done to a server makes it fail.
    pub(super) fn sound(&self) {
        assert_eq!(self.system.fatal(), None);
    }
}

/// What a server of that name is made of.
pub(crate) fn assembly(host: String, log: Arc<dyn Log>, store: oarlock_store::Options) -> Assembly {
    let (pki, signer) = &*KEYS;
    let identity = (vec![pki.kubelet_client.certificate.clone()], pki.kubelet_client.key.to_rustls());
    let kubelets = Kubelets::new(identity, None).unwrap();
    Assembly { config: config(host), log, store, signer: Arc::clone(signer), kubelets, disable_admission: Vec::new() }
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
