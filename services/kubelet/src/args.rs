//! Flags of `oarlock kubelet`.

use std::path::PathBuf;

use crate::machine::MachineArgs;

/// Flags of the kubelet.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How to reach the API. Where the kubeconfig is a folder, the folder holds `<node>.kubeconfig` of each node, as `oarlock keys --part-nodes` writes them.
    #[command(flatten)]
    pub api: oarlock_config::ApiOptions,
    /// What runs containers: `sim` simulates them, `containerd` makes this machine a node.
    #[arg(long, default_value = "sim", value_parser = ["sim", "containerd"])]
    pub runtime: String,
    /// Number of simulated nodes to host. Each node authenticates as itself, so more than one needs a folder of kubeconfigs, or --data-dir.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=5000))]
    pub count: u16,
    /// Name of the node; with --count above 1 names are made of --name-prefix and a number. Default: the node that the kubeconfig's client certificate names
    /// (with --data-dir: the host's name).
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,
    /// Prefix of the names of several nodes.
    #[arg(long, default_value = "node-", value_name = "PREFIX")]
    pub name_prefix: String,
    /// Data directory of the cluster, whose CA key signs a client certificate for each node (kept in memory only). Without this flag the kubeconfig must
    /// identify `system:node:<node name>`. With the CA key any identity can be assumed, so use this flag on a single host and for trials only.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Directory with manifests of static pods, or a single manifest file; every node of this process runs them.
    #[arg(long, value_name = "PATH")]
    pub pod_manifest_path: Option<PathBuf>,
    /// Flags of the kubelet's own server.
    #[command(flatten)]
    pub serve: crate::serve::ServeArgs,
    /// How to reach NATS, which connects this process to the other processes besides the API.
    #[command(flatten)]
    pub nats: oarlock_config::NatsOptions,
    /// Where spans go.
    #[command(flatten)]
    pub tracing: oarlock_config::TracingOptions,
    /// Log filter, such as `info` or `oarlock_kubelet=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
    /// Flags of a node that is this machine.
    #[command(flatten)]
    pub machine: MachineArgs,
}
