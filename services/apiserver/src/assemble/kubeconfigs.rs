//! Writes the kubeconfigs of a data directory: the administrator's, and one for each component identity.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use oarlock_config::{Credential, DataDir, Kubeconfig};
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

/// Writes all kubeconfigs and returns the path of the administrator's. Certificates in existing kubeconfigs are kept while they are good.
pub(crate) fn write(directory: &DataDir, pki: &Pki, servers: &Servers, now: UnixTime) -> anyhow::Result<PathBuf> {
    let path = directory.kubeconfig();
    let make = |path: &Path, server: &str, user: &str, groups: &[&str]| -> anyhow::Result<()> {
        let subject = Subject::user(user, groups.iter().copied());
        Ok(kubeconfig(path, pki, server, user.trim_start_matches("system:"), subject, now)?.write(path)?)
    };
    make(&path, &servers.user, "kubernetes-super-admin", &["system:masters"])?;
    for (stem, user, groups) in COMPONENTS {
        make(&directory.component_kubeconfig(stem), &servers.components, user, groups)?;
    }
    Ok(std::path::absolute(path)?)
}

/// Returns a kubeconfig with a client certificate: that of the kubeconfig at `path` if the certificate is still good, otherwise a new one.
///
/// # Errors
/// When a certificate cannot be issued.
pub(crate) fn kubeconfig(
    path: &Path,
    pki: &Pki,
    server: &str,
    name: &str,
    subject: Subject,
    now: UnixTime,
) -> anyhow::Result<Kubeconfig> {
    // A file that cannot be read or used is replaced, like one that is missing.
    let present = Kubeconfig::read(path).and_then(|present| present.resolve(None)).map(|present| present.credential);
    let pair = match &present {
        Ok(Credential::Certificate(pair)) => Some((pair.certificate.as_str(), pair.key.as_str())),
        _ => None,
    };
    let issued = Pki::kept_or_issued(pair, &pki.ca, &Leaf::client(subject), now)?;
    let (authority, certificate, key) = (pki.ca.certificate_pem(), issued.certificate_pem(), issued.key.to_pem());
    Ok(Kubeconfig::embedded("oarlock", server, &authority, name, &certificate, &key))
}

/// Replaces a wildcard address, which clients cannot connect to, by the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let loopback = if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
    SocketAddr::new(loopback, address.port())
}
