//! Certificates of a tunnel, made for one test.

use std::path::PathBuf;

use oarlock_konnectivity::SERVER_USER;
use oarlock_pki::{Authority, Leaf, San, Subject, UnixTime};
use tempfile::TempDir;

/// A folder with an authority, the certificates of a server (for agents and for other servers), an agent and an API server, and an agent's certificate of another authority.
pub(super) struct Keys(TempDir);

impl Keys {
    pub(super) fn make() -> Self {
        let keys = Self(tempfile::tempdir().unwrap());
        let (own, other) = (authority("tunnel"), authority("other"));
        keys.write("ca.crt", &own.certificate_pem());
        let sans = vec![San::Ip("127.0.0.1".parse().unwrap()), San::Dns("localhost".to_owned())];
        keys.issue("server", &own, &Leaf::server(Subject::named("konnectivity-server"), sans.clone()));
        keys.issue("peer", &own, &Leaf::peer(Subject::named(SERVER_USER), sans));
        keys.issue("agent", &own, &Leaf::client(Subject::named("agent")));
        keys.issue("client", &own, &Leaf::client(Subject::named("kube-apiserver")));
        keys.issue("stranger", &other, &Leaf::client(Subject::named("agent")));
        keys
    }

    /// Returns the path of a file.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns a flag with the path of a file.
    pub(super) fn flag(&self, flag: &str, name: &str) -> String {
        format!("--{flag}={}", self.path(name).display())
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn issue(&self, name: &str, authority: &Authority, leaf: &Leaf) {
        let issued = authority.issue(leaf, UnixTime::now()).unwrap();
        self.write(&format!("{name}.crt"), &issued.certificate_pem());
        self.write(&format!("{name}.key"), &issued.key.to_pem());
    }
}

fn authority(name: &str) -> Authority {
    Authority::create(name, UnixTime::now()).unwrap()
}
