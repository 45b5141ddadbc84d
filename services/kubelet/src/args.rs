//! Flags of `oarlock kubelet`.

use std::path::PathBuf;

use crate::machine::MachineArgs;

/// Flags of the kubelet.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How the API is reached. Where the kubeconfig is a folder, it holds `<node>.kubeconfig` of each node, as `oarlock keys --part-nodes` writes them.
    #[command(flatten)]
    pub api: oarlock_config::ApiOptions,
    /// What runs containers: `sim` simulates them, `containerd` makes this machine a node.
    #[arg(long, default_value = "sim", value_parser = ["sim", "containerd"])]
    pub runtime: String,
    /// Number of simulated nodes to host. Each node acts as itself, so more than one needs a folder of kubeconfigs, or
    /// --data-dir.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=5000))]
    pub count: u16,
    /// Name of the node; with --count above 1 names are made of --name-prefix and a number. Default: the name that the
    /// kubeconfig's identity says (with --data-dir: the host's name).
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,
    /// What the names of several nodes begin with.
    #[arg(long, default_value = "node-", value_name = "PREFIX")]
    pub name_prefix: String,
    /// Data directory of the cluster, whose CA key signs a client certificate for each node (kept in memory only).
    /// Without it the kubeconfig must speak for `system:node:<node name>`. Whoever has the CA key can act as anybody, so use this flag on a single host and
    /// for trials only.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Directory with manifests of static pods, or one such file; every node of this process runs them.
    #[arg(long, value_name = "PATH")]
    pub pod_manifest_path: Option<PathBuf>,
    /// The kubelet's own server.
    #[command(flatten)]
    pub serve: crate::serve::ServeArgs,
    /// How the other processes are reached, besides the API.
    #[command(flatten)]
    pub nats: oarlock_config::NatsOptions,
    /// Log filter, such as `info` or `oarlock_kubelet=debug,warn`.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log: String,
    /// The machine as a node.
    #[command(flatten)]
    pub machine: MachineArgs,
}
