//! What a node is told about itself.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oarlock_schema::Str;

use crate::cri::Runtime;
use crate::machine::{Facts, SystemInfo};

/// One node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Its name; the client's identity must be `system:node:<name>`.
    pub name: Str,
    /// What runs its containers.
    pub runtime: Arc<dyn Runtime>,
    /// Quantities: `cpu`, `memory`, `pods` and so on.
    pub capacity: BTreeMap<Str, Str>,
    /// What of it pods may have.
    pub allocatable: BTreeMap<Str, Str>,
    /// Labels beyond `kubernetes.io/{hostname,os,arch}`. NodeRestriction allows only some under `kubernetes.io`.
    pub labels: BTreeMap<Str, Str>,
    /// The address that pods show as `hostIP`.
    pub internal_ip: IpAddr,
    /// A name under which others reach the node, where it has one.
    pub internal_dns: Option<Str>,
    /// The kubelet's own port, 0 when it serves none.
    pub port: u16,
    /// What `nodeInfo` says of the system.
    pub system: SystemInfo,
    /// Where things are on a real machine; `None` for simulated nodes, which touch nothing.
    pub machine: Option<Machine>,
}

/// What the kubelet of a real machine is told; the defaults are upstream's.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Directories of pods, with their volumes (`--root-dir`).
    pub root_dir: PathBuf,
    /// Logs of containers (`--pod-logs-dir`).
    pub pod_logs_dir: PathBuf,
    /// The cgroup below which those of pods are (`--cgroup-root`); empty for the system's. Two kubelets of one machine need two.
    pub cgroup_root: String,
    /// Servers of the cluster's DNS (`--cluster-dns`); without any, pods get the node's.
    pub cluster_dns: Vec<IpAddr>,
    /// As `cluster.local` (`--cluster-domain`).
    pub cluster_domain: String,
    /// The node's resolver configuration (`--resolv-conf`).
    pub resolv_conf: PathBuf,
    /// Volumes of API objects are brought up to date this often (`--sync-frequency`); the objects are read twice as often at most.
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
    /// The machine that this process runs on, whose containers `runtime` runs. `internal_ip` is its address for others.
    ///
    /// # Errors
    /// When the machine does not say what it has.
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

    /// The labels that its Node has, sorted by key.
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

/// Go's name of this architecture.
pub(crate) fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
