//! Builds an API server from a data directory, for `oarlock up` and `oarlock apiserver` alike.

mod address;
mod egress;
mod etcd;
pub(crate) mod kubeconfigs;
mod kubelets;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::future::BoxFuture;
use oarlock_apiserver::kubelets::LocalKubelets;
use oarlock_apiserver::{Config, Egress, Options, Server};
use oarlock_auth::tokens::DEFAULT_ISSUER;
use oarlock_config::{DataDir, EgressOptions};
use oarlock_pki::{Pki, ServingNames, UnixTime};
use oarlock_runtime::{System, clock, rng};
use oarlock_schema::FeatureGates;
use oarlock_storage::MemoryLog;
use oarlock_storage::embedded::{self, EmbeddedLog};
use oarlock_storage::{Fatal, FatalHook, Log};
use tokio::net::TcpListener;

use self::kubeconfigs::Servers;
use crate::args::{EtcdOptions, KubeletOptions, ServingOptions, ShutdownOptions, StoreOptions};

/// Port that is tried first when the caller names none.
const PORT: u16 = 6443;
/// Number of ports above [`PORT`] to try when the caller names none and a port is taken.
const MORE_PORTS: u16 = 64;
/// Range of Service cluster IPs.
const SERVICE_CIDR: &str = "10.96.0.0/16";

/// Settings of a cluster's API server.
#[derive(Clone)]
pub struct Cluster {
    /// Directory with keys, kubeconfigs and, for a store that is not in memory, the state.
    pub data_dir: PathBuf,
    /// Folder with existing keys and certificates to use; `None` makes them in the data directory.
    pub pki: Option<PathBuf>,
    /// Where the state is kept.
    pub store: Store,
    /// Settings of the watch window, the cache and the time to live of Events.
    pub store_options: StoreOptions,
    /// Feature gates.
    pub features: FeatureGates,
    /// Address to listen on.
    pub bind: IpAddr,
    /// Port to listen on; `None` takes 6443 or the next free one.
    pub port: Option<u16>,
    /// Address under which clients, nodes and pods reach the server.
    pub advertise_address: Option<IpAddr>,
    /// Settings of the server's own certificate.
    pub serving: ServingOptions,
    /// Settings of the connections to kubelets.
    pub kubelets: KubeletOptions,
    /// The ways to other servers.
    pub egress: EgressOptions,
    /// Settings of load limits and shutdown.
    pub shutdown: ShutdownOptions,
    /// Kubelets of this process, which the server calls without a network.
    pub local: Option<Arc<dyn LocalKubelets>>,
}

impl Cluster {
    /// Returns settings for a server at a free port of the loopback address; all other settings are the flags' defaults.
    #[must_use]
    pub fn new(data_dir: PathBuf, store: Store) -> Self {
        Self {
            data_dir,
            pki: None,
            store,
            store_options: StoreOptions::default(),
            features: FeatureGates::default(),
            bind: Ipv4Addr::LOCALHOST.into(),
            port: Some(0),
            advertise_address: None,
            serving: ServingOptions::default(),
            kubelets: KubeletOptions::default(),
            egress: EgressOptions::default(),
            shutdown: ShutdownOptions::default(),
            local: None,
        }
    }
}

/// Kind of store that keeps the cluster's state.
#[derive(Clone)]
pub enum Store {
    /// An embedded store in this folder.
    Embedded(PathBuf),
    /// A store in memory; keys are not kept either.
    Memory,
    /// In an etcd cluster, which other servers may share.
    Etcd(EtcdOptions),
    /// In a log that the caller has opened; keys are not kept.
    Open(Arc<dyn Log>),
}

impl std::fmt::Display for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Embedded(folder) => folder.display().fmt(f),
            Self::Memory | Self::Open(_) => f.write_str("memory"),
            Self::Etcd(flags) => f.write_str(&flags.etcd_servers.join(",")),
        }
    }
}

