//! Makes certificates for the servers and agents of the tunnel to nodes. The tunnel has an authority of its own: a client certificate of that authority makes
//! its holder an agent, to which API servers' connections go, so no user or node of the cluster may have one.

use std::path::{Path, PathBuf};

use oarlock_config::DataDir;
use oarlock_pki::{Leaf, Pki, San, Subject, UnixTime};
use oarlock_seeded_bug::seeded_bug;

use super::copies::Copies;

/// Name of a server, in its certificate and of its part's folder.
const SERVER: &str = "konnectivity-server";
/// Name of an agent, in its certificate and of its part's folder.
const AGENT: &str = "konnectivity-agent";

/// The parts' folders.
pub(super) const PARTS: [&str; 2] = [SERVER, AGENT];

/// Folder of the tunnel's authority and certificates.
fn folder(directory: &DataDir) -> PathBuf {
    directory.pki().join("konnectivity")
}

/// Writes certificates that are missing, about to expire or made for other names: of the servers, for these names and those of their own host, and of the agents.
///
/// # Errors
/// When the directory cannot be read or written, or a name is not valid in a certificate.
pub(super) fn write(directory: &DataDir, names: &[String], now: UnixTime) -> anyhow::Result<()> {
    let folder = folder(directory);
    let authority = Pki::authority(&folder, "ca", "konnectivity-ca", now)?;
    let own = [SERVER, "localhost", "127.0.0.1"];
    let mut sans: Vec<San> = own.into_iter().chain(names.iter().map(String::as_str)).map(San::parse).collect();
    sans.sort();
    sans.dedup();
    Pki::leaf(&folder, "server", &authority, &Leaf::server(Subject::named(SERVER), sans), now)?;
    Pki::leaf(&folder, "agent", &authority, &Leaf::client(Subject::named(AGENT)), now)?;
    Ok(())
}

/// Writes the folders of the servers and of the agents, each with its own certificate and the authority that proves the other side.
///
/// # Errors
/// When a file cannot be read or written.
pub(super) fn write_parts(parts: &Path, directory: &DataDir) -> anyhow::Result<()> {
    let from = folder(directory);
    for (part, names) in [(SERVER, ["server.crt", "server.key"]), (AGENT, ["agent.crt", "agent.key"])] {
        let mut copies = Copies::new(&from, parts.join(part));
        names.iter().for_each(|name| copies.add(name));
        if seeded_bug!("tunnel_admits_the_cluster") {
            copies.add_as("../ca.crt", "ca.crt");
        } else {
            copies.add("ca.crt");
        }
        copies.write()?;
    }
    Ok(())
}
