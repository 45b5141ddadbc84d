//! The whole set of keys and certificates of a control plane, and its directory (kubeadm's file names).

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rustls_pki_types::UnixTime;

use crate::authority::one_certificate;
use crate::certificate::Presented;
use crate::files::{AtomicFiles, Visibility, read, read_optional};
use crate::{Authority, Error, Issued, KeyPair, Leaf, Result, San, SigningKey, Subject, serving_sans};

/// Remaining validity, in seconds, below which a certificate is issued anew (90 days of a year).
const RENEW_BEFORE: u64 = 90 * 24 * 3600;

/// Names for the apiserver's serving certificate.
#[derive(Debug, Clone)]
pub struct ServingNames {
    /// The cluster's DNS domain, such as `cluster.local`.
    pub cluster_domain: String,
    /// The first address of every service range, the advertised address, and the bound one.
    pub addresses: Vec<IpAddr>,
    /// Further names and addresses that the operator configured.
    pub more: Vec<String>,
}

impl Default for ServingNames {
    fn default() -> Self {
        Self {
            cluster_domain: "cluster.local".to_owned(),
            addresses: vec![IpAddr::from([10, 96, 0, 1])],
            more: Vec::new(),
        }
    }
}

/// All keys and certificates with which a control plane proves its identity and verifies its peers.
#[derive(Debug)]
pub struct Pki {
    /// Signs serving and client certificates; clients and the apiserver's authentication trust it.
    pub ca: Authority,
    /// Signs only the front proxy's client certificate, so that no ordinary client can impersonate the proxy.
    pub front_proxy_ca: Authority,
    /// Serving certificate of the apiserver.
    pub serving: Issued,
    /// Client certificate of the apiserver at kubelets.
    pub kubelet_client: Issued,
    /// Client certificate of the aggregation layer at extension API servers.
    pub front_proxy_client: Issued,
    /// Key that signs ServiceAccount tokens.
    pub service_account: SigningKey,
    /// The token key's public half in PEM (`sa.pub`).
    pub service_account_public_pem: String,
}

impl Pki {
    /// Loads the set from `directory`; creates and writes what is absent, near expiry or issued for other names.
    ///
    /// An authority or the token key is never replaced: if only its public half exists, the result is an error.
    ///
    /// # Errors
    /// When a file cannot be read or written, or does not hold what its name says.
    pub fn open(directory: &Path, names: &ServingNames, now: UnixTime) -> Result<Self> {
        let mut set = Set { directory: Some(directory.to_owned()), fresh: AtomicFiles::new(), now };
        let pki = set.assemble(names)?;
        set.fresh.commit()?;
        Ok(pki)
    }