impl std::str::FromStr for Store {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text.split_once(':') {
            Some(("embedded", dir)) if !dir.is_empty() => Ok(Self::Embedded(dir.into())),
            None if text == "memory" => Ok(Self::Memory),
            _ => anyhow::bail!("--store {text:?}: neither embedded:DIR nor memory"),
        }
    }
}

/// A running API server.
#[derive(Clone, Debug)]
pub struct Api {
    /// The server, for parts in this process.
    pub server: Server,
    /// Address the server listens on.
    pub address: SocketAddr,
    /// Path of the user's kubeconfig, which is not written when [`Cluster::pki`] is given.
    pub kubeconfig: PathBuf,
    /// Lock on the data directory, which keeps other processes from using it.
    _lock: Arc<std::fs::File>,
}

/// Returns the current time in the form certificates use.
pub(crate) fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(clock::wall().as_second()).unwrap_or(0)))
}

/// Starts the server and writes the kubeconfigs.
///
/// # Errors
/// When the directory is in use or unusable, the port is taken, the store cannot be loaded.
pub fn start(system: &System, cluster: Cluster) -> BoxFuture<'_, anyhow::Result<Api>> {
    Box::pin(begin(system, cluster))
}

async fn begin(system: &System, cluster: Cluster) -> anyhow::Result<Api> {
    let directory = DataDir::new(&cluster.data_dir);
    folder("--data-dir", directory.root())?;
    warn_of_unused_gates(&cluster.features);
    let egress = egress::from_file(&cluster.egress)?;
    let lock = lock(&directory)?;
    let listener = bind(cluster.bind, cluster.port).await?;
    let address = listener.local_addr()?;
    let advertise = match cluster.advertise_address {
        Some(ip) if ip.to_canonical().is_loopback() => {
            anyhow::bail!("--advertise-address {ip}: Endpoints cannot hold a loopback address")
        }
        Some(ip) => ip,
        None => address::of_host(cluster.bind)?,
    };
    let service_cidr: ipnet::IpNet = SERVICE_CIDR.parse()?;
    let first_service_ip = service_cidr.hosts().next().context("the service range is empty")?;
    let names = ServingNames {
        addresses: vec![first_service_ip, advertise, cluster.bind],
        more: cluster.serving.tls_san.clone(),
        ..ServingNames::default()
    };
    let now = now();
    let pki = match (&cluster.pki, &cluster.store) {
        (Some(folder), _) => Pki::read(folder)?,
        (None, Store::Memory | Store::Open(_)) => Pki::ephemeral(&names, now)?,
        (None, Store::Embedded(_) | Store::Etcd(_)) => Pki::open(&directory.pki(), &names, now)?,
    };
    let kubeconfig = match &cluster.pki {
        Some(_) => directory.kubeconfig(),
        None => kubeconfigs::write(&directory, &pki, &Servers::at(address), now)?,
    };
    let config = Config {
        advertise_address: advertise,
        port: address.port(),
        service_cidr,
        node_ports: (30000, 32767),
        event_ttl: cluster.store_options.event_ttl,
        request_timeout: cluster.shutdown.limits.request_timeout,
        goaway_chance: cluster.shutdown.goaway_chance,
        termination: cluster.shutdown.termination(),
        features: cluster.features,
        max_body: 3 << 20,
        limits: cluster.shutdown.limits.into(),
        identity: identity(),
        ca_pem: String::new(),
        client_ca_pem: String::new(),
        front_proxy_ca_pem: String::new(),
        issuer: DEFAULT_ISSUER.to_owned(),
        jwks: String::new(),
    };
    let kubelets = kubelets::way(&pki, &cluster.kubelets, cluster.local)?;
    let options = Options {
        config,
        pki,
        log: open_through(&cluster.store, &egress, shut_down_on_fault(system)).await?,
        store: cluster.store_options.into(),
        listener,
        kubelets,
        egress,
        disable_admission: Vec::new(),
    };
    let running = oarlock_apiserver::start(system, options).await?;
    Ok(Api { server: running.server, address: running.address, kubeconfig, _lock: lock })
}

