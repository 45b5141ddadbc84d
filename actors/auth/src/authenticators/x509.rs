//! Client certificates (upstream: `request/x509`): CN is the user, every O a group. A chain is verified once per connection and
//! authority; on every request only the dates are looked at again.

use std::sync::{Arc, OnceLock};

use oarlock_pki::{CertificateDer, ClientTrust, Presented, UnixTime};

use super::Answer;
use crate::user::{CREDENTIAL_ID, UserInfo};

/// The certificates a connection's client presented, with what was found out about them. Used with one [`super::Authenticators`].
#[derive(Debug)]
pub struct PeerCertificates {
    chain: Vec<CertificateDer<'static>>,
    client: OnceLock<Result<Believed, String>>,
    proxy: OnceLock<Result<Believed, String>>,
}

/// A chain that was verified.
#[derive(Debug, Clone)]
struct Believed {
    facts: Arc<Presented>,
    user: Result<Option<Arc<UserInfo>>, String>,
}

impl PeerCertificates {
    /// The chain as the client sent it, own certificate first; `None` when it sent none.
    #[must_use]
    pub fn new(chain: Vec<CertificateDer<'static>>) -> Option<Self> {
        (!chain.is_empty()).then(|| Self { chain, client: OnceLock::new(), proxy: OnceLock::new() })
    }

    /// The user the certificate proves.
    pub(super) fn user(&self, trust: &ClientTrust, now: i64) -> Answer {
        self.believed(&self.client, trust, now)?.user.clone()
    }

    /// What the certificate says, verified against the front proxy's authority.
    pub(super) fn proxy(&self, trust: &ClientTrust, now: i64) -> Result<Arc<Presented>, String> {
        Ok(Arc::clone(&self.believed(&self.proxy, trust, now)?.facts))
    }

    fn believed<'a>(
        &'a self,
        known: &'a OnceLock<Result<Believed, String>>,
        trust: &ClientTrust,
        now: i64,
    ) -> Result<&'a Believed, String> {
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(u64::try_from(now).unwrap_or(0)));
        let believed = known
            .get_or_init(|| match trust.verify(&self.chain, now) {
                Ok(facts) => Ok(Believed { user: user(&facts), facts: Arc::new(facts) }),
                Err(error) => Err(format!("verifying certificate failed: {error}")),
            })
            .as_ref()
            .map_err(Clone::clone)?;
        if believed.facts.good_for(now, 0) {
            Ok(believed)
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
