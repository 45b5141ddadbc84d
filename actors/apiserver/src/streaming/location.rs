//! The destination of a streamed request, and connections to it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use oarlock_meta::Status;
use oarlock_pki::tls;
use oarlock_runtime::clock;
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::Pod;
use oarlock_streams::BoxIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

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
            Self::Address { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Address { host, port, .. } => format!("{host}:{port}"),
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// When the Node lacks an address or port, or the connection fails.
    pub(crate) async fn connect(&self, server: &Server) -> Result<BoxIo, Status> {
        let kubelets = server.kubelets();
        match self {
            Self::Kubelet { node, verify, at } => {
                if let Some(pipe) = kubelets.local(node) {
                    return Ok(pipe);
                }
                if let Some(CheckedHost { host, port, at }) = at {
                    return dial(host, *port, Some(at), Some(kubelets.tls(*verify))).await;
                }
                let (host, port) = kubelets.address(server.reader(), node)?;
                dial(&host, port, None, Some(kubelets.tls(*verify))).await
            }
            Self::Address { https: true, host, port, at } => {
                let mut config = tls::client_config(tls::ServerTrust::Anybody, None).map_err(Status::internal_error)?;
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                dial(host, *port, Some(at), Some(&Arc::new(config))).await
            }
            Self::Address { https: false, host, port, at } => dial(host, *port, Some(at), None).await,
        }
    }
}

/// Connects to a host, at one of the addresses `at` if they are given.
async fn dial(
    host: &str,
    port: u16,
    at: Option<&Vec<IpAddr>>,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<BoxIo, Status> {
    let failed = |why: &dyn std::fmt::Display| {
        Status::unexpected(format!("error dialing backend: dial tcp {host}:{port}: {why}"))
    };
    let connect = async {
        let stream = match at {
            Some(at) => {
                let at: Vec<SocketAddr> = at.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
                TcpStream::connect(at.as_slice()).await
            }
            None => TcpStream::connect((host, port)).await,
        };
        let stream = stream.map_err(|error| failed(&error))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        let Some(tls) = tls else { return Ok::<BoxIo, Status>(Box::new(stream)) };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(&error))?;
        let stream = TlsConnector::from(tls.clone()).connect(name, stream).await.map_err(|error| failed(&error))?;
        Ok(Box::new(stream) as BoxIo)
    };
    clock::timeout(CONNECT_TIMEOUT, connect).await.map_err(|_| failed(&"i/o timeout"))?
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
