//! Certificates of etcd's members and clients, of an authority of etcd's own: whoever has a client certificate of it can read and write the whole state.

use oarlock_config::DataDir;
use oarlock_pki::{Leaf, Pki, San, Subject, UnixTime};

/// Common name of the certificates that members show one another (`--peer-cert-allowed-cn`): clients have certificates of the same authority, and must not
/// pass as members.
pub(super) const PEER: &str = "etcd-peer";

/// Writes those that are missing or near their end into `pki/etcd`, where kubeadm has them too.
///
/// # Errors
/// When the directory cannot be read or written, or a name cannot stand in a certificate.
pub(super) fn write(directory: &DataDir, names: &[String], now: UnixTime) -> anyhow::Result<()> {
    let folder = directory.pki().join("etcd");
    let authority = Pki::authority(&folder, "ca", "etcd-ca", now)?;
    let sans: Vec<San> = names.iter().map(|name| San::parse(name)).collect();
    // A member also connects to itself, and shows its server certificate then.
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
