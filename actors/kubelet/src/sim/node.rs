//! Configures nodes whose machine and runtime are simulated.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use oarlock_schema::Str;

use super::Sim;
use crate::config::NodeConfig;
use crate::machine::SystemInfo;

impl NodeConfig {
    /// Returns the configuration of a simulated node: 8 cores, 32 GiB, 110 pods. `index` determines its addresses: pods get `10.244.<index>.0/24` and further
    /// ranges, as from a cluster's node IPAM.
    #[must_use]
    pub fn simulated(name: impl Into<Str>, index: u16) -> Self {
        let [high, low] = index.to_be_bytes();
        let pods = Ipv4Net::new(Ipv4Addr::new(10, 244_u8.wrapping_add(high), low, 0), 24).unwrap_or_default();
        let host = Ipv4Addr::from_bits(Ipv4Addr::new(172, 16, 0, 10).to_bits() + u32::from(index));
        let capacity = [("cpu", "8"), ("ephemeral-storage", "100Gi"), ("memory", "32Gi"), ("pods", "110")];
        let capacity: BTreeMap<Str, Str> =
            capacity.into_iter().map(|(name, amount)| (name.into(), amount.into())).collect();
        let name = name.into();
        Self {
            runtime: Arc::new(Sim::new(IpNet::V4(pods))),
            allocatable: capacity.clone(),
            capacity,
            labels: BTreeMap::new(),
            internal_ip: IpAddr::V4(host),
            internal_dns: None,
            port: 0,
            system: SystemInfo {
                machine_id: name.clone(),
                system_uuid: name.clone(),
                boot_id: name.clone(),
                kernel_version: "simulated".into(),
                os_image: "Oarlock simulated node".into(),
            },
            machine: None,
            name,
        }
    }
}
