//! How an API server reaches others: upstream's EgressSelectorConfiguration.

mod file;
mod validation;

use std::path::PathBuf;

use crate::{Error, Result};

/// Flag for the ways in which an API server reaches others.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct EgressOptions {
    /// File of kind EgressSelectorConfiguration: through which tunnel the API server reaches nodes, pods and Services (cluster), and etcd (etcd). Without this flag, and for a purpose that
    /// the file does not name, connections are direct (docs/operations/egress.md).
    #[arg(long, value_name = "FILE")]
    pub egress_selector_config_file: Option<PathBuf>,
}

impl EgressOptions {
    /// Reads the file and returns its selections; none without the flag.
    ///
    /// # Errors
    /// When the file cannot be read, has a field that the kind has not, or is invalid.
    pub fn read(&self) -> Result<Vec<EgressSelection>> {
        let Some(path) = &self.egress_selector_config_file else { return Ok(Vec::new()) };
        validation::check(file::read(path)?).map_err(|errors| Error::Invalid { path: path.clone(), errors })
    }
}

/// The way of the connections with one purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressSelection {
    /// The purpose.
    pub name: EgressName,
    /// The way.
    pub connection: EgressConnection,
}

/// The purpose of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressName {
    /// Nodes, pods and Services of the cluster.
    Cluster,
    /// Servers of the control plane.
    ControlPlane,
    /// The members of etcd.
    Etcd,
}

impl EgressName {
    /// The names in a file, sorted.
    pub(crate) const ALL: [&str; 3] = ["cluster", "controlplane", "etcd"];

    /// Returns the purpose of a name in lower case. `master` is an older name of `controlplane`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "cluster" => Some(Self::Cluster),
            "controlplane" => Some(Self::ControlPlane),
            "etcd" => Some(Self::Etcd),
            _ => None,
        }
    }
}

/// The way of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EgressConnection {
    /// Directly.
    Direct,
    /// By gRPC through a tunnel server that listens on a Unix socket.
    Grpc(PathBuf),
    /// By HTTP `CONNECT` through a tunnel server.
    HttpConnect(EgressProxy),
}

/// The address of a tunnel server that takes HTTP `CONNECT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EgressProxy {
    /// A Unix socket.
    Unix(PathBuf),
    /// `host:port` without TLS.
    Plain(String),
    /// `host:port` with TLS, and the files for TLS.
    Tls(String, EgressTls),
}

/// The files for TLS to a tunnel server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressTls {
    /// Certificate authorities of the tunnel server; `None` for those of the machine.
    pub ca_bundle: Option<PathBuf>,
    /// The client's certificate.
    pub client_certificate: PathBuf,
    /// The key of the client's certificate.
    pub client_key: PathBuf,
}

#[cfg(test)]
mod tests;
