//! The kubelet's own server: its flags, addresses and certificate.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use oarlock_config::Endpoint;
use oarlock_kubelet::Fleet;
use oarlock_kubelet::server::Server;
use oarlock_pki::tls::ServingCertificate;
use oarlock_pki::{AtomicFiles, Issued, Leaf, San, Subject, Visibility};
use oarlock_runtime::System;
use oarlock_serving::tls;
use tokio::net::TcpListener;

use crate::identity::{self, Signer};
use crate::machine::own_address;

/// Port that is tried first when the flags name none (upstream's default).
const PORT: u16 = 10250;
/// Number of ports above [`PORT`] to try when the flags name none and a port is taken.
const MORE_PORTS: u16 = 64;
/// Largest number of node names in a certificate; API servers connect by address.
const MAX_CERTIFICATE_NAMES: usize = 64;

/// Flags of the kubelet's server; names are upstream's.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    /// Address on which the kubelet's server listens. Without this flag the node's address, and for simulated nodes without --node-ip 127.0.0.1.
    #[arg(long, value_name = "IP")]
    pub address: Option<IpAddr>,
    /// Port of the kubelet's server, for all nodes of this process; 0 takes a free one. Without this flag 10250, or the next free one.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// A DNS name of the kubelet's server, which its nodes report as their address of type `InternalDNS`. For hosts whose IP address is not known when the
    /// certificate of --tls-cert-file is made, so that the certificate names the DNS name instead.
    #[arg(long, value_name = "NAME")]
    pub node_dns: Option<String>,
    /// Port that serves /healthz, /pods and /stats/summary without authentication, over plain HTTP; 0 disables it.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub read_only_port: u16,
    /// Address on which --read-only-port listens. Without this flag the address of the kubelet's server.
    #[arg(long, value_name = "IP")]
    pub read_only_address: Option<IpAddr>,
    /// Authorities that must have signed client certificates. Without this flag those of the kubeconfig, which signed the API server's.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Certificate of the kubelet's server. Without this flag one is made at each start: signed by the cluster's authority with --data-dir, else self-signed.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// Key of the certificate of --tls-cert-file.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Directory for a certificate that the kubelet makes (kubelet.crt, kubelet.key); without this flag the certificate stays in memory.
    #[arg(long, value_name = "DIR")]
    pub cert_dir: Option<PathBuf>,
}

/// Sockets of the kubelet's server, bound before nodes register so that Node objects can report address and port.
pub(crate) struct Bound {
    socket: TcpListener,
    read_only: Option<TcpListener>,
    address: IpAddr,
    /// Address that the nodes report.
    pub(crate) node_ip: IpAddr,
    /// Port that the nodes report.
    pub(crate) port: u16,
}

/// Binds the sockets the flags ask for; `node_ip` is the nodes' address where the node's own configuration gives one.
///
/// # Errors
/// When a port is taken, or no address of the host can be found.
pub(crate) async fn bind(args: &ServeArgs, node_ip: Option<IpAddr>) -> anyhow::Result<Bound> {
    let address = args.address.or(node_ip).unwrap_or(Ipv4Addr::LOCALHOST.into());
    let socket = match args.port {
        Some(port) => listen(address, port).await?,
        None => first_free(address).await?,
    };
    let read_only = match args.read_only_port {
        0 => None,
        port => Some(listen(args.read_only_address.unwrap_or(address), port).await?),
    };
    let own = node_ip.or(Some(address).filter(|address| !address.is_unspecified())).or_else(own_address);
    let node_ip = own.context("this host has no address but loopback ones: pass --node-ip")?;
    let port = socket.local_addr()?.port();
    Ok(Bound { socket, read_only, address, node_ip, port })
}

async fn listen(ip: IpAddr, port: u16) -> anyhow::Result<TcpListener> {
    TcpListener::bind((ip, port)).await.with_context(|| format!("{ip}:{port}"))
}

async fn first_free(ip: IpAddr) -> anyhow::Result<TcpListener> {
    for port in PORT..PORT + MORE_PORTS {
        match TcpListener::bind((ip, port)).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            bound => return bound.with_context(|| format!("{ip}:{port}")),
        }
    }
    listen(ip, PORT + MORE_PORTS).await
}

/// Starts the server for the nodes of `fleet`.
///
/// # Errors
/// When certificates are unusable or an actor cannot be spawned.
pub(crate) async fn start(
    system: &System,
    fleet: &Fleet,
    args: &ServeArgs,
    bound: Bound,
    endpoint: &Endpoint,
    signer: Option<&Signer>,
) -> anyhow::Result<()> {
    let clients = tls::clients(args.client_ca_file.as_deref(), Some(&endpoint.trust))?;
    let mut sans = vec![San::Ip(bound.node_ip), San::Ip(bound.address), San::Dns("localhost".to_owned())];
    sans.retain(|san| !matches!(san, San::Ip(ip) if ip.is_unspecified()));
    sans.extend(fleet.names().iter().take(MAX_CERTIFICATE_NAMES).map(|name| San::Dns(name.to_string())));
    sans.sort();
    sans.dedup();
    let name = fleet.names().first().map_or_else(String::new, ToString::to_string);
    let certificate = certificate(args, signer, Leaf::server(Subject::node(&name), sans))?;
    let server = Server::new(system, fleet, clients.clone());
    let address = server.listen(bound.socket, certificate, clients.as_ref()).await?;
    tracing::info!(%address, "kubelet's server listens");
    if let Some(socket) = bound.read_only {
        let address = server.listen_read_only(socket).await?;
        tracing::info!(%address, "kubelet's read-only server listens");
    }
    Ok(())
}

fn certificate(args: &ServeArgs, signer: Option<&Signer>, leaf: Leaf) -> anyhow::Result<Arc<ServingCertificate>> {
    if let (Some(certificate), Some(key)) = (&args.tls_cert_file, &args.tls_private_key_file) {
        return Ok(ServingCertificate::read(certificate, key)?);
    }
    let (issued, authority) = match signer {
        Some(signer) => (signer.issue(&leaf)?, None),
        None => {
            let (issued, authority) = Issued::of_its_own(&leaf, identity::now()?)?;
            (issued, Some(authority))
        }
    };
    if let Some(dir) = &args.cert_dir {
        let mut files = AtomicFiles::new();
        files.add(dir.join("kubelet.key"), Visibility::Private, issued.key.to_pem());
        let chain = issued.certificate_pem() + authority.as_deref().unwrap_or_default();
        files.add(dir.join("kubelet.crt"), Visibility::Public, chain);
        files.commit()?;
    }
    Ok(ServingCertificate::new(&issued)?)
}
