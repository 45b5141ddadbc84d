//! Computes the environment variables of Services, in the format of docker links (`pkg/kubelet/envvars`).

use std::net::IpAddr;

use oarlock_informer::{Project, ResourceName};
use oarlock_schema::views::core_v1::Service;
use oarlock_schema::{Obj, Str};

/// Fields of a Service that the kubelet reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServiceView {
    /// Cluster IP; empty or `None` for a Service without one.
    pub(crate) address: Str,
    pub(crate) ports: Vec<ServicePort>,
}

/// Name (empty is allowed for a single port), protocol and number of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServicePort {
    pub(crate) name: Str,
    pub(crate) protocol: Str,
    pub(crate) port: i64,
}

impl Project for ServiceView {
    const RESOURCE: ResourceName = ResourceName::core("services");

    fn project(obj: &Obj) -> Self {
        let spec = obj.view().unwrap_or_else(|| Service::from_option(None)).spec();
        let port = |port: oarlock_schema::views::core_v1::ServicePort<'_>| ServicePort {
            name: port.name().into(),
            protocol: if port.protocol().is_empty() { "TCP".into() } else { port.protocol().into() },
            port: port.port(),
        };
        Self { address: spec.cluster_ip().into(), ports: spec.ports().iter().map(port).collect() }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

impl ServiceView {
    /// Whether the Service has a cluster IP.
    pub(super) fn has_address(&self) -> bool {
        !self.address.is_empty() && self.address != "None" && !self.ports.is_empty()
    }

    /// Returns the variables of the Service with this name.
    pub(super) fn variables(&self, name: &str) -> Vec<(String, String)> {
        let prefix = variable(name);
        let Some(first) = self.ports.first() else { return Vec::new() };
        let mut out = vec![
            (format!("{prefix}_SERVICE_HOST"), self.address.to_string()),
            (format!("{prefix}_SERVICE_PORT"), first.port.to_string()),
            (format!("{prefix}_PORT"), self.link(first)),
        ];
        for port in &self.ports {
            if !port.name.is_empty() {
                out.push((format!("{prefix}_SERVICE_PORT_{}", variable(&port.name)), port.port.to_string()));
            }
            let one = format!("{prefix}_PORT_{}_{}", port.port, port.protocol.to_uppercase());
            out.extend([
                (format!("{one}_PROTO"), port.protocol.as_str().to_lowercase()),
                (format!("{one}_PORT"), port.port.to_string()),
                (format!("{one}_ADDR"), self.address.to_string()),
                (one, self.link(port)),
            ]);
        }
        out
    }

    fn link(&self, port: &ServicePort) -> String {
        format!("{}://{}", port.protocol.to_lowercase(), host_port(&self.address, port.port))
    }
}

/// Joins host and port like Go's `net.JoinHostPort`.
pub(crate) fn host_port(host: &str, port: i64) -> String {
    match host.parse() {
        Ok(IpAddr::V6(host)) => format!("[{host}]:{port}"),
        _ => format!("{host}:{port}"),
    }
}

fn variable(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}
