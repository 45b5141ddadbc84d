//! The destination of a streamed request, and connections to it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use oarlock_meta::Status;
use oarlock_pki::tls;
use oarlock_runtime::clock;
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::Pod;
use oarlock_streams::BoxIo;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::egress::{self, Cause, Destination, Egress, Purpose};
use crate::inflight::Seat;
use crate::server::Server;
use crate::target::Target;

/// Time limit for TCP and TLS together (upstream: 30 s for TCP, 10 s for TLS).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The destination of a streamed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// The server of a node's kubelet.
    Kubelet {
        /// Name of the node.
        node: String,
        /// Whether the kubelet's certificate is verified.
        verify: bool,
        /// Addresses of the kubelet that have been checked already; `None` uses the Node's addresses.
        at: Option<CheckedHost>,
    },
    /// A pod, an endpoint of a Service, or another port of a node.
    Address {
        /// Whether to use TLS. The certificate is not verified: pods have none that could be.
        https: bool,
        /// An address or a host name.
        host: String,
        /// The port.
        port: u16,
        /// Addresses of the host, which have been checked.
        at: Vec<IpAddr>,
    },
}

/// A port of a host, and the addresses of the host, which may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckedHost {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) at: Vec<IpAddr>,
}

impl Location {
    /// Returns the server of a node's kubelet, at the address that the Node reports.
    pub(crate) fn kubelet(node: String, verify: bool) -> Self {
        Self::Kubelet { node, verify, at: None }
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn host(&self) -> String {
        match self {
            Self::Kubelet { node, .. } => node.clone(),
            Self::Address { host, port, .. } => egress::authority(host, *port),
        }
    }

    /// Opens a connection on the account of the user who holds the seat. TLS runs between this server and the destination, inside a tunnel too.
    ///
    /// # Errors
    /// When the Node lacks an address or port, or the connection fails.
    pub(crate) async fn connect(&self, server: &Server, seat: Seat) -> Result<BoxIo, Status> {
        let kubelets = server.kubelets();
        match self {
            Self::Kubelet { node, verify, at } => {
                if let Some(pipe) = kubelets.local(node) {
                    return Ok(Egress::local(pipe, seat));
                }
                let tls = Some(kubelets.tls(*verify));
                if let Some(CheckedHost { host, port, at }) = at {
                    return dial(server.egress(), Destination::new(host, *port, Some(at)), tls, seat).await;
                }
                let (host, port) = kubelets.address(server.reader(), node)?;
                dial(server.egress(), Destination::new(&host, port, None), tls, seat).await
            }
            Self::Address { https: true, host, port, at } => {
                let mut config = tls::client_config(tls::ServerTrust::Anybody, None).map_err(Status::internal_error)?;
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                dial(server.egress(), Destination::new(host, *port, Some(at)), Some(&Arc::new(config)), seat).await
            }
            Self::Address { https: false, host, port, at } => {
                dial(server.egress(), Destination::new(host, *port, Some(at)), None, seat).await
            }
        }
    }
}

/// Connects to a server of the cluster, with TLS if a configuration is given.
async fn dial(
    egress: &Egress,
    to: Destination<'_>,
    tls: Option<&Arc<ClientConfig>>,
    seat: Seat,
) -> Result<BoxIo, Status> {
    let failed = |why: &dyn std::fmt::Display| Status::unexpected(format!("error dialing backend: {why}"));
    let deadline = clock::after(CONNECT_TIMEOUT);
    let io =
        egress.connect(Purpose::Cluster, Cause::User(seat), &to, deadline).await.map_err(|error| failed(&error))?;
    let Some(tls) = tls else { return Ok(io) };
    let name = ServerName::try_from(to.host().to_owned()).map_err(|error| failed(&to.failure(&error)))?;
    match clock::timeout_at(deadline, TlsConnector::from(tls.clone()).connect(name, io)).await {
        Ok(Ok(io)) => Ok(Box::new(io)),
        Ok(Err(error)) => Err(failed(&to.failure(&error))),
        Err(_) => Err(failed(&to.failure(&"i/o timeout"))),
    }
}

/// Returns the pod that a request names, and the name of its node, empty for an unscheduled pod.
///
/// # Errors
/// 404.
pub(crate) async fn pod_and_node(server: &Server, target: &Target<'_>) -> Result<(Obj, String), Status> {
    let pods = Target { subresource: "", ..*target };
    let entry = server.current(&pods.key(target.name)?).await?.ok_or_else(|| pods.not_found())?;
    let pod = pods.decode(&entry)?;
    let node = pod.view::<Pod<'_>>().map_or("", |pod| pod.spec().node_name()).to_owned();
    Ok((pod, node))
}