/// Creates the folder that a flag names, with access for its owner only.
fn folder(flag: &str, path: &Path) -> anyhow::Result<()> {
    oarlock_storage::private::folder(path).with_context(|| {
        // The operating system's error names neither the folder nor the missing part of its path.
        let existing = path.ancestors().find(|parent| parent.exists());
        let below = existing.map(|parent| format!(" below {}", parent.display())).unwrap_or_default();
        format!("{flag} {}: the folder cannot be made{below}", path.display())
    })
}

/// Warns of changed feature gates that govern no field: the API server uses gates for nothing else.
fn warn_of_unused_gates(gates: &FeatureGates) {
    for (gate, on) in gates.changed().filter(|(gate, _)| !oarlock_apis::DisabledFields::governs(gate.name)) {
        tracing::warn!(
            gate = gate.name,
            on,
            "the feature gate decides about no field, and nothing else here asks for it"
        );
    }
}

/// Locks the data directory, which one process at a time may use.
fn lock(directory: &DataDir) -> anyhow::Result<Arc<std::fs::File>> {
    let path = directory.lock();
    let file =
        std::fs::File::create(&path).with_context(|| format!("--data-dir: {} cannot be made", path.display()))?;
    file.try_lock().with_context(|| format!("{} is in use by another process", directory.root().display()))?;
    Ok(Arc::new(file))
}

async fn bind(ip: IpAddr, port: Option<u16>) -> anyhow::Result<TcpListener> {
    if let Some(port) = port {
        return TcpListener::bind((ip, port)).await.with_context(|| format!("{ip}:{port}"));
    }
    for port in PORT..=PORT + MORE_PORTS {
        match TcpListener::bind((ip, port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).with_context(|| format!("{ip}:{port}")),
        }
    }
    anyhow::bail!("{ip}: ports {PORT} to {} are all taken", PORT + MORE_PORTS)
}

/// Name of an embedded store's file inside the store's folder.
pub const STORE_FILE: &str = "oarlock.redb";

/// Opens the log of a store. The log calls `fatal` after a fault that makes further writes unsafe.
///
/// # Errors
/// When the store cannot be reached or used, or another process uses it.
pub async fn open(store: &Store, fatal: FatalHook) -> anyhow::Result<Arc<dyn Log>> {
    open_through(store, &Egress::default(), fatal).await
}

/// Opens the log of a store; the members of etcd are reached as `egress` says.
async fn open_through(store: &Store, egress: &Egress, fatal: FatalHook) -> anyhow::Result<Arc<dyn Log>> {
    let directory: &Path = match store {
        Store::Memory => return Ok(Arc::new(MemoryLog::new())),
        Store::Etcd(flags) => return etcd::open(flags, egress).await,
        Store::Open(log) => return Ok(Arc::clone(log)),
        Store::Embedded(directory) => directory,
    };
    folder("--store", directory)?;
    let path = directory.join(STORE_FILE);
    let log = EmbeddedLog::open(&path, &embedded::Options::new(fatal))
        .with_context(|| format!("store {}", path.display()))?;
    Ok(Arc::new(log))
}

/// Returns a hook that shuts the process down in order after a fatal fault of the store.
fn shut_down_on_fault(system: &System) -> FatalHook {
    let system = system.clone();
    Arc::new(move |fault: &Fatal| {
        system.fail(oarlock_runtime::Fatal { actor: "store".to_owned(), error: fault.to_string() });
    })
}

/// Returns a random identity that tells this server from other API servers; each start gives another one (upstream derives it from the host).
fn identity() -> String {
    format!("{:016x}{:016x}", rng::u64(), rng::u64())
}
