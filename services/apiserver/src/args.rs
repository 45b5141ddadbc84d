//! Flags of `oarlock apiserver`; names follow upstream where it has them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use oarlock_apiserver::{Limits, Termination};
use oarlock_runtime::shutdown::Graces;
use oarlock_schema::FeatureGates;
use oarlock_store::{ColdOptions, DEFAULT_WINDOW_BYTES};

/// Flags of the API server.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where the state is kept: `embedded:DIR`, or `memory`. With --etcd-servers it is kept there.
    #[arg(long, default_value = "embedded:./.oarlock/store", value_name = "STORE", conflicts_with = "etcd_servers")]
    pub store: String,
    /// The etcd cluster that keeps the state.
    #[command(flatten)]
    pub etcd: EtcdOptions,
    /// Where keys and kubeconfigs are kept.
    #[arg(long, default_value = "./.oarlock", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Folder with the keys and certificates that `oarlock keys --parts` made for API servers (its `apiserver/pki`). They are used as they are: authorities'
    /// keys need not be there, nothing is renewed, and no kubeconfig is written. Without this flag the keys of the data directory are used, and made where
    /// they are missing.
    #[arg(long, value_name = "DIR", conflicts_with = "tls_san")]
    pub pki_dir: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub bind_address: IpAddr,
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 6443, value_name = "PORT")]
    pub secure_port: u16,
    /// Address under which others reach this server, never a loopback address.
    #[arg(long, value_name = "IP")]
    pub advertise_address: Option<IpAddr>,
    /// As what it shows itself.
    #[command(flatten)]
    pub serving: ServingOptions,
    /// How much of the state's history is kept at hand.
    #[command(flatten)]
    pub store_options: StoreOptions,
    /// Which feature gates are on.
    #[command(flatten)]
    pub features: FeatureOptions,
    /// How kubelets are reached.
    #[command(flatten)]
    pub kubelets: KubeletOptions,
    /// How it makes room and ends.
    #[command(flatten)]
    pub going: GoingOptions,
    /// How the other processes are reached, besides the API.
    #[command(flatten)]
    pub nats: oarlock_config::NatsOptions,
    /// Log filter, such as `info` or `oarlock_store=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}

/// Flags about feature gates, for every command that has an API server in it; names are upstream's.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FeatureOptions {
    /// Feature gates that are to differ from the defaults of Kubernetes. A gate decides which fields are kept when an object is written. An unknown or locked
    /// gate is refused; a gate that decides about no field has no effect, and the log warns of it.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "GATE=BOOL,…")]
    pub feature_gates: FeatureGates,
}

/// Flags about the server's own certificate.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ServingOptions {
    /// Further names and addresses by which clients call the server: its certificate carries them (kubeadm's `certSANs`).
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub tls_san: Vec<String>,
}

/// Flags about etcd; names are upstream's where it has them.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct EtcdOptions {
    /// Client URLs of etcd's members, 3.5.13 or later. Any number of API servers may share them.
    #[arg(long, value_delimiter = ',', value_name = "URL,…")]
    pub etcd_servers: Vec<String>,
    /// Prefix of all keys in etcd.
    #[arg(long, default_value = oarlock_storage::etcd::PREFIX, value_name = "PREFIX")]
    pub etcd_prefix: String,
    /// Authorities that must have signed etcd's certificates. Without it the system's.
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<PathBuf>,
    /// Client certificate that is shown to etcd.
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// User of etcd's own authentication.
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    pub etcd_user: Option<String>,
    /// Its password, in a file.
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    pub etcd_password_file: Option<PathBuf>,
}

/// The least a watch window may be: far below it every other event would be too large to be watched at all.
const LEAST_WINDOW: u64 = 1 << 20;

/// The least that may stay in memory: the cache is divided, and each part takes objects of up to its size.
const LEAST_CACHE: u64 = 1 << 20;

/// How long Events stay, as upstream's servers keep them.
const DEFAULT_EVENT_TTL: Duration = Duration::from_secs(3600);

/// Flags of the store, for every command that has an API server in it.
#[derive(Clone, Debug, clap::Args)]
pub struct StoreOptions {
    /// How long an Event is kept after it was made or last repeated; 0 keeps it until somebody deletes it.
    #[arg(long, default_value = "1h0m0s", value_name = "DURATION", value_parser = oarlock_config::duration)]
    pub event_ttl: Duration,
    /// Bytes of history kept in memory for watches and lists of old revisions, all resources together; at least 1 MiB.
    /// Who asks for anything older gets 410 Expired and lists anew.
    #[arg(long, default_value_t = DEFAULT_WINDOW_BYTES, value_name = "BYTES", value_parser = window_bytes())]
    pub watch_window_bytes: usize,
    /// Bytes of objects at rest (unchanged for five minutes, or since the watch window is full) that stay in memory; the others are read
    /// back from the store when they are asked for. Without it everything stays in memory.
    #[arg(long, value_name = "BYTES", value_parser = RangedU64ValueParser::<usize>::new().range(LEAST_CACHE..))]
    pub cache_memory: Option<usize>,
    /// A folder in which objects at rest are kept that memory has no room for, so that they need not be asked of etcd. It is emptied at the
    /// start.
    #[arg(long, value_name = "DIR", requires = "cache_memory")]
    pub cache_dir: Option<PathBuf>,
    /// The most that --cache-dir may hold, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30, requires = "cache_dir")]
    pub cache_disk: usize,
    /// For tests: objects rest as soon as they are written, and the cache forgets every other one.
    #[arg(long, hide = true, requires = "cache_memory")]
    pub cache_forget: bool,
}

