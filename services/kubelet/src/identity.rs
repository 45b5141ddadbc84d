//! Provides each node's identity: from its kubeconfig, or as a certificate signed on the spot with the cluster's CA key.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use oarlock_config::{ApiOptions, ClientKey, Credential, DataDir, Endpoint, Kubeconfig};
use oarlock_pki::{Authority, Issued, Leaf, Presented, Subject, UnixTime, parse_chain};
use oarlock_runtime::clock;

/// Prefix of the user names of nodes.
const PREFIX: &str = "system:node:";

/// Signs client certificates of nodes.
pub(crate) struct Signer {
    authority: Authority,
}

impl Signer {
    /// Reads the authority of a data directory. The directory is only read, since an API server may be using it.
    pub(crate) fn open(data_dir: &Path) -> anyhow::Result<Self> {
        let pki = DataDir::new(data_dir).pki();
        let read = |name: &str| {
            let path = pki.join(name);
            std::fs::read_to_string(&path).with_context(|| path.display().to_string())
        };
        Ok(Self { authority: Authority::from_pem(&read("ca.crt")?, &read("ca.key")?)? })
    }

    /// Returns `base` with a client certificate for the named node.
    pub(crate) fn node(&self, base: &Endpoint, name: &str) -> anyhow::Result<Endpoint> {
        let issued = self.issue(&Leaf::client(Subject::node(name)))?;
        let pair = ClientKey { certificate: issued.certificate_pem(), key: issued.key.to_pem().to_string() };
        Ok(Endpoint { credential: Credential::Certificate(pair), impersonate: None, ..base.clone() })
    }

    /// Issues a certificate of the cluster's authority.
    pub(crate) fn issue(&self, leaf: &Leaf) -> anyhow::Result<Issued> {
        Ok(self.authority.issue(leaf, now()?)?)
    }
}

/// Source of the nodes' identities.
pub(crate) enum Identities {
    /// One kubeconfig: its user is the node, or the signer makes a certificate for each node.
    One(Box<Endpoint>, Option<Box<Signer>>),
    /// A folder with one kubeconfig for each node, and the nodes' names.
    Each(PathBuf, Vec<String>),
}

impl Identities {
    /// Opens the source that the flags name.
    ///
    /// # Errors
    /// When a file is unusable.
    pub(crate) fn open(api: &ApiOptions, data_dir: Option<&Path>) -> anyhow::Result<Self> {
        if api.kubeconfig.is_dir() {
            anyhow::ensure!(data_dir.is_none(), "--data-dir: each node has a kubeconfig of its own");
            return Ok(Self::Each(api.kubeconfig.clone(), api.server.clone()));
        }
        Ok(Self::One(Box::new(api.read()?), data_dir.map(Signer::open).transpose()?.map(Box::new)))
    }

    /// Whether each of several nodes gets an identity of its own.
    pub(crate) const fn tell_apart(&self) -> bool {
        matches!(self, Self::Each(..) | Self::One(_, Some(_)))
    }

    /// Returns the node whose identity the only kubeconfig holds.
    pub(crate) fn own(&self) -> Option<String> {
        match self {
            Self::One(endpoint, _) => node_name(endpoint),
            Self::Each(..) => None,
        }
    }

    /// Returns the endpoint and credentials with which a node reaches the API as itself.
    ///
    /// # Errors
    /// When no identity exists for the node.
    pub(crate) fn node(&self, name: &str) -> anyhow::Result<Endpoint> {
        match self {
            Self::One(endpoint, None) => Ok((**endpoint).clone()),
            Self::One(endpoint, Some(signer)) => signer.node(endpoint, name),
            Self::Each(folder, servers) => {
                let path = folder.join(format!("{name}.kubeconfig"));
                let endpoint = Kubeconfig::read(&path)?.resolve(None)?.at(servers)?;
                let speaks_for = node_name(&endpoint);
                anyhow::ensure!(
                    speaks_for.as_deref() == Some(name),
                    "{}: its certificate is not that of node {name}",
                    path.display()
                );
                Ok(endpoint)
            }
        }
    }

    /// Returns the signer of the nodes' certificates, if the cluster's CA key is available.
    pub(crate) fn signer(&self) -> Option<&Signer> {
        match self {
            Self::One(_, signer) => signer.as_deref(),
            Self::Each(..) => None,
        }
    }
}

/// Returns the current time in the form certificates use.
pub(crate) fn now() -> anyhow::Result<UnixTime> {
    Ok(UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(clock::wall().as_second())?)))
}

/// Returns the node that a kubeconfig's client certificate names, if the certificate is a node's.
fn node_name(endpoint: &Endpoint) -> Option<String> {
    let Credential::Certificate(pair) = &endpoint.credential else { return None };
    let chain = parse_chain(&pair.certificate).ok()?;
    let facts = Presented::parse(chain.first()?).ok()?;
    facts.subject.common_name.strip_prefix(PREFIX).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use oarlock_pki::Usage;

    use super::*;

    /// Writes a kubeconfig of this user into the folder.
    fn write(folder: &Path, file: &str, user: &Subject) {
        let authority = Authority::create("kubernetes", now().unwrap()).unwrap();
        let leaf = Leaf { usage: Usage::Client, ..Leaf::client(user.clone()) };
        let issued = authority.issue(&leaf, now().unwrap()).unwrap();
        let (certificate, key) = (issued.certificate_pem(), issued.key.to_pem());
        let server = "https://127.0.0.1:6443";
        let config = Kubeconfig::embedded("c", server, &authority.certificate_pem(), "u", &certificate, &key);
        config.write(&folder.join(file)).unwrap();
    }

    #[test]
    fn in_a_folder_each_node_has_a_kubeconfig_that_speaks_for_it() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.kubeconfig", &Subject::node("a"));
        write(folder.path(), "b.kubeconfig", &Subject::node("a"));
        write(folder.path(), "c.kubeconfig", &Subject::user("system:masters", ["system:masters"]));
        let api = ApiOptions { kubeconfig: folder.path().to_owned(), server: Vec::new() };
        let identities = Identities::open(&api, None).unwrap();
        assert!(identities.tell_apart() && identities.signer().is_none() && identities.own().is_none());
        assert!(identities.node("a").is_ok());
        for other in ["b", "c"] {
            let why = identities.node(other).err().unwrap().to_string();
            assert!(why.contains(&format!("not that of node {other}")), "{why}");
        }
        assert!(identities.node("d").err().unwrap().to_string().contains("d.kubeconfig"));
        assert!(Identities::open(&api, Some(folder.path())).is_err(), "the authority's key is for nothing there");
        let api = ApiOptions { kubeconfig: folder.path().join("a.kubeconfig"), server: Vec::new() };
        let identities = Identities::open(&api, None).unwrap();
        assert_eq!((identities.own().as_deref(), identities.tell_apart()), (Some("a"), false));
    }
}
