//! Certificates and kubeconfigs for the programs of the nodes, signed by the cluster's authority.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::control_plane::ControlPlane;
use super::network::CONTROL;
use crate::peer;

const CLIENT: &str = "extendedKeyUsage=clientAuth\n";

/// Makes a client's certificate, and `folder`/`name`.kubeconfig with this identity.
pub(crate) fn client(plane: &ControlPlane, folder: &Path, name: &str, subject: &str) -> anyhow::Result<PathBuf> {
    peer::issue(&plane.pki, folder, name, subject, CLIENT)?;
    let (port, ca, folder) = (plane.port, plane.pki.join("ca.crt"), folder.display());
    // The server's certificate has no address of this network.
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"https://{CONTROL}:{port}\", tls-server-name: localhost, certificate-authority: \"{}\"}}}}]\n\
         users: [{{name: u, user: {{client-certificate: \"{folder}/{name}.crt\", client-key: \"{folder}/{name}.key\"}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
        ca.display()
    );
    let file = Path::new(&folder.to_string()).join(format!("{name}.kubeconfig"));
    std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    Ok(file)
}

/// Makes a server's certificate for a name and an address: `folder`/`name`.crt and .key.
pub(crate) fn server(
    plane: &ControlPlane,
    folder: &Path,
    name: &str,
    subject: &str,
    names: &str,
) -> anyhow::Result<()> {
    let extensions = format!("extendedKeyUsage=serverAuth\nsubjectAltName={names}\n");
    peer::issue(&plane.pki, folder, name, subject, &extensions)
}
