//! Configuration of a node.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oarlock_schema::Str;

use crate::cri::Runtime;
use crate::machine::{Facts, SystemInfo};

/// Configuration of one node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Name of the node; the client's identity must be `system:node:<name>`.
    pub name: Str,
    /// Container runtime of the node.
    pub runtime: Arc<dyn Runtime>,
    /// Resources of the node as quantities: `cpu`, `memory`, `pods` and so on.
    pub capacity: BTreeMap<Str, Str>,
    /// Resources that pods may use, as quantities.
    pub allocatable: BTreeMap<Str, Str>,
    /// Labels beyond `kubernetes.io/{hostname,os,arch}`. NodeRestriction allows only some under `kubernetes.io`.
    pub labels: BTreeMap<Str, Str>,
    /// The address that pods show as `hostIP`.
    pub internal_ip: IpAddr,
    /// DNS name under which other hosts reach the node, if it has one.
    pub internal_dns: Option<Str>,
    /// Port of the kubelet's own server, 0 without a server.
    pub port: u16,
    /// Operating system facts for `nodeInfo`.
    pub system: SystemInfo,
    /// Paths and DNS settings of a real machine; `None` for simulated nodes, which leave the host alone.
    pub machine: Option<Machine>,
}

/// Configuration of a kubelet that runs pods on a real machine; defaults are upstream's.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Directory of pods and their volumes (`--root-dir`).
    pub root_dir: PathBuf,
    /// Directory of containers' logs (`--pod-logs-dir`).
    pub pod_logs_dir: PathBuf,
    /// Cgroup below which pods' cgroups are made (`--cgroup-root`); empty for the system's. Two kubelets of one machine need different ones.
    pub cgroup_root: String,
    /// Addresses of the cluster's DNS servers (`--cluster-dns`); without any, pods get the node's.
    pub cluster_dns: Vec<IpAddr>,
    /// DNS domain of the cluster, such as `cluster.local` (`--cluster-domain`).
    pub cluster_domain: String,
    /// The node's resolver configuration (`--resolv-conf`).
    pub resolv_conf: PathBuf,
    /// Period at which volumes of API objects are updated (`--sync-frequency`); the objects are read at most twice as often.
    pub sync_frequency: Duration,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            root_dir: "/var/lib/kubelet".into(),
            pod_logs_dir: "/var/log/pods".into(),
            cgroup_root: String::new(),
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            resolv_conf: "/etc/resolv.conf".into(),
            sync_frequency: Duration::from_secs(60),
        }
    }
}

impl NodeConfig {
    /// Returns the configuration of the machine this process runs on, with the container runtime `runtime`. `internal_ip` is the machine's address for other
    /// hosts.
    ///
    /// # Errors
    /// When the machine's resources cannot be read.
    pub fn of_machine(
        name: impl Into<Str>,
        runtime: Arc<dyn Runtime>,
        internal_ip: IpAddr,
        machine: Machine,
    ) -> std::io::Result<Self> {
        let facts = Facts::read(&machine.root_dir)?;
        Ok(Self {
            name: name.into(),
            runtime,
            capacity: facts.capacity(),
            allocatable: facts.allocatable(),
            labels: BTreeMap::new(),
            internal_ip,
            internal_dns: None,
            port: 0,
            system: facts.system,
            machine: Some(machine),
        })
    }

    /// Returns the labels of the Node object, sorted by key.
    pub(crate) fn node_labels(&self) -> BTreeMap<String, String> {
        let own = [
            ("beta.kubernetes.io/arch", arch()),
            ("beta.kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", arch()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/hostname", self.name.as_str()),
        ];
        let own = own.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        own.chain(self.labels.iter().map(|(key, value)| (key.to_string(), value.to_string()))).collect()
    }
}

/// Returns Go's name of this architecture.
pub(crate) fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
