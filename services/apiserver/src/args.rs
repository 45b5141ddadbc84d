//! Flags of `oarlock apiserver`; names follow upstream where it has them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use oarlock_apiserver::{Limits, Termination};
use oarlock_runtime::shutdown::Graces;
use oarlock_schema::FeatureGates;
use oarlock_store::{ColdOptions, DEFAULT_WINDOW_BYTES};

/// Longest time a request may take by default (upstream's default).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Flags of the API server.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where the state is kept: `embedded:DIR`, or `memory`. With --etcd-servers the state is kept in etcd instead.
    #[arg(long, default_value = "embedded:./.oarlock/store", value_name = "STORE", conflicts_with = "etcd_servers")]
    pub store: String,
    /// Flags about the etcd cluster that keeps the state.
    #[command(flatten)]
    pub etcd: EtcdOptions,
    /// Directory for keys and kubeconfigs.
    #[arg(long, default_value = "./.oarlock", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Folder with the keys and certificates that `oarlock keys --parts` made for API servers (its `apiserver/pki`). The server only reads the folder: the
    /// authorities' keys need not be in it, nothing is renewed, and no kubeconfig is written. Without this flag the keys of the data directory are used, and
    /// made where they are missing.
    #[arg(long, value_name = "DIR", conflicts_with = "tls_san")]
    pub pki_dir: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub bind_address: IpAddr,
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 6443, value_name = "PORT")]
    pub secure_port: u16,
    /// Address under which clients, nodes and pods reach this server; never a loopback address.
    #[arg(long, value_name = "IP")]
    pub advertise_address: Option<IpAddr>,
    /// Flags about the server's own certificate.
    #[command(flatten)]
    pub serving: ServingOptions,
    /// Flags about how much of the state's history stays in memory.
    #[command(flatten)]
    pub store_options: StoreOptions,
    /// Flags about feature gates.
    #[command(flatten)]
    pub features: FeatureOptions,
    /// Flags about the connections to kubelets.
    #[command(flatten)]
    pub kubelets: KubeletOptions,
    /// The ways to other servers.
    #[command(flatten)]
    pub egress: oarlock_config::EgressOptions,
    /// Flags about load limits and shutdown.
    #[command(flatten)]
    pub shutdown: ShutdownOptions,
    /// How to reach NATS, which connects this process to the other processes besides the API.
    #[command(flatten)]
    pub nats: oarlock_config::NatsOptions,
    /// Where spans go.
    #[command(flatten)]
    pub tracing: oarlock_config::TracingOptions,
    /// Log filter, such as `info` or `oarlock_store=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
}

/// Flags about feature gates, for every command that has an API server in it; names are upstream's.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FeatureOptions {
    /// Feature gates to change from the defaults of Kubernetes. A gate decides which fields are kept when an object is written. An unknown or locked gate is
    /// refused; a gate that governs no field has no effect, and the log warns of the gate.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "GATE=BOOL,…")]
    pub feature_gates: FeatureGates,
}

/// Flags about the server's own certificate.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ServingOptions {
    /// Further DNS names and addresses for the server's certificate, under which clients reach the server (kubeadm's `certSANs`).
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
    /// File with the certificate authorities that must have signed etcd's certificates. Without this flag the system's authorities are trusted.
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<PathBuf>,
    /// Client certificate for connections to etcd.
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,
    /// Key of the client certificate of --etcd-certfile.
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// User name for etcd's own authentication.
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    pub etcd_user: Option<String>,
    /// File with the password of the user of --etcd-user.
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    pub etcd_password_file: Option<PathBuf>,
}

/// Smallest watch window, in bytes: in a much smaller window most events would be too large to be delivered to watches.
const MIN_WINDOW_BYTES: u64 = 1 << 20;

/// Smallest cache of objects, in bytes: the cache is divided into shards, and a shard takes only objects of up to its own size.
const MIN_CACHE_BYTES: u64 = 1 << 20;

/// Default time to live of Events, the same as upstream's.
const DEFAULT_EVENT_TTL: Duration = Duration::from_secs(3600);

/// Default age of history that is given up, the same as upstream's.
const DEFAULT_COMPACTION_INTERVAL: Duration = Duration::from_secs(300);