/// Flags about moving clients to other API servers, for every command that has an API server in it; names are upstream's.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct GoingOptions {
    /// Fraction of requests over HTTP/2 after which their connection is closed (GOAWAY), so that clients behind a balancer spread again: 0 to
    /// 0.02; 0.001 is a good start. Not for a single server, or without a balancer.
    #[arg(long, default_value_t = 0.0, value_name = "FRACTION", value_parser = goaway_chance)]
    pub goaway_chance: f64,
    /// On SIGTERM, go on serving for this long with /readyz failing, so that balancers can look.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = oarlock_config::duration)]
    pub shutdown_delay_duration: Duration,
    /// After that, answer new requests with 429 and Retry-After until the present ones are done, and close the socket only then.
    #[arg(long)]
    pub shutdown_send_retry_after: bool,
    /// Spread the end of watches over up to this long, so that they do not all begin anew elsewhere at once.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = oarlock_config::duration)]
    pub shutdown_watch_termination_grace_period: Duration,
    /// How much it takes on at once.
    #[command(flatten)]
    pub limits: LimitOptions,
}

/// Flags about how much an API server takes on at once; names are upstream's where it has them.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct LimitOptions {
    /// Reading requests that may be in flight at once; further ones are answered with 429 and Retry-After. A quarter is kept for nodes, the control plane and
    /// Leases. Watches, logs, exec, attach, port-forward and proxies do not count; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = Self::default().max_requests_inflight)]
    pub max_requests_inflight: usize,
    /// Changing requests that may be in flight at once; further ones are answered as those of --max-requests-inflight.
    #[arg(long, value_name = "N", default_value_t = Self::default().max_mutating_requests_inflight)]
    pub max_mutating_requests_inflight: usize,
    /// Connections that the API server keeps open at once. A further connection is closed as soon as it is accepted; open ones stay. 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = Self::default().max_connections)]
    pub max_connections: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            event_ttl: DEFAULT_EVENT_TTL,
            watch_window_bytes: DEFAULT_WINDOW_BYTES,
            cache_memory: None,
            cache_dir: None,
            cache_disk: 1 << 30,
            cache_forget: false,
        }
    }
}

impl Default for LimitOptions {
    fn default() -> Self {
        let Limits { reads, writes, connections } = Limits::default();
        Self { max_requests_inflight: reads, max_mutating_requests_inflight: writes, max_connections: connections }
    }
}

impl From<LimitOptions> for Limits {
    fn from(flags: LimitOptions) -> Self {
        Self {
            reads: flags.max_requests_inflight,
            writes: flags.max_mutating_requests_inflight,
            connections: flags.max_connections,
        }
    }
}

impl GoingOptions {
    /// How the server ends.
    #[must_use]
    pub fn termination(&self) -> Termination {
        Termination {
            delay: self.shutdown_delay_duration,
            send_retry_after: self.shutdown_send_retry_after,
            watches: self.shutdown_watch_termination_grace_period,
        }
    }

    /// How long the phases of the process's shutdown may take.
    #[must_use]
    pub fn graces(&self) -> Graces {
        self.termination().graces(crate::assemble::REQUEST_TIMEOUT)
    }
}

fn goaway_chance(text: &str) -> Result<f64, String> {
    let chance = text.parse::<f64>().map_err(|error| error.to_string())?;
    if (0.0..=0.02).contains(&chance) { Ok(chance) } else { Err("must be between 0 and 0.02".to_owned()) }
}

/// As kubeadm has it: names of nodes are rarely known to the machine of the API server.
const ADDRESS_TYPES: &str = "InternalIP,ExternalIP,Hostname";

/// Flags about the way to kubelets, for every command that has an API server in it; names are upstream's.
#[derive(Clone, Debug, clap::Args)]
pub struct KubeletOptions {
    /// Client certificate that is shown to kubelets. Without it the data directory's, `kube-apiserver-kubelet-client`.
    #[arg(long, value_name = "FILE", requires = "kubelet_client_key")]
    pub kubelet_client_certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "kubelet_client_certificate")]
    pub kubelet_client_key: Option<PathBuf>,
    /// Authorities that must have signed kubelets' certificates. Without it the data directory's; an empty name believes every kubelet.
    #[arg(long, value_name = "FILE")]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// Which of a node's addresses is called, best first.
    #[arg(long, value_delimiter = ',', default_value = ADDRESS_TYPES, value_name = "TYPE,…")]
    pub kubelet_preferred_address_types: Vec<String>,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        let types = ADDRESS_TYPES.split(',').map(str::to_owned).collect();
        Self {
            kubelet_client_certificate: None,
            kubelet_client_key: None,
            kubelet_certificate_authority: None,
            kubelet_preferred_address_types: types,
        }
    }
}

fn window_bytes() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(LEAST_WINDOW..)
}

impl From<StoreOptions> for oarlock_store::Options {
    fn from(flags: StoreOptions) -> Self {
        let StoreOptions {
            watch_window_bytes: window_bytes, cache_memory, cache_dir, cache_disk, cache_forget, ..
        } = flags;
        let cold = cache_memory.map(|memory_bytes| ColdOptions {
            memory_bytes,
            disk: cache_dir.map(|folder| (folder, cache_disk)),
            prefixes: oarlock_registry::rest::prefixes(),
            forgetful: cache_forget,
        });
        Self { window_bytes, cold, ..Self::default() }
    }
}
