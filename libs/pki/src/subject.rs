//! Certificate subjects as users. Upstream reads a user from a certificate: CN is the user's name, every O a group, and the attribute 1.3.6.1.4.1.57683.2 the uid.

use crate::der;

/// The subject of a certificate as Kubernetes reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// CN: the user's name.
    pub common_name: String,
    /// Every O, in order: the user's groups.
    pub organizations: Vec<String>,
}

impl Subject {
    /// Creates a subject with a name and no groups.
    pub fn named(common_name: impl Into<String>) -> Self {
        Self { common_name: common_name.into(), organizations: Vec::new() }
    }

    /// Creates a subject with a name and groups.
    pub fn user<G: Into<String>>(common_name: impl Into<String>, groups: impl IntoIterator<Item = G>) -> Self {
        Self { common_name: common_name.into(), organizations: groups.into_iter().map(Into::into).collect() }
    }

    /// Creates the subject of a node's kubelet: `system:node:<name>` in `system:nodes`, as the Node authorizer requires.
    #[must_use]
    pub fn node(name: &str) -> Self {
        Self::user(format!("system:node:{name}"), ["system:nodes"])
    }

    /// Encodes the DER Name: O first, then CN, one attribute per set (the order of Go and OpenSSL).
    pub(crate) fn to_der(&self) -> Vec<u8> {
        // 2.5.4.10 organizationName and 2.5.4.3 commonName.
        let organizations = self.organizations.iter().map(|o| attribute(&[0x55, 0x04, 0x0a], o));
        let names = organizations.chain([attribute(&[0x55, 0x04, 0x03], &self.common_name)]).collect::<Vec<_>>();
        der::element(der::SEQUENCE, &names.concat())
    }
}

fn attribute(oid: &[u8], value: &str) -> Vec<u8> {
    let pair = [der::element(der::OID, oid), der::element(der::UTF8_STRING, value.as_bytes())].concat();
    der::element(der::SET, &der::element(der::SEQUENCE, &pair))
}
