//! From a token to a user, or to the reason why not. Texts are upstream's: a TokenReview shows them.

use std::sync::Arc;

use oarlock_meta::quote::quote;
use oarlock_pki::VerifyingKeys;

use super::cache::{self, Cache};
use super::claims::{Claims, Reference};
use super::jwt::{Parsed, Unverified};
use super::{Found, Lookup};
use crate::user::{CREDENTIAL_ID, NODE_NAME, NODE_UID, POD_NAME, POD_UID, UserInfo};

/// Clocks may differ by so many seconds; a deleted object's tokens live as long (go-jose's `DefaultLeeway`).
const LEEWAY: i64 = 60;

/// Longer tokens are not looked at.
const MAX_TOKEN: usize = 16 << 10;

/// A verified token.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The account.
    pub user: Arc<UserInfo>,
    /// Which of the audiences asked for the token is meant for.
    pub audiences: Vec<String>,
    /// Seconds since the token should have been replaced, if that time has come.
    pub stale_for: Option<i64>,
}

/// Why a token is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// No token of this issuer.
    #[error("invalid bearer token")]
    NotOurs,
    /// One of this issuer, but not good (any more).
    #[error("[invalid bearer token, {0}]")]
    Refused(String),
}

/// Verifies tokens of one issuer.
pub struct Verifier {
    issuers: Vec<String>,
    audiences: Vec<String>,
    keys: VerifyingKeys,
    cache: Cache<Remembered>,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier")
            .field("issuers", &self.issuers)
            .field("audiences", &self.audiences)
            .finish_non_exhaustive()
    }
}

/// A token whose signature was verified, with the user it proves.
pub(super) struct Remembered {
    claims: Claims,
    user: Arc<UserInfo>,
}

impl Remembered {
    pub(super) fn new(claims: Claims) -> Self {
        let user = Arc::new(user(&claims));
        Self { claims, user }
    }
}

impl Verifier {
    /// Believes tokens of these issuers (`--service-account-issuer`, the first one signs), signed by one of the keys and meant for one of
    /// the audiences (`--api-audiences`, by default the issuers).
    #[must_use]
    pub fn new(issuers: Vec<String>, audiences: Vec<String>, keys: VerifyingKeys) -> Self {
        let audiences = if audiences.is_empty() { issuers.clone() } else { audiences };
        Self { issuers, audiences, keys, cache: Cache::default() }
    }

    /// The audiences of this server.
    #[must_use]
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Verifies a token at `now` (Unix seconds), for this server's audiences or, in a TokenReview, for others.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn verify(
        &self,
        token: &str,
        audiences: Option<&[String]>,
        lookup: &dyn Lookup,
        now: i64,
    ) -> Result<Verified, TokenError> {
        if token.len() > MAX_TOKEN {
            return Err(TokenError::NotOurs);
        }
        let hash = cache::hash(token);
        let known = match self.cache.get(&hash) {
            Some(known) => known,
            None => {
                let known = Arc::new(Remembered::new(self.believed(token)?));
                self.cache.insert(hash, Arc::clone(&known));
                known
            }
        };
        let claims = &known.claims;
        let wanted = audiences.unwrap_or(&self.audiences);
        // A token without audiences is meant for the API server, as the oldest ones were.
        let meant = if claims.aud.is_empty() { &self.audiences } else { &claims.aud };
        let matching: Vec<String> = meant.iter().filter(|audience| wanted.contains(audience)).cloned().collect();
        if matching.is_empty() {
            let text = format!(
                "token audiences {} is invalid for the target audiences {}",
                quote_list(meant),
                quote_list(wanted)
            );
            return Err(TokenError::Refused(text));
        }
        in_time(claims, now).map_err(|text| TokenError::Refused(text.to_owned()))?;
        bound(claims, lookup, now).map_err(TokenError::Refused)?;
        let stale_for =
            claims.kubernetes.warnafter.filter(|after| *after != 0 && now > *after).map(|after| now - after);
        Ok(Verified { user: Arc::clone(&known.user), audiences: matching, stale_for })
    }

    /// The claims, once the signature has verified.
    fn believed(&self, token: &str) -> Result<Claims, TokenError> {
        let parsed = Parsed::parse(token).ok_or(TokenError::NotOurs)?;
        if !self.issuers.contains(&parsed.claims.iss) {
            return Err(TokenError::NotOurs);
        }
        parsed.verify(&self.keys).map_err(|why| {
            TokenError::Refused(
                match why {
                    Unverified::NoKey => "invalid signature, no keys found",
                    Unverified::Wrong => "go-jose/go-jose: error in cryptographic primitive",
                }
                .to_owned(),
            )
        })?;
        Ok(parsed.claims)
    }
}