/// Flags of the store, for every command that has an API server in it.
#[derive(Clone, Debug, clap::Args)]
pub struct StoreOptions {
    /// How long an Event is kept after its creation or last repetition; 0 keeps Events until a client deletes them.
    #[arg(long, default_value = "1h0m0s", value_name = "DURATION", value_parser = oarlock_config::duration)]
    pub event_ttl: Duration,
    /// How long history is kept for watches, lists of old revisions and continue tokens of lists. With 0 nothing is given up for its age, and etcd is left to
    /// other servers and its own compaction.
    #[arg(long, default_value = "5m0s", value_name = "DURATION", value_parser = oarlock_config::duration)]
    pub etcd_compaction_interval: Duration,
    /// Bytes of history kept in memory for watches and lists of old revisions, over all resources; at least 1 MiB. A client that asks for an older revision
    /// gets 410 Expired and must list again.
    #[arg(long, default_value_t = DEFAULT_WINDOW_BYTES, value_name = "BYTES", value_parser = window_bytes())]
    pub watch_window_bytes: usize,
    /// Bytes of objects at rest (unchanged for --etcd-compaction-interval, or since the watch window is full) that stay in memory; other objects at rest are read from the
    /// store on demand. Without this flag all objects stay in memory.
    #[arg(long, value_name = "BYTES", value_parser = RangedU64ValueParser::<usize>::new().range(MIN_CACHE_BYTES..))]
    pub cache_memory: Option<usize>,
    /// Folder for objects at rest that do not fit into --cache-memory, so that reads need not go to etcd. The folder is emptied at the start.
    #[arg(long, value_name = "DIR", requires = "cache_memory")]
    pub cache_dir: Option<PathBuf>,
    /// Largest size of --cache-dir, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30, requires = "cache_dir")]
    pub cache_disk: usize,
    /// For tests: objects count as at rest as soon as they are written, and the cache drops every other object.
    #[arg(long, hide = true, requires = "cache_memory")]
    pub cache_forget: bool,
}

/// Flags about load limits and shutdown, for every command that has an API server in it; names are upstream's.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ShutdownOptions {
    /// Probability that a request over HTTP/2 closes its connection (GOAWAY), so that clients behind a load balancer spread over the servers again: 0 to 0.02;
    /// 0.001 is a good start. Leave at 0 for a single server, or without a load balancer.
    #[arg(long, default_value_t = 0.0, value_name = "FRACTION", value_parser = goaway_chance)]
    pub goaway_chance: f64,
    /// On SIGTERM, keep serving for this long while /readyz fails, so that load balancers can notice.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = oarlock_config::duration)]
    pub shutdown_delay_duration: Duration,
    /// After --shutdown-delay-duration, answer new requests with 429 and Retry-After until the requests in flight are done, and only then close the socket.
    #[arg(long)]
    pub shutdown_send_retry_after: bool,
    /// Spread the end of watches over up to this long, so that clients do not all reconnect to other servers at once.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = oarlock_config::duration)]
    pub shutdown_watch_termination_grace_period: Duration,
    /// Flags about concurrent requests and connections.
    #[command(flatten)]
    pub limits: LimitOptions,
}

