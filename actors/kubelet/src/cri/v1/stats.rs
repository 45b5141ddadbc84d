//! What pods and containers use.

use prost::Message;

use super::{ContainerMetadata, Labels, PodSandboxMetadata};

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct UInt64Value {
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStatsResponse {
    #[prost(message, optional, tag = "1")]
    pub stats: Option<PodSandboxStats>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStats {
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<PodSandboxAttributes>,
    #[prost(message, optional, tag = "2")]
    pub linux: Option<LinuxPodSandboxStats>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxAttributes {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<PodSandboxMetadata>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub labels: Labels,
}

#[derive(Clone, PartialEq, Message)]
pub struct LinuxPodSandboxStats {
    #[prost(message, optional, tag = "1")]
    pub cpu: Option<CpuUsage>,
    #[prost(message, optional, tag = "2")]
    pub memory: Option<MemoryUsage>,
    #[prost(message, optional, tag = "3")]
    pub network: Option<NetworkUsage>,
    #[prost(message, optional, tag = "4")]
    pub process: Option<ProcessUsage>,
    #[prost(message, repeated, tag = "5")]
    pub containers: Vec<ContainerStats>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerStats {
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<ContainerAttributes>,
    #[prost(message, optional, tag = "2")]
    pub cpu: Option<CpuUsage>,
    #[prost(message, optional, tag = "3")]
    pub memory: Option<MemoryUsage>,
    #[prost(message, optional, tag = "4")]
    pub writable_layer: Option<LayerUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerAttributes {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<ContainerMetadata>,
}

/// Times are Unix nanoseconds, as below.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct CpuUsage {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub usage_core_nano_seconds: Option<UInt64Value>,
    #[prost(message, optional, tag = "3")]
    pub usage_nano_cores: Option<UInt64Value>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct MemoryUsage {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub working_set_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "3")]
    pub available_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub usage_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "5")]
    pub rss_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "6")]
    pub page_faults: Option<UInt64Value>,
    #[prost(message, optional, tag = "7")]
    pub major_page_faults: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NetworkUsage {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub default_interface: Option<NetworkInterfaceUsage>,
    #[prost(message, repeated, tag = "3")]
    pub interfaces: Vec<NetworkInterfaceUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NetworkInterfaceUsage {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub rx_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "3")]
    pub rx_errors: Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub tx_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "5")]
    pub tx_errors: Option<UInt64Value>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ProcessUsage {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub process_count: Option<UInt64Value>,
}

/// `FilesystemUsage`, without the file system.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LayerUsage {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "3")]
    pub used_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub inodes_used: Option<UInt64Value>,
}