fn in_time(claims: &Claims, now: i64) -> Result<(), &'static str> {
    if claims.nbf.is_some_and(|nbf| now.saturating_add(LEEWAY) < nbf) {
        return Err("service account token is not valid yet");
    }
    if claims.exp.is_some_and(|exp| now.saturating_sub(LEEWAY) > exp) {
        return Err("service account token has expired");
    }
    if claims.iat.is_some_and(|iat| now.saturating_add(LEEWAY) < iat) {
        return Err("service account token is issued in the future");
    }
    Ok(())
}

/// Whether the account and the bound object are still there, the same ones and not long deleted.
fn bound(claims: &Claims, lookup: &dyn Lookup, now: i64) -> Result<(), String> {
    let k = &claims.kubernetes;
    let gone = |found: &Found| found.deleted_at.is_some_and(|at| at < now - LEEWAY);
    let (namespace, account) = (&k.namespace, &k.serviceaccount);
    let found = lookup
        .service_account(namespace, &account.name)
        .ok_or_else(|| format!("serviceaccounts {} not found", quote(&account.name)))?;
    if found.uid != account.uid {
        return Err(format!("service account UID ({}) does not match claim ({})", found.uid, account.uid));
    }
    if gone(&found) {
        return Err(format!("service account {namespace}/{} has been deleted", account.name));
    }
    let check = |what: &str, word: &str, claim: &Reference, found: Option<Found>| {
        let invalidated = || "service account token has been invalidated".to_owned();
        let found = found.ok_or_else(invalidated)?;
        if found.uid != claim.uid {
            let uids = (&found.uid, &claim.uid);
            return Err(format!(
                "{what} UID ({}) does not match service account {word} ref claim ({})",
                uids.0, uids.1
            ));
        }
        if gone(&found) { Err(invalidated()) } else { Ok(()) }
    };
    if let Some(secret) = &k.secret {
        check("secret", "secret", secret, lookup.secret(namespace, &secret.name))?;
    }
    match (&k.pod, &k.node) {
        // A pod's token names the node only for the record.
        (Some(pod), _) => check("pod", "pod", pod, lookup.pod(namespace, &pod.name).map(|p| p.object)),
        (None, Some(node)) => check("node", "node", node, lookup.node(&node.name)),
        (None, None) => Ok(()),
    }
}

fn user(claims: &Claims) -> UserInfo {
    let k = &claims.kubernetes;
    let mut user = UserInfo::service_account(&k.namespace, &k.serviceaccount.name, &k.serviceaccount.uid);
    if let Some(pod) = k.pod.as_ref().filter(|pod| !pod.name.is_empty() && !pod.uid.is_empty()) {
        user = user.with_extra(POD_NAME, &pod.name).with_extra(POD_UID, &pod.uid);
    }
    if !claims.jti.is_empty() {
        user = user.with_extra(CREDENTIAL_ID, format!("JTI={}", claims.jti));
    }
    if let Some(node) = k.node.as_ref().filter(|node| !node.name.is_empty()) {
        user = user.with_extra(NODE_NAME, &node.name);
        if !node.uid.is_empty() {
            user = user.with_extra(NODE_UID, &node.uid);
        }
    }
    user
}

fn quote_list(list: &[String]) -> String {
    format!("[{}]", list.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "))
}