    /// Loads a set without creating or renewing anything. The authorities' keys may be absent.
    ///
    /// # Errors
    /// When a file is missing or does not hold what its name says.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = |stem: &str, extension: &str| directory.join(format!("{stem}.{extension}"));
        let authority = |stem: &str| {
            let path = path(stem, "crt");
            Authority::believed(&read(&path)?).map_err(|error| error.in_file(path))
        };
        let leaf = |stem: &str| {
            let (certificate, key) = (path(stem, "crt"), path(stem, "key"));
            let issued = Issued {
                certificate: one_certificate(&read(&certificate)?).map_err(|error| error.in_file(&certificate))?,
                key: KeyPair::from_pem(&read(&key)?).map_err(|error| error.in_file(&key))?,
            };
            let fits =
                issued.facts().map_err(|error| error.in_file(&certificate))?.public_key == issued.key.public_der();
            let foreign =
                || Error::Malformed("the certificate does not belong to the key".to_owned()).in_file(&certificate);
            fits.then_some(issued).ok_or_else(foreign)
        };
        let token_key = path("sa", "key");
        let token_key = KeyPair::from_pem(&read(&token_key)?).map_err(|error| error.in_file(token_key))?;
        Ok(Self {
            ca: authority("ca")?,
            front_proxy_ca: authority("front-proxy-ca")?,
            serving: leaf("apiserver")?,
            kubelet_client: leaf("apiserver-kubelet-client")?,
            front_proxy_client: leaf("front-proxy-client")?,
            service_account: SigningKey::new(&token_key)?,
            service_account_public_pem: token_key.public_pem(),
        })
    }

    /// Names of the files that [`Pki::read`] reads. No authority's key is among them, so a copy of these files cannot issue certificates.
    pub const READ: [&str; 10] = [
        "ca.crt",
        "front-proxy-ca.crt",
        "apiserver.crt",
        "apiserver.key",
        "apiserver-kubelet-client.crt",
        "apiserver-kubelet-client.key",
        "front-proxy-client.crt",
        "front-proxy-client.key",
        "sa.key",
        "sa.pub",
    ];

    /// Loads an authority outside the set from its own directory, or creates it there.
    ///
    /// # Errors
    /// As [`Pki::open`].
    pub fn authority(directory: &Path, stem: &str, common_name: &str, now: UnixTime) -> Result<Authority> {
        let mut set = Set { directory: Some(directory.to_owned()), fresh: AtomicFiles::new(), now };
        let authority = set.authority(stem, common_name)?;
        set.fresh.commit()?;
        Ok(authority)
    }

    /// Returns a certificate stored in a directory. An existing one is kept if it matches `leaf`, is signed by `authority` and does not expire soon; otherwise a new one is
    /// issued and stored.
    ///
    /// # Errors
    /// As [`Pki::open`], and [`Authority::issue`].
    pub fn leaf(directory: &Path, stem: &str, authority: &Authority, leaf: &Leaf, now: UnixTime) -> Result<Issued> {
        let mut set = Set { directory: Some(directory.to_owned()), fresh: AtomicFiles::new(), now };
        let issued = set.leaf(stem, authority, leaf)?;
        set.fresh.commit()?;
        Ok(issued)
    }

    /// Returns a certificate that is embedded in another file. `present` (certificate and key, PEM) is kept under the same conditions as by [`Pki::leaf`]; otherwise a new one is
    /// issued.
    ///
    /// # Errors
    /// As [`Authority::issue`].
    pub fn kept_or_issued(
        present: Option<(&str, &str)>,
        authority: &Authority,
        leaf: &Leaf,
        now: UnixTime,
    ) -> Result<Issued> {
        let kept = present.and_then(|(certificate, key)| still_good(certificate, key, authority, leaf, now));
        kept.map_or_else(|| authority.issue(leaf, now), Ok)
    }

    /// Creates a set in memory only (`--ephemeral`, tests).
    ///
    /// # Errors
    /// When the operating system provides no randomness, or a name is not valid in a certificate.
    pub fn ephemeral(names: &ServingNames, now: UnixTime) -> Result<Self> {
        Set { directory: None, fresh: AtomicFiles::new(), now }.assemble(names)
    }
}

/// A set under construction: existing files are used; new ones are collected in `fresh` and written in one batch.
struct Set {
    directory: Option<PathBuf>,
    fresh: AtomicFiles,
    now: UnixTime,
}

impl Set {
    fn assemble(&mut self, names: &ServingNames) -> Result<Pki> {
        let ca = self.authority("ca", "kubernetes")?;
        let front_proxy_ca = self.authority("front-proxy-ca", "front-proxy-ca")?;
        let sans = serving_sans(&names.cluster_domain, &names.addresses, &names.more);
        let serving = self.leaf("apiserver", &ca, &Leaf::server(Subject::named("kube-apiserver"), sans))?;
        let kubelet = Leaf::client(Subject::named("kube-apiserver-kubelet-client"));
        let kubelet_client = self.leaf("apiserver-kubelet-client", &ca, &kubelet)?;
        let proxy = Leaf::client(Subject::named("front-proxy-client"));
        let front_proxy_client = self.leaf("front-proxy-client", &front_proxy_ca, &proxy)?;
        let token_key = self.token_key()?;
        Ok(Pki {
            ca,
            front_proxy_ca,
            serving,
            kubelet_client,
            front_proxy_client,
            service_account: SigningKey::new(&token_key)?,
            service_account_public_pem: token_key.public_pem(),
        })
    }

