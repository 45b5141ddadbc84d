//! The certificates of one run.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use oarlock_pki::tls::{ServerTrust, client_config};
use oarlock_pki::{Authority, Leaf, PrivateKeyDer, San, Subject, UnixTime, parse_chain};
use rustls_pki_types::pem::PemObject as _;
use tempfile::TempDir;
use tokio_rustls::TlsConnector;

/// How many bytes of what programs printed an error shows.
const SHOWN: usize = 500;
/// The file of what programs print.
const LOG: &str = "log";

/// A folder with the certificates of an authority, of a server, and of a client, which is agent and API server in one.
pub(super) struct Keys(TempDir);

impl Keys {
    pub(super) fn make() -> anyhow::Result<Self> {
        let keys = Self(tempfile::tempdir()?);
        let authority = Authority::create("tunnel", UnixTime::now())?;
        keys.write("ca.crt", &authority.certificate_pem())?;
        let localhost = San::Ip("127.0.0.1".parse()?);
        let leaves = [
            ("server", Leaf::server(Subject::named("konnectivity-server"), vec![localhost])),
            ("client", Leaf::client(Subject::named("client"))),
        ];
        for (name, leaf) in leaves {
            let issued = authority.issue(&leaf, UnixTime::now())?;
            let (certificate, key) = (issued.certificate_pem(), issued.key.to_pem());
            keys.write(&format!("{name}.crt"), &certificate)?;
            keys.write(&format!("{name}.key"), &key)?;
            keys.write(&format!("{name}.pem"), &format!("{certificate}{key}"))?;
        }
        Ok(keys)
    }

    /// The path of a file.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A flag with the path of a file.
    pub(super) fn flag(&self, flag: &str, name: &str) -> String {
        format!("--{flag}={}", self.path(name).display())
    }

    pub(super) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        std::fs::write(self.path(name), text).with_context(|| name.to_owned())
    }

    /// The client's side of TLS, with its certificate.
    pub(super) fn connector(&self, protocols: &[&[u8]]) -> anyhow::Result<TlsConnector> {
        let chain = |name: &str| anyhow::Ok(parse_chain(&std::fs::read_to_string(self.path(name))?)?);
        let key = PrivateKeyDer::from_pem_file(self.path("client.key"))?;
        let mut config = client_config(ServerTrust::Authorities(chain("ca.crt")?), Some((chain("client.crt")?, key)))?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// The file of what programs print, open at its end.
    pub(super) fn log(&self) -> anyhow::Result<File> {
        Ok(File::options().create(true).append(true).open(self.path(LOG))?)
    }

    /// The end of what programs have printed.
    pub(super) fn last_lines(&self) -> String {
        let text = std::fs::read(self.path(LOG)).unwrap_or_default();
        let from = text.len().saturating_sub(SHOWN);
        String::from_utf8_lossy(text.get(from..).unwrap_or_default()).into_owned()
    }
}