/// Flags about how many requests and connections an API server serves at once; names are upstream's where it has them.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct LimitOptions {
    /// Reading requests that may be in flight at once; further ones are answered with 429 and Retry-After. A quarter is reserved for nodes, the control plane
    /// and Leases. Watches, logs, exec, attach, port-forward and proxies do not count; 0 means no limit.
    #[arg(long, value_name = "N", default_value_t = Self::default().max_requests_inflight)]
    pub max_requests_inflight: usize,
    /// Changing requests that may be in flight at once; further ones are answered like those above --max-requests-inflight.
    #[arg(long, value_name = "N", default_value_t = Self::default().max_mutating_requests_inflight)]
    pub max_mutating_requests_inflight: usize,
    /// Connections that the API server keeps open at once. A further connection is closed as soon as it is accepted; open ones stay. 0 means no limit.
    #[arg(long, value_name = "N", default_value_t = Self::default().max_connections)]
    pub max_connections: usize,
    /// Logs, exec, attach, port-forward and proxies that may be open at once; further ones are answered like requests above --max-requests-inflight, and shared among users like these.
    /// 0 means no limit.
    #[arg(long, value_name = "N", default_value_t = Self::default().max_streams)]
    pub max_streams: usize,
    /// Time limit of a request that is not long-running, and of a client that reads nothing of a large answer.
    #[arg(long, default_value = "1m", value_name = "DURATION", value_parser = oarlock_config::duration)]
    pub request_timeout: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            event_ttl: DEFAULT_EVENT_TTL,
            etcd_compaction_interval: DEFAULT_COMPACTION_INTERVAL,
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
        let Limits { reads, writes, connections, streams } = Limits::default();
        Self {
            max_requests_inflight: reads,
            max_mutating_requests_inflight: writes,
            max_connections: connections,
            max_streams: streams,
            request_timeout: REQUEST_TIMEOUT,
        }
    }
}

impl From<LimitOptions> for Limits {
    fn from(flags: LimitOptions) -> Self {
        Self {
            reads: flags.max_requests_inflight,
            writes: flags.max_mutating_requests_inflight,
            connections: flags.max_connections,
            streams: flags.max_streams,
        }
    }
}

impl ShutdownOptions {
    /// Returns the delays and steps of the API server's own shutdown.
    #[must_use]
    pub fn termination(&self) -> Termination {
        Termination {
            delay: self.shutdown_delay_duration,
            send_retry_after: self.shutdown_send_retry_after,
            watches: self.shutdown_watch_termination_grace_period,
        }
    }

    /// Returns how long each phase of the process's shutdown may take.
    #[must_use]
    pub fn graces(&self) -> Graces {
        self.termination().graces(self.limits.request_timeout)
    }
}

fn goaway_chance(text: &str) -> Result<f64, String> {
    let chance = text.parse::<f64>().map_err(|error| error.to_string())?;
    if (0.0..=0.02).contains(&chance) { Ok(chance) } else { Err("must be between 0 and 0.02".to_owned()) }
}

/// Default of --kubelet-preferred-address-types. Addresses come before host names, as with kubeadm, because the API server's host can rarely resolve node
/// names.
const ADDRESS_TYPES: &str = "InternalIP,ExternalIP,Hostname";

/// Flags about the connections to kubelets, for every command that has an API server in it; names are upstream's.
#[derive(Clone, Debug, clap::Args)]
pub struct KubeletOptions {
    /// Client certificate for connections to kubelets. Without this flag the data directory's `kube-apiserver-kubelet-client`.
    #[arg(long, value_name = "FILE", requires = "kubelet_client_key")]
    pub kubelet_client_certificate: Option<PathBuf>,
    /// Key of the client certificate of --kubelet-client-certificate.
    #[arg(long, value_name = "FILE", requires = "kubelet_client_certificate")]
    pub kubelet_client_key: Option<PathBuf>,
    /// File with the certificate authorities that must have signed kubelets' certificates. Without this flag the data directory's; with an empty name every
    /// certificate is accepted.
    #[arg(long, value_name = "FILE")]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// Types of node addresses to connect to, in order of preference.
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
    RangedU64ValueParser::new().range(MIN_WINDOW_BYTES..)
}

impl From<StoreOptions> for oarlock_store::Options {
    fn from(flags: StoreOptions) -> Self {
        let StoreOptions {
            etcd_compaction_interval: window,
            watch_window_bytes: window_bytes,
            cache_memory,
            cache_dir,
            cache_disk,
            cache_forget,
            event_ttl: _,
        } = flags;
        let cold = cache_memory.map(|memory_bytes| ColdOptions {
            memory_bytes,
            disk: cache_dir.map(|folder| (folder, cache_disk)),
            prefixes: oarlock_registry::cold::prefixes(),
            forgetful: cache_forget,
        });
        let defaults = Self::default();
        let compact_every = if window.is_zero() { defaults.compact_every } else { defaults.compact_every.min(window) };
        Self { window, window_bytes, compact_every, cold, ..defaults }
    }
}
