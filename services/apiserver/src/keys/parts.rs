//! Writes a folder for each part of the control plane, with only the keys that the part needs, from a table with a row for each part. Files that no row names,
//! such as the authorities' keys, stay in the data directory.

use std::path::Path;

use oarlock_bus::Role;
use oarlock_bus::permissions::Holder;
use oarlock_config::{DataDir, ROLE_KEYS};
use oarlock_pki::{Leaf, Pki, San, Subject, UnixTime};
use oarlock_seeded_bug::seeded_bug;

use super::copies::Copies;
use super::konnectivity;
use super::nats::{self, ServerConfig};

/// Keys that one part of the control plane needs.
struct Row {
    /// Name of the part's folder.
    folder: &'static str,
    /// Kubeconfig with which the part calls the API, for parts that do.
    kubeconfig: Option<Identity>,
    /// Role of the part on NATS.
    role: Option<Role>,
    /// What the part serves over HTTPS.
    server: Server,
}

/// HTTPS server of a part.
#[derive(PartialEq, Eq)]
enum Server {
    /// The API: the server needs the certificates of the API server and the token key, and is the only client of etcd.
    Api,
    /// Health and metrics, with a certificate in the name of the part's folder.
    Health,
    /// None.
    None,
}

/// Identity with which a part calls the API.
enum Identity {
    /// A control plane component.
    Component(&'static str),
    /// The administrator, who may do everything.
    User,
}

const fn component(name: &'static str, role: Role) -> Row {
    Row { folder: name, kubeconfig: Some(Identity::Component(name)), role: Some(role), server: Server::Health }
}

const PARTS: [Row; 6] = [
    Row { folder: "apiserver", kubeconfig: None, role: Some(Role::ApiServer), server: Server::Api },
    component("controller-manager", Role::Controllers),
    component("scheduler", Role::Scheduler),
    component("cloud-controller-manager", Role::Cloud),
    component("admission", Role::Admission),
    Row { folder: "user", kubeconfig: Some(Identity::User), role: Some(Role::Inspector), server: Server::None },
];

/// Files for etcd's members. No client certificate is among them.
const ETCD: [&str; 5] = ["ca.crt", "server.crt", "server.key", "peer.crt", "peer.key"];
/// Files for etcd's clients.
const ETCD_CLIENT: [&str; 3] = ["ca.crt", "client.crt", "client.key"];
/// Folder of etcd's members.
const MEMBERS: &str = "etcd";
/// Folder of the NATS servers.
const BUS: &str = "nats";
/// Folder of the program that reads the metrics of all parts.
const MONITORING: &str = "monitoring";
/// Group that may read metrics, by upstream's role of the same name.
const MONITORS: &str = "system:monitoring";

/// Whether a name is a single path component, which cannot lead to another folder.
pub(super) fn plain(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    !name.is_empty() && !name.starts_with('.') && name.chars().all(word)
}

/// Whether a part that hosts no nodes has this folder.
pub(super) fn is_part(folder: &str) -> bool {
    let mut rows = PARTS.iter().map(|row| row.folder);
    rows.any(|name| name == folder)
        || konnectivity::PARTS.contains(&folder)
        || [MEMBERS, BUS, MONITORING].contains(&folder)
}

/// Writes the folders of all parts that host no nodes, of the tunnel's servers and agents, of the NATS servers, of monitoring, and, where etcd certificates exist, of
/// etcd's members.
///
/// # Errors
/// When a file cannot be read or written.
pub(super) fn write(
    folder: &Path,
    directory: &DataDir,
    pki: &Pki,
    server_config: &ServerConfig,
    now: UnixTime,
) -> anyhow::Result<()> {
    let etcd = directory.pki().join("etcd");
    for row in &PARTS {
        let own = folder.join(row.folder);
        let mut copies = Copies::new(directory.root(), &own);
        match row.kubeconfig {
            Some(Identity::Component(name)) => copies.add_as(&format!("{name}.kubeconfig"), "kubeconfig"),
            Some(Identity::User) => copies.add("kubeconfig"),
            None => {}
        }
        copies.write()?;
        if let Some(role) = row.role {
            let mut copies = Copies::new(directory.nats(), own.join("nats"));
            copies.add(&format!("{}{}", Holder::role(role).file_name(), nats::SEED_EXTENSION));
            copies.add(ROLE_KEYS);
            copies.add_if_there("ca.crt");
            copies.write()?;
        }
        match row.server {
            Server::Api => {
                let mut copies = Copies::new(directory.pki(), own.join("pki"));
                Pki::READ.iter().for_each(|name| copies.add(name));
                if seeded_bug!("part_holds_an_authority") {
                    copies.add("ca.key");
                }
                copies.write()?;
                copy(&etcd, &own.join("etcd"), &ETCD_CLIENT)?;
            }
            Server::Health => {
                let sans = [row.folder, "localhost", "127.0.0.1"].map(San::parse).into();
                Pki::leaf(&own, "server", &pki.ca, &Leaf::server(Subject::named(row.folder), sans), now)?;
            }
            Server::None => {}
        }
    }
    copy(&etcd, &folder.join(MEMBERS), &ETCD)?;
    konnectivity::write_parts(folder, directory)?;
    let monitoring = folder.join(MONITORING);
    copy(&directory.pki(), &monitoring, &["ca.crt"])?;
    Pki::leaf(&monitoring, "client", &pki.ca, &Leaf::client(Subject::user("prometheus", [MONITORS])), now)?;
    nats::write_part(&folder.join(BUS), directory, server_config)
}

/// Schedules copies of a folder's files; every file exists if the folder does.
fn copy(from: &Path, to: &Path, names: &[&str]) -> anyhow::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    let mut copies = Copies::new(from, to);
    names.iter().for_each(|name| copies.add(name));
    copies.write()
}

#[cfg(test)]
mod tests;
