//! Builds the API server's ways to other servers from the file of --egress-selector-config-file.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use oarlock_apiserver::Egress;
use oarlock_apiserver::egress::{Purpose, Route, Routes, Tunnel};
use oarlock_client::https;
use oarlock_config::{EgressConnection, EgressName, EgressOptions, EgressProxy, EgressTls};
use oarlock_konnectivity::HttpConnect;
use oarlock_pki::tls::{ServerTrust, client_config};
use oarlock_pki::{CertificateDer, PrivateKeyDer, parse_chain};
use rustls_pki_types::ServerName;
use rustls_pki_types::pem::PemObject;
use tokio_rustls::TlsConnector;

/// Returns the ways that the file describes.
///
/// # Errors
/// When the file is invalid, or a file that it names cannot be used.
pub(super) fn from_file(flags: &EgressOptions) -> anyhow::Result<Egress> {
    let Some(file) = &flags.egress_selector_config_file else { return Ok(Egress::default()) };
    let mut routes = Routes::default();
    for (index, selection) in flags.read().context("--egress-selector-config-file")?.into_iter().enumerate() {
        let purpose = match selection.name {
            EgressName::Cluster => Purpose::Cluster,
            EgressName::ControlPlane => Purpose::ControlPlane,
            EgressName::Etcd => Purpose::Etcd,
        };
        if purpose == Purpose::ControlPlane && selection.connection != EgressConnection::Direct {
            tracing::warn!(
                "the egress selection controlplane has no effect: this server connects to no other server of the control plane"
            );
        }
        let at = || format!("--egress-selector-config-file: {}: egressSelections[{index}]", file.display());
        routes = routes.with(purpose, route(selection.connection).with_context(at)?);
    }
    Ok(Egress::new(routes))
}

fn route(connection: EgressConnection) -> anyhow::Result<Route> {
    let proxy = match connection {
        EgressConnection::Direct => return Ok(Route::Direct),
        EgressConnection::Grpc(socket) => return Ok(Route::Tunnel(Tunnel::grpc(&socket)?)),
        EgressConnection::HttpConnect(EgressProxy::Unix(socket)) => HttpConnect::Unix(socket),
        EgressConnection::HttpConnect(EgressProxy::Plain(address)) => HttpConnect::Plain(address),
        EgressConnection::HttpConnect(EgressProxy::Tls(address, files)) => tls(address, &files)?,
    };
    Ok(Route::Tunnel(Tunnel::http_connect(proxy)))
}

fn tls(address: String, files: &EgressTls) -> anyhow::Result<HttpConnect> {
    let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).with_context(|| format!("tcp.url: {address:?}"))?;
    let authorities = match &files.ca_bundle {
        Some(path) => certificates("caBundle", path)?,
        None => https::system_authorities().context("tlsConfig.caBundle is not set")?,
    };
    let chain = certificates("clientCert", &files.client_certificate)?;
    let key = used("clientKey", &files.client_key, |text| PrivateKeyDer::from_pem_slice(text.as_bytes()))?;
    let mut config = client_config(ServerTrust::Authorities(authorities), Some((chain, key))).with_context(|| {
        format!("tlsConfig.clientCert: {:?}, clientKey: {:?}", files.client_certificate, files.client_key)
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(HttpConnect::Tls(address, TlsConnector::from(Arc::new(config)), name))
}

fn certificates(field: &str, path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found = used(field, path, parse_chain)?;
    anyhow::ensure!(!found.is_empty(), "tlsConfig.{field}: {path:?} holds no certificate");
    Ok(found)
}

/// Reads a file and parses its text.
fn used<T, E: Display>(field: &str, path: &Path, parse: impl Fn(&str) -> Result<T, E>) -> anyhow::Result<T> {
    let at = || format!("tlsConfig.{field}: {path:?}");
    let text = std::fs::read_to_string(path).with_context(at)?;
    parse(&text).map_err(|error| anyhow::anyhow!("{}: {error}", at()))
}
