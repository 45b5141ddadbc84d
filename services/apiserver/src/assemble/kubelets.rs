//! Builds the API server's transport to kubelets, from flags and the data directory's keys.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use oarlock_apiserver::kubelets::{Kubelets, LocalKubelets};
use oarlock_pki::{Pki, PrivateKeyDer, parse_chain};
use rustls_pki_types::pem::PemObject;

use crate::args::KubeletOptions;

/// Returns the transport to kubelets that the flags describe.
///
/// # Errors
/// When a file cannot be read or holds no certificate or key.
pub(super) fn way(
    pki: &Pki,
    flags: &KubeletOptions,
    local: Option<Arc<dyn LocalKubelets>>,
) -> anyhow::Result<Kubelets> {
    let identity = match (&flags.kubelet_client_certificate, &flags.kubelet_client_key) {
        (Some(certificate), Some(key)) => {
            let pem = read(key)?;
            let key = PrivateKeyDer::from_pem_slice(pem.as_bytes());
            (parse_chain(&read(certificate)?)?, key.map_err(|error| anyhow::anyhow!("--kubelet-client-key: {error}"))?)
        }
        _ => (vec![pki.kubelet_client.certificate.clone()], pki.kubelet_client.key.to_rustls()),
    };
    let authorities = match &flags.kubelet_certificate_authority {
        None => Some(vec![pki.ca.certificate().clone()]),
        Some(file) if file.as_os_str().is_empty() => None,
        Some(file) => Some(parse_chain(&read(file)?)?),
    };
    let kubelets =
        Kubelets::new(identity, authorities)?.with_address_types(flags.kubelet_preferred_address_types.clone());
    Ok(match local {
        Some(local) => kubelets.with_local(local),
        None => kubelets,
    })
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}
