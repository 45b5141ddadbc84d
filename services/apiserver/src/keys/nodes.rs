//! Writes the folder of a part that hosts nodes. Each node has its own client certificate, so the part does not need the authority's key.

use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, ensure};
use oarlock_config::DataDir;
use oarlock_pki::{AtomicFiles, Leaf, Pki, San, Subject, UnixTime, Visibility};

use super::copies::Copies;
use super::parts::plain;
use crate::assemble::kubeconfigs;

/// Largest number of node names in the certificate of a part's server; API servers connect by the part's name.
const MAX_CERTIFICATE_NAMES: usize = 64;

/// A part of the control plane and the nodes it hosts, written `PART=NODE,…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartNodes {
    /// Name of the part: of its folder, and in the certificate of its server.
    pub part: String,
    /// Names of the nodes.
    pub nodes: Vec<String>,
}

impl FromStr for PartNodes {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (part, nodes) = text.split_once('=').with_context(|| format!("{text:?}: not PART=NODE,…"))?;
        let nodes: Vec<String> = nodes.split(',').map(str::to_owned).collect();
        for name in nodes.iter().map(String::as_str).chain([part]) {
            ensure!(plain(name), "{name:?} cannot name a folder or a node");
        }
        Ok(Self { part: part.to_owned(), nodes })
    }
}

/// Writes `PART/<node>.kubeconfig`, the certificate of the part's server, and the nodes' credentials for the bus.
///
/// # Errors
/// When a file cannot be read or written, or a name is not valid in a certificate.
pub(super) fn write(
    folder: &Path,
    directory: &DataDir,
    pki: &Pki,
    part: &PartNodes,
    server: &str,
    now: UnixTime,
) -> anyhow::Result<()> {
    let folder = folder.join(&part.part);
    let mut files = AtomicFiles::new();
    for node in &part.nodes {
        let path = folder.join(format!("{node}.kubeconfig"));
        let own = kubeconfigs::kubeconfig(&path, pki, server, node, Subject::node(node), now)?;
        files.add(path, Visibility::Private, own.to_yaml()?);
    }
    let mut sans: Vec<San> = [part.part.as_str(), "localhost", "127.0.0.1"].map(San::parse).into();
    sans.extend(part.nodes.iter().take(MAX_CERTIFICATE_NAMES).map(|node| San::parse(node)));
    sans.sort();
    sans.dedup();
    let first = part.nodes.first().map_or("", String::as_str);
    files.commit()?;
    Pki::leaf(&folder, "kubelet", &pki.ca, &Leaf::server(Subject::node(first), sans), now)?;
    let mut copies = Copies::new(directory.nats(), folder.join("nats"));
    part.nodes.iter().for_each(|node| copies.add(&format!("node-{node}.seed")));
    copies.add_if_there("ca.crt");
    copies.add(oarlock_config::ROLE_KEYS);
    copies.write()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_and_its_nodes_are_names_of_files() {
        let nodes: PartNodes = "nodes=a,b.c".parse().unwrap();
        assert_eq!((nodes.part.as_str(), nodes.nodes.as_slice()), ("nodes", &["a".to_owned(), "b.c".to_owned()][..]));
        for bad in ["", "nodes", "=a", "nodes=", "nodes=a,,b", "../x=a", "x/y=a", "x=../a", ".=a", "..=a"] {
            assert!(bad.parse::<PartNodes>().is_err(), "{bad}");
        }
    }
}
