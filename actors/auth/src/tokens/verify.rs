//! Verification of tokens, with the user as the result or the reason for refusing. Texts are upstream's: a TokenReview shows them.

use std::sync::Arc;

use oarlock_meta::quote::quote;
use oarlock_pki::VerifyingKeys;

use super::cache::{self, Cache};
use super::claims::{Claims, Reference};
use super::jwt::{Parsed, Unverified};
use super::{Found, Lookup};
use crate::user::{CREDENTIAL_ID, NODE_NAME, NODE_UID, POD_NAME, POD_UID, UserInfo};

/// The tolerated clock difference in seconds, and how long the tokens of a deleted object stay valid (go-jose's `DefaultLeeway`).
const LEEWAY: i64 = 60;

/// The longest token that is parsed, in bytes.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// A verified token.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The account's user.
    pub user: Arc<UserInfo>,
    /// The requested audiences that the token is valid for.
    pub audiences: Vec<String>,
    /// Seconds since the token should have been renewed, if it is stale.
    pub stale_for: Option<i64>,
}

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is from another issuer.
    #[error("invalid bearer token")]
    NotOurs,
    /// The token is from this issuer, but not or no longer valid.
    #[error("[invalid bearer token, {0}]")]
    Refused(String),
}

/// Verifies tokens of one issuer.
pub struct Verifier {
    issuers: Vec<String>,
    audiences: Vec<String>,
    keys: VerifyingKeys,
    cache: Cache<VerifiedToken>,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier")
            .field("issuers", &self.issuers)
            .field("audiences", &self.audiences)
            .finish_non_exhaustive()
    }
}

/// The cached result for a token with a verified signature: its claims and user.
pub(super) struct VerifiedToken {
    claims: Claims,
    user: Arc<UserInfo>,
}

impl VerifiedToken {
    pub(super) fn new(claims: Claims) -> Self {
        let user = Arc::new(user(&claims));
        Self { claims, user }
    }
}

impl Verifier {
    /// Creates a verifier for tokens of these issuers (`--service-account-issuer`, of which the first one signs), signed by one of the keys and for
    /// one of the audiences (`--api-audiences`, by default the issuers).
    #[must_use]
    pub fn new(issuers: Vec<String>, audiences: Vec<String>, keys: VerifyingKeys) -> Self {
        let audiences = if audiences.is_empty() { issuers.clone() } else { audiences };
        Self { issuers, audiences, keys, cache: Cache::default() }
    }

    /// Returns the audiences of this server.
    #[must_use]
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Verifies a token at `now` (Unix seconds), for this server's audiences or, in a TokenReview, for others.
    ///
    /// # Errors
    /// The reason for refusing the token.
    pub fn verify(
        &self,
        token: &str,
        audiences: Option<&[String]>,
        lookup: &dyn Lookup,
        now: i64,
    ) -> Result<Verified, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::NotOurs);
        }
        let hash = cache::hash(token);
        let known = match self.cache.get(&hash) {
            Some(known) => known,
            None => {
                let known = Arc::new(VerifiedToken::new(self.verified_claims(token)?));
                self.cache.insert(hash, Arc::clone(&known));
                known
            }
        };
        let claims = &known.claims;
        let wanted = audiences.unwrap_or(&self.audiences);
        // A token without audiences is for the API server, as the oldest tokens were.
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

    /// Returns the claims after the signature has been verified.
    fn verified_claims(&self, token: &str) -> Result<Claims, TokenError> {
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

/// Checks that the account and the bound object still exist with the same uid, and were not deleted longer ago than the leeway.
fn bound(claims: &Claims, lookup: &dyn Lookup, now: i64) -> Result<(), String> {
    let k = &claims.kubernetes;
    let past_leeway = |found: &Found| found.deleted_at.is_some_and(|at| at < now - LEEWAY);
    let (namespace, account) = (&k.namespace, &k.serviceaccount);
    let found = lookup
        .service_account(namespace, &account.name)
        .ok_or_else(|| format!("serviceaccounts {} not found", quote(&account.name)))?;
    if found.uid != account.uid {
        return Err(format!("service account UID ({}) does not match claim ({})", found.uid, account.uid));
    }
    if past_leeway(&found) {
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
        if past_leeway(&found) { Err(invalidated()) } else { Ok(()) }
    };
    if let Some(secret) = &k.secret {
        check("secret", "secret", secret, lookup.secret(namespace, &secret.name))?;
    }
    match (&k.pod, &k.node) {
        // The node in a pod's token is only informative.
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
