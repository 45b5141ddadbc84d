//! Flags of a node that is the machine itself, and the node configuration made from them.

use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use oarlock_kubelet::{Containerd, Machine, NodeConfig};
use oarlock_meta::GoDuration;

/// Flags that have an effect with `--runtime containerd` only.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "With --runtime containerd")]
pub struct MachineArgs {
    /// Socket of the CRI runtime. The kubelet treats every pod of the runtime as its own.
    #[arg(long, default_value = "unix:///run/containerd/containerd.sock", value_name = "ENDPOINT")]
    pub container_runtime_endpoint: String,
    /// Directory for volumes and other files of pods.
    #[arg(long, default_value = "/var/lib/kubelet", value_name = "DIR")]
    pub root_dir: PathBuf,
    /// Directory for containers' logs.
    #[arg(long, default_value = "/var/log/pods", value_name = "DIR")]
    pub pod_logs_dir: PathBuf,
    /// Cgroup below which the pods' cgroups are made; two kubelets of one machine need different ones.
    #[arg(long, default_value = "", value_name = "PATH", hide_default_value = true)]
    pub cgroup_root: String,
    /// Address of the node. Without this flag the address from which this host reaches other hosts; for simulated nodes, the address their server listens on.
    #[arg(long, value_name = "IP")]
    pub node_ip: Option<IpAddr>,
    /// Addresses of the cluster's DNS servers; without any, pods use the node's resolvers.
    #[arg(long, value_delimiter = ',', value_name = "IP,…")]
    pub cluster_dns: Vec<IpAddr>,
    /// DNS domain of the cluster.
    #[arg(long, default_value = "cluster.local", value_name = "DOMAIN")]
    pub cluster_domain: String,
    /// Resolver configuration of the node, from which that of pods is made.
    #[arg(long, default_value = "/etc/resolv.conf", value_name = "FILE")]
    pub resolv_conf: PathBuf,
    /// How often volumes of ConfigMaps, Secrets and tokens are updated.
    #[arg(long, default_value = "1m", value_name = "DURATION", value_parser = positive)]
    pub sync_frequency: Duration,
}

/// Parses a Go duration of at least a second.
fn positive(text: &str) -> Result<Duration, String> {
    let span = GoDuration::parse(text).map_err(|error| error.to_string())?;
    let span = u64::try_from(span.nanos()).map(Duration::from_nanos).unwrap_or_default();
    if span < Duration::from_secs(1) { Err("less than a second".to_owned()) } else { Ok(span) }
}

impl MachineArgs {
    /// Returns the configuration of this machine as the node `name`.
    ///
    /// # Errors
    /// When no runtime answers, or no address of the machine can be found.
    pub async fn node(&self, name: &str) -> anyhow::Result<NodeConfig> {
        let endpoint = &self.container_runtime_endpoint;
        let runtime = Containerd::connect(endpoint).await.with_context(|| endpoint.clone())?;
        let address = match self.node_ip {
            Some(address) => address,
            None => own_address().context("this host has no address but loopback ones: pass --node-ip")?,
        };
        let machine = Machine {
            root_dir: self.root_dir.clone(),
            pod_logs_dir: self.pod_logs_dir.clone(),
            cgroup_root: self.cgroup_root.clone(),
            cluster_dns: self.cluster_dns.clone(),
            cluster_domain: self.cluster_domain.clone(),
            resolv_conf: self.resolv_conf.clone(),
            sync_frequency: self.sync_frequency,
        };
        Ok(NodeConfig::of_machine(name, Arc::new(runtime), address, machine)?)
    }
}

/// Returns the source address of this host's default route. No packet is sent.
pub(crate) fn own_address() -> Option<IpAddr> {
    // The kernel picks the source address by route; 203.0.113.1 (TEST-NET-3, RFC 5737) stands for any remote host.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("203.0.113.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}
