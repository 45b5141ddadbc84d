//! Connections to kubelets: a pipe to a kubelet of this process, HTTPS with the server's own client certificate to every other one (upstream
//! `pkg/kubelet/client`).

use std::sync::Arc;

use oarlock_meta::Status;
use oarlock_pki::{CertificateDer, PrivateKeyDer, tls};
use oarlock_registry::Reader;
use oarlock_schema::resource;
use oarlock_schema::views::core_v1::Node;
use oarlock_streams::BoxIo;
use tokio_rustls::rustls::ClientConfig;

/// Types of node addresses in order of preference (upstream's default of `--kubelet-preferred-address-types`).
pub const PREFERRED_ADDRESS_TYPES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
/// Port of a kubelet whose Node states none.
const DEFAULT_KUBELET_PORT: u16 = 10250;

/// The kubelets that run in this process.
pub trait LocalKubelets: Send + Sync + 'static {
    /// Opens an HTTP/1.1 connection, as the apiserver, to the server of a node's kubelet; `None` when that kubelet runs elsewhere.
    fn connect(&self, node: &str) -> Option<BoxIo>;
}

/// Settings for connections to kubelets.
pub struct Kubelets {
    local: Option<Arc<dyn LocalKubelets>>,
    verified: Arc<ClientConfig>,
    anybody: Arc<ClientConfig>,
    address_types: Vec<String>,
}

impl Kubelets {
    /// Creates the settings: the server presents the certificate `identity` and accepts kubelet certificates that `authorities` signed, or any
    /// certificate when `authorities` is `None`.
    ///
    /// # Errors
    /// When certificates or key cannot be used.
    pub fn new(
        identity: (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
        authorities: Option<Vec<CertificateDer<'static>>>,
    ) -> oarlock_pki::Result<Self> {
        let config = |trust| -> oarlock_pki::Result<Arc<ClientConfig>> {
            let mut config = tls::client_config(trust, Some((identity.0.clone(), identity.1.clone_key())))?;
            // Connections are upgraded to other protocols, which HTTP/2 cannot do.
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok(Arc::new(config))
        };
        let anybody = config(tls::ServerTrust::Anybody)?;
        let verified = match authorities {
            Some(authorities) => config(tls::ServerTrust::Authorities(authorities))?,
            None => anybody.clone(),
        };
        let address_types = PREFERRED_ADDRESS_TYPES.map(str::to_owned).to_vec();
        Ok(Self { local: None, verified, anybody, address_types })
    }

    /// Calls the kubelets of this process directly.
    #[must_use]
    pub fn with_local(mut self, local: Arc<dyn LocalKubelets>) -> Self {
        self.local = Some(local);
        self
    }

    /// Sets the types of node addresses to look for, in order of preference.
    #[must_use]
    pub fn with_address_types(mut self, types: Vec<String>) -> Self {
        self.address_types = types;
        self
    }

    /// Opens a connection to a kubelet of this process.
    pub(crate) fn local(&self, node: &str) -> Option<BoxIo> {
        self.local.as_ref()?.connect(node)
    }

    /// Returns the TLS configuration, with or without verification of the kubelet's certificate.
    pub(crate) fn tls(&self, verify: bool) -> &Arc<ClientConfig> {
        if verify { &self.verified } else { &self.anybody }
    }

    /// Returns host and port of a node's kubelet, as the Node object states them.
    pub(crate) fn address(&self, reader: &Reader, node: &str) -> Result<(String, u16), Status> {
        let nodes = resource("", "v1", "nodes").ok_or_else(|| Status::internal_error("no nodes"))?;
        let object = reader.get(nodes, "", node);
        let object = object.ok_or_else(|| Status::not_found(&nodes.group_resource(), node))?;
        let Some(view) = object.view::<Node<'_>>() else {
            return Err(Status::internal_error("stored node is no node"));
        };
        let addresses = view.status().addresses();
        let of_type = |kind: &String| addresses.iter().find(|address| address.type_() == kind).map(|a| a.address());
        let host = self.address_types.iter().find_map(of_type).ok_or_else(|| {
            let known: Vec<String> =
                addresses.iter().map(|address| format!("{{{} {}}}", address.type_(), address.address())).collect();
            Status::unexpected(format!("no preferred addresses found; known addresses: [{}]", known.join(" ")))
        })?;
        let port = u16::try_from(view.status().daemon_endpoints().kubelet_endpoint().port()).unwrap_or(0);
        Ok((host.to_owned(), if port == 0 { DEFAULT_KUBELET_PORT } else { port }))
    }
}

impl std::fmt::Debug for Kubelets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubelets").field("address_types", &self.address_types).finish_non_exhaustive()
    }
}
