//! Certificates of etcd's members and their clients, of an authority of its own: who holds one may read and write everything.

use oarlock_config::DataDir;
use oarlock_pki::{Leaf, Pki, San, Subject, UnixTime};

/// Whom members take for members (`--peer-cert-allowed-cn`): clients have certificates of the same authority.
pub(super) const PEER: &str = "etcd-peer";

/// Writes those that are missing or near their end into `pki/etcd`, where kubeadm has them too.
///
/// # Errors
/// When the directory cannot be read or written, or a name cannot stand in a certificate.
pub(super) fn write(directory: &DataDir, names: &[String], now: UnixTime) -> anyhow::Result<()> {
    let folder = directory.pki().join("etcd");
    let authority = Pki::authority(&folder, "ca", "etcd-ca", now)?;
    let sans: Vec<San> = names.iter().map(|name| San::parse(name)).collect();
    // A member calls itself, too, with the certificate that it shows.
    let leaves = [
        ("server", Leaf::peer(Subject::named("etcd-server"), sans.clone())),
        ("peer", Leaf::peer(Subject::named(PEER), sans)),
        ("client", Leaf::client(Subject::named("oarlock-apiserver"))),
    ];
    for (stem, leaf) in &leaves {
        Pki::leaf(&folder, stem, &authority, leaf, now)?;
    }
    Ok(())
}
