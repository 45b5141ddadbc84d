//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// A Kubernetes control plane: a crew of supervised actors that speaks the Kubernetes API.
#[derive(Debug, Parser)]
#[command(name = "oarlock", version, about, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The services.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// A whole cluster in one process.
    Up(Box<Up>),
    /// The API server.
    Apiserver(oarlock_service_apiserver::Args),
    /// Evaluates admission policies for API servers, over NATS. API servers evaluate policies themselves where no such process runs.
    Admission(oarlock_service_admission::Args),
    /// The scheduler, which acts as `system:kube-scheduler`.
    Scheduler(oarlock_service_scheduler::Args),
    /// All controllers; the manager acts as `system:kube-controller-manager`.
    ControllerManager(oarlock_service_controller_manager::Args),
    /// The controllers that use a cloud provider, which is a separate program; the manager acts as `system:cloud-controller-manager`.
    CloudControllerManager(oarlock_service_cloud_controller_manager::Args),
    /// The server of the tunnel to nodes that can only dial out, beside the API servers.
    KonnectivityServer(oarlock_service_konnectivity_server::Args),
    /// The agent of the tunnel, on nodes that can only dial out.
    KonnectivityAgent(oarlock_service_konnectivity_agent::Args),
    /// Makes the keys that several API servers share, kubeconfigs, and for each part of the control plane a folder or a Secret with the keys it needs.
    Keys(oarlock_service_apiserver::KeysArgs),
    /// Asks an API server, or the --secure-port of another part, for its health.
    Probe(crate::probe::Probe),
    /// A node agent, or many simulated ones.
    Kubelet(oarlock_service_kubelet::Args),
    /// Shows what a running control plane reports about itself.
    #[command(subcommand)]
    Inspect(crate::inspect::Verb),
    /// Shows where the time of an object's life went, from its creation to its readiness, and what a pod that is not Ready waits for.
    Trace(crate::trace::Trace),
    /// Makes copies of the whole state while it is in use, and restores them into any store.
    #[command(subcommand)]
    Snapshot(crate::snapshot::Verb),
}

/// Flags of `up`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Up {
    /// Directory for state, keys and kubeconfigs.
    #[arg(long, default_value = "./.oarlock", value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// Keep the state in memory only; the data directory then holds nothing but kubeconfigs.
    #[arg(long, conflicts_with = "etcd_servers")]
    pub(crate) ephemeral: bool,
    /// Number of simulated nodes.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub(crate) nodes: usize,
    /// What runs containers: `sim` simulates them on simulated nodes, `containerd` makes this machine the cluster's one node, named
    /// after the host.
    #[arg(long, default_value = "sim", value_parser = ["sim", "containerd"])]
    pub(crate) runtime: String,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub(crate) bind: IpAddr,
    /// Port to listen on. Without this flag 6443, or the next free port.
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Address under which pods reach the API server; never a loopback address. Without this flag one of this host's addresses.
    #[arg(long, value_name = "IP")]
    pub(crate) advertise_address: Option<IpAddr>,
    /// Parts to leave out: scheduler, controller-manager, kubelet, or a controller by name.
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    pub(crate) disable: Vec<String>,
    #[command(flatten)]
    pub(crate) controllers: oarlock_service_controller_manager::ControllerOptions,
    /// Directory with manifests of static pods, or a single manifest file; every node of this process runs them.
    #[arg(long, value_name = "PATH")]
    pub(crate) pod_manifest_path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) etcd: oarlock_service_apiserver::EtcdOptions,
    #[command(flatten)]
    pub(crate) store_options: oarlock_service_apiserver::StoreOptions,
    #[command(flatten)]
    pub(crate) features: oarlock_service_apiserver::FeatureOptions,
    #[command(flatten)]
    pub(crate) serving: oarlock_service_apiserver::ServingOptions,
    #[command(flatten)]
    pub(crate) kubelets: oarlock_service_apiserver::KubeletOptions,
    #[command(flatten)]
    pub(crate) egress: oarlock_config::EgressOptions,
    #[command(flatten)]
    pub(crate) shutdown: oarlock_service_apiserver::ShutdownOptions,
    /// How the API server reaches other processes, over NATS; the parts in this process need no NATS.
    #[command(flatten)]
    pub(crate) nats: oarlock_config::NatsOptions,
    #[command(flatten)]
    pub(crate) tracing: oarlock_config::TracingOptions,
    /// Log filter, such as `info` or `oarlock_store=debug,warn`.
    #[arg(long, default_value = "warn", value_name = "FILTER")]
    pub(crate) log: String,
    #[command(flatten)]
    pub(crate) machine: oarlock_service_kubelet::MachineArgs,
}