    fn authority(&mut self, stem: &str, common_name: &str) -> Result<Authority> {
        if let Some((certificate, key, path)) = self.pair(stem, "crt")? {
            return Authority::from_pem(&certificate, &key).map_err(|e| e.in_file(path));
        }
        let made = Authority::create(common_name, self.now)?;
        self.keep(stem, "key", Visibility::Private, made.key_pem().unwrap_or_default());
        self.keep(stem, "crt", Visibility::Public, made.certificate_pem());
        Ok(made)
    }

    /// A certificate can always be issued again, so half a pair is not an error here.
    fn leaf(&mut self, stem: &str, authority: &Authority, leaf: &Leaf) -> Result<Issued> {
        let (certificate, key) = (self.read(stem, "crt")?, self.read(stem, "key")?);
        if let (Some(certificate), Some(key)) = (certificate, key)
            && let Some(found) = still_good(&certificate, &key, authority, leaf, self.now)
        {
            return Ok(found);
        }
        let made = authority.issue(leaf, self.now)?;
        self.keep(stem, "key", Visibility::Private, made.key.to_pem());
        self.keep(stem, "crt", Visibility::Public, made.certificate_pem());
        Ok(made)
    }

    fn token_key(&mut self) -> Result<KeyPair> {
        if let Some((_, key, path)) = self.pair("sa", "pub")? {
            return KeyPair::from_pem(&key).map_err(|e| e.in_file(path));
        }
        let key = KeyPair::generate()?;
        self.keep("sa", "key", Visibility::Private, key.to_pem());
        self.keep("sa", "pub", Visibility::Public, key.public_pem());
        Ok(key)
    }

    /// Returns the public text, the key and the public file's path when both halves exist. Keys are renamed into place first, so a crash in between leaves a key alone, which
    /// no one has used and which is created anew; a public half alone means that its key was lost.
    fn pair(&self, stem: &str, public: &str) -> Result<Option<(String, String, PathBuf)>> {
        match (self.read(stem, public)?, self.read(stem, "key")?) {
            (Some(text), Some(key)) => Ok(Some((text, key, self.path(stem, public).unwrap_or_default()))),
            (Some(_), None) => Err(Error::HalfPair {
                missing: self.path(stem, "key").unwrap_or_default(),
                present: self.path(stem, public).unwrap_or_default(),
            }),
            (None, _) => Ok(None),
        }
    }

    fn path(&self, stem: &str, extension: &str) -> Option<PathBuf> {
        self.directory.as_ref().map(|d| d.join(format!("{stem}.{extension}")))
    }

    fn read(&self, stem: &str, extension: &str) -> Result<Option<String>> {
        self.path(stem, extension).map_or(Ok(None), |path| read_optional(&path))
    }

    fn keep(&mut self, stem: &str, extension: &str, visibility: Visibility, text: String) {
        if let Some(path) = self.path(stem, extension) {
            self.fresh.add(path, visibility, text);
        }
    }
}

/// Returns the stored pair if it matches `leaf`, is signed by this authority and does not expire soon. Any other pair is replaced.
fn still_good(certificate: &str, key: &str, authority: &Authority, leaf: &Leaf, now: UnixTime) -> Option<Issued> {
    let certificate = one_certificate(certificate).ok()?;
    let key = KeyPair::from_pem(key).ok()?;
    let facts = Presented::parse(&certificate).ok()?;
    let mut wanted: Vec<San> = leaf.sans.clone();
    wanted.sort();
    let good = facts.public_key == key.public_der()
        && facts.subject == leaf.subject
        && facts.sans == wanted
        && facts.good_for(now, RENEW_BEFORE)
        && authority.signed(&certificate);
    good.then_some(Issued { certificate, key })
}
