//! Client certificates (upstream: `request/x509`): CN is the user, every O a group. A chain is verified once per connection and authority; later
//! requests only check the validity dates.

use std::sync::{Arc, OnceLock};

use oarlock_pki::{CertificateDer, ClientTrust, Presented, UnixTime};

use super::Answer;
use crate::user::{CREDENTIAL_ID, UserInfo};

/// The certificate chain of a connection's client, with cached verification results. Used with one [`super::Authenticators`].
#[derive(Debug)]
pub struct PeerCertificates {
    chain: Vec<CertificateDer<'static>>,
    client: OnceLock<Result<VerifiedChain, String>>,
    proxy: OnceLock<Result<VerifiedChain, String>>,
}

/// The verification result of a chain for one authority.
#[derive(Debug, Clone)]
struct VerifiedChain {
    facts: Arc<Presented>,
    user: Result<Option<Arc<UserInfo>>, String>,
}

impl PeerCertificates {
    /// Creates the record from the chain as the client sent it, own certificate first; `None` for an empty chain.
    #[must_use]
    pub fn new(chain: Vec<CertificateDer<'static>>) -> Option<Self> {
        (!chain.is_empty()).then(|| Self { chain, client: OnceLock::new(), proxy: OnceLock::new() })
    }

    /// Returns the user of the certificate.
    pub(super) fn user(&self, trust: &ClientTrust, now: i64) -> Answer {
        self.verified(&self.client, trust, now)?.user.clone()
    }

    /// Returns the last second of the validity of a certificate that was verified as a client's, since the epoch.
    #[must_use]
    pub fn expires(&self) -> Option<u64> {
        Some(self.client.get()?.as_ref().ok()?.facts.not_after)
    }

    /// Returns the names in the certificate, verified against the front proxy's authority.
    pub(super) fn proxy(&self, trust: &ClientTrust, now: i64) -> Result<Arc<Presented>, String> {
        Ok(Arc::clone(&self.verified(&self.proxy, trust, now)?.facts))
    }

    fn verified<'a>(
        &'a self,
        known: &'a OnceLock<Result<VerifiedChain, String>>,
        trust: &ClientTrust,
        now: i64,
    ) -> Result<&'a VerifiedChain, String> {
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(u64::try_from(now).unwrap_or(0)));
        let verified = known
            .get_or_init(|| match trust.verify(&self.chain, now) {
                Ok(facts) => Ok(VerifiedChain { user: user(&facts), facts: Arc::new(facts) }),
                Err(error) => Err(format!("verifying certificate failed: {error}")),
            })
            .as_ref()
            .map_err(Clone::clone)?;
        if verified.facts.good_for(now, 0) {
            Ok(verified)
        } else {
            Err("verifying certificate failed: it has expired or is not yet valid".to_owned())
        }
    }
}

fn user(facts: &Presented) -> Answer {
    let subject = &facts.subject;
    if subject.common_name.is_empty() {
        return Ok(None);
    }
    let uid = match facts.uids.as_slice() {
        [] => String::new(),
        [uid] if uid.is_empty() => return Err("UID cannot be an empty string".to_owned()),
        [uid] => uid.clone(),
        many => return Err(format!("expected 1 UID, but found multiple: {many:?}")),
    };
    let mut user = UserInfo::new(&subject.common_name, subject.organizations.iter().cloned());
    user.uid = uid;
    let id = format!("X509SHA256={}", facts.fingerprint);
    Ok(Some(Arc::new(user.with_extra(CREDENTIAL_ID, id).authenticated())))
}
