//! The way to kubelets: a pipe to those of this process, HTTPS with the server's own client certificate to the others (upstream
//! `pkg/kubelet/client`).

use std::sync::Arc;

use oarlock_meta::Status;
use oarlock_pki::{CertificateDer, PrivateKeyDer, tls};
use oarlock_registry::Reader;
use oarlock_schema::resource;
use oarlock_schema::views::core_v1::Node;
use oarlock_streams::BoxIo;
use tokio_rustls::rustls::ClientConfig;

/// Which of a node's addresses is called (upstream's default of `--kubelet-preferred-address-types`).
pub const PREFERRED_ADDRESS_TYPES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
/// Where a kubelet listens that does not say where.
const PORT: u16 = 10250;

/// Kubelets that live in this process.
pub trait LocalKubelets: Send + Sync + 'static {
    /// A connection to the server of a node's kubelet, for HTTP/1.1, as the apiserver; `None` when it lives elsewhere.
    fn connect(&self, node: &str) -> Option<BoxIo>;
}

/// How kubelets are reached.
pub struct Kubelets {
    local: Option<Arc<dyn LocalKubelets>>,
    verified: Arc<ClientConfig>,
    anybody: Arc<ClientConfig>,
    address_types: Vec<String>,
}

impl Kubelets {
    /// Shows kubelets the certificate `identity` and believes those whose certificates `authorities` signed, all of them when that is `None`.
    ///
    /// # Errors
    /// When certificates or key cannot be used.
    pub fn new(
        identity: (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
        authorities: Option<Vec<CertificateDer<'static>>>,
    ) -> oarlock_pki::Result<Self> {
        let config = |trust| -> oarlock_pki::Result<Arc<ClientConfig>> {
            let mut config = tls::client_config(trust, Some((identity.0.clone(), identity.1.clone_key())))?;
            // Connections are given away, which HTTP/2 does not know.
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

    /// Those of this process are called directly.
    #[must_use]
    pub fn with_local(mut self, local: Arc<dyn LocalKubelets>) -> Self {
        self.local = Some(local);
        self
    }

    /// Looks for addresses of these types, in this order.
    #[must_use]
    pub fn with_address_types(mut self, types: Vec<String>) -> Self {
        self.address_types = types;
        self
    }

    /// A connection to a kubelet of this process.
    pub(crate) fn local(&self, node: &str) -> Option<BoxIo> {
        self.local.as_ref()?.connect(node)
    }

    /// What TLS believes.
    pub(crate) fn tls(&self, verify: bool) -> &Arc<ClientConfig> {
        if verify { &self.verified } else { &self.anybody }
    }

    /// Host and port of a node's kubelet, as the Node says.
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
        Ok((host.to_owned(), if port == 0 { PORT } else { port }))
    }
}

impl std::fmt::Debug for Kubelets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubelets").field("address_types", &self.address_types).finish_non_exhaustive()
    }
}
