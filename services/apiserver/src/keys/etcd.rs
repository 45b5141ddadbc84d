//! Makes certificates for etcd's members and clients. etcd has an authority of its own, because a client certificate of that authority gives access to the
//! whole state.

use oarlock_config::DataDir;
use oarlock_pki::{Leaf, Pki, San, Subject, UnixTime};

/// Common name of the members' peer certificates (`--peer-cert-allowed-cn`). Client certificates have the same authority, and must not be accepted from a peer.
pub(super) const PEER: &str = "etcd-peer";

/// Writes certificates that are missing or about to expire into `pki/etcd`, the same folder as kubeadm's.
///
/// # Errors
/// When the directory cannot be read or written, or a name is not valid in a certificate.
pub(super) fn write(directory: &DataDir, names: &[String], now: UnixTime) -> anyhow::Result<()> {
    let folder = directory.pki().join("etcd");
    let authority = Pki::authority(&folder, "ca", "etcd-ca", now)?;
    let sans: Vec<San> = names.iter().map(|name| San::parse(name)).collect();
    // A member also connects to itself, and then presents its server certificate as a client.
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
