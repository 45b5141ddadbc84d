//! Writes the kubeconfigs of a data directory: the administrator's, and one for each component identity.

use std::net::SocketAddr;
use std::path::PathBuf;

use oarlock_config::{DataDir, Kubeconfig};
use oarlock_pki::{Leaf, Pki, Subject, UnixTime};

/// File stem, user and groups of each component that authenticates with a client certificate.
const COMPONENTS: &[(&str, &str, &[&str])] = &[
    ("controller-manager", "system:kube-controller-manager", &[]),
    ("scheduler", "system:kube-scheduler", &[]),
    ("cloud-controller-manager", "system:cloud-controller-manager", &[]),
    // The process calls the API only to authenticate and authorize the readers of its metrics.
    ("admission", "oarlock:admission", &[]),
    // A process that hosts many simulated nodes acts as each of them; this identity may impersonate no other user.
    ("kubelet", "system:node:sim", &["system:nodes"]),
];

/// Server URLs that the kubeconfigs name.
pub(crate) struct Servers {
    /// URL in the administrator's kubeconfig.
    pub(crate) user: String,
    /// URL in the components' kubeconfigs.
    pub(crate) components: String,
}

impl Servers {
    /// Returns the URLs of a server on this host.
    pub(super) fn at(address: SocketAddr) -> Self {
        let server = format!("https://{}", reachable(address));
        Self { user: server.clone(), components: server }
    }
}

/// Writes all kubeconfigs and returns the path of the administrator's.
pub(crate) fn write(directory: &DataDir, pki: &Pki, servers: &Servers, now: UnixTime) -> anyhow::Result<PathBuf> {
    let authority = pki.ca.certificate_pem();
    let make = |server: &str, user: &str, groups: &[&str]| -> anyhow::Result<Kubeconfig> {
        let issued = pki.ca.issue(&Leaf::client(Subject::user(user, groups.iter().copied())), now)?;
        let name = user.trim_start_matches("system:");
        Ok(Kubeconfig::embedded("oarlock", server, &authority, name, &issued.certificate_pem(), &issued.key.to_pem()))
    };
    let path = directory.kubeconfig();
    make(&servers.user, "kubernetes-super-admin", &["system:masters"])?.write(&path)?;
    for (stem, user, groups) in COMPONENTS {
        make(&servers.components, user, groups)?.write(&directory.component_kubeconfig(stem))?;
    }
    Ok(std::path::absolute(path)?)
}

/// Replaces a wildcard address, which clients cannot connect to, by the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let loopback = if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
    SocketAddr::new(loopback, address.port())
}
