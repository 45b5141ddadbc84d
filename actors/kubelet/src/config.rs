//! What a node is told about itself.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use oarlock_schema::Str;

use crate::cri::Runtime;
use crate::sim::Sim;

/// One node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Its name; the client's identity must be `system:node:<name>`.
    pub name: Str,
    /// What runs its containers.
    pub runtime: Arc<dyn Runtime>,
    /// Capacity, all of it allocatable, as quantities: `cpu`, `memory`, `pods` and so on.
    pub capacity: BTreeMap<Str, Str>,
    /// Labels beyond `kubernetes.io/{hostname,os,arch}`. NodeRestriction allows only some under `kubernetes.io`.
    pub labels: BTreeMap<Str, Str>,
    /// The address that pods show as `hostIP`.
    pub internal_ip: IpAddr,
    /// The kubelet's own port, 0 when it serves none.
    pub port: u16,
    /// What `nodeInfo.osImage` says.
    pub os_image: Str,
    /// What `nodeInfo.kernelVersion` says.
    pub kernel_version: Str,
}

impl NodeConfig {
    /// A simulated node: 8 cores, 32 GiB, 110 pods. `index` gives it addresses of its own: pods in `10.244.<index>.0/24` and on, as a
    /// cluster's node IPAM would.
    #[must_use]
    pub fn simulated(name: impl Into<Str>, index: u16) -> Self {
        let [high, low] = index.to_be_bytes();
        let pods = Ipv4Net::new(Ipv4Addr::new(10, 244_u8.wrapping_add(high), low, 0), 24).unwrap_or_default();
        let host = Ipv4Addr::from_bits(Ipv4Addr::new(172, 16, 0, 10).to_bits() + u32::from(index));
        let capacity = [("cpu", "8"), ("ephemeral-storage", "100Gi"), ("memory", "32Gi"), ("pods", "110")];
        Self {
            name: name.into(),
            runtime: Arc::new(Sim::new(IpNet::V4(pods))),
            capacity: capacity.into_iter().map(|(name, amount)| (name.into(), amount.into())).collect(),
            labels: BTreeMap::new(),
            internal_ip: IpAddr::V4(host),
            port: 0,
            os_image: "Oarlock simulated node".into(),
            kernel_version: "simulated".into(),
        }
    }
}
