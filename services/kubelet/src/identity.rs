//! Who each node is: what the kubeconfig says, or a certificate that the cluster's CA signs here and now.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use oarlock_config::{ClientKey, Credential, DataDir, Endpoint};
use oarlock_pki::{Authority, Issued, Leaf, Presented, Subject, UnixTime, parse_chain};
use oarlock_runtime::clock;

/// What users of nodes are called.
const PREFIX: &str = "system:node:";

/// Signs client certificates of nodes.
pub(crate) struct Signer {
    authority: Authority,
}

impl Signer {
    /// Reads the authority of a data directory. Nothing there is written: a server may be using it.
    pub(crate) fn open(data_dir: &Path) -> anyhow::Result<Self> {
        let pki = DataDir::new(data_dir).pki();
        let read = |name: &str| {
            let path = pki.join(name);
            std::fs::read_to_string(&path).with_context(|| path.display().to_string())
        };
        Ok(Self { authority: Authority::from_pem(&read("ca.crt")?, &read("ca.key")?)? })
    }

    /// The endpoint, as the node.
    pub(crate) fn node(&self, base: &Endpoint, name: &str) -> anyhow::Result<Endpoint> {
        let issued = self.issue(&Leaf::client(Subject::node(name)))?;
        let pair = ClientKey { certificate: issued.certificate_pem(), key: issued.key.to_pem().to_string() };
        Ok(Endpoint { credential: Credential::Certificate(pair), impersonate: None, ..base.clone() })
    }

    /// A certificate of the cluster's authority.
    pub(crate) fn issue(&self, leaf: &Leaf) -> anyhow::Result<Issued> {
        Ok(self.authority.issue(leaf, now()?)?)
    }
}

/// The present, as certificates tell it.
pub(crate) fn now() -> anyhow::Result<UnixTime> {
    Ok(UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(clock::wall().as_second())?)))
}

/// The node that a kubeconfig's client certificate speaks for, if it is one's.
pub(crate) fn node_name(endpoint: &Endpoint) -> Option<String> {
    let Credential::Certificate(pair) = &endpoint.credential else { return None };
    let chain = parse_chain(&pair.certificate).ok()?;
    let facts = Presented::parse(chain.first()?).ok()?;
    facts.subject.common_name.strip_prefix(PREFIX).map(str::to_owned)
}
