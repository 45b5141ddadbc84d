//! Authentication of requests. The chain is upstream's: the front proxy's headers, the client certificate, the bearer token; the first one that
//! identifies the user wins. If none does and any reported an error, the request is refused; only a request without any credential is anonymous.

mod anonymous;
mod bearer;
mod request_header;
#[cfg(test)]
mod tests;
mod x509;

use std::sync::Arc;

use http::HeaderMap;
use oarlock_pki::ClientTrust;

pub use request_header::{RequestHeader, unescape};
pub use x509::PeerCertificates;

use crate::tokens::{Lookup, TokenError, Verified, Verifier};
use crate::user::UserInfo;

/// The result of one authenticator: a user, no opinion, or an error.
type Answer = Result<Option<Arc<UserInfo>>, String>;

/// The result of a successful authentication.
#[derive(Debug, Clone)]
pub struct Authenticated {
    /// The authenticated user; a member of `system:authenticated` or `system:unauthenticated`.
    pub user: Arc<UserInfo>,
    /// Seconds since the token should have been renewed, for the audit annotation `authentication.k8s.io/stale-token`.
    pub stale_token: Option<i64>,
    /// A warning for the client.
    pub warning: Option<&'static str>,
}

/// The error of a request with a wrong credential. The client does not learn the reasons: it gets a 401 whose message is `Unauthorized`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to authenticate the request: {}", reasons.join("; "))]
pub struct Unauthorized {
    /// The errors of the authenticators, for the log.
    pub reasons: Vec<String>,
}

impl From<Unauthorized> for oarlock_meta::Status {
    fn from(_: Unauthorized) -> Self {
        Self::unauthorized("Unauthorized")
    }
}

/// The chain of authenticators.
pub struct Authenticators {
    clients: Option<ClientTrust>,
    front_proxy: Option<RequestHeader>,
    tokens: Option<(Verifier, Arc<dyn Lookup>)>,
    anonymous: bool,
}

impl std::fmt::Debug for Authenticators {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticators")
            .field("front_proxy", &self.front_proxy)
            .field("anonymous", &self.anonymous)
            .finish_non_exhaustive()
    }
}

impl Default for Authenticators {
    fn default() -> Self {
        Self::new()
    }
}

impl Authenticators {
    /// Creates a chain without authenticators: every request is anonymous.
    #[must_use]
    pub fn new() -> Self {
        Self { clients: None, front_proxy: None, tokens: None, anonymous: true }
    }

    /// Accepts client certificates of these authorities (`--client-ca-file`).
    #[must_use]
    pub fn with_clients(mut self, trust: ClientTrust) -> Self {
        self.clients = Some(trust);
        self
    }

    /// Accepts the headers of a front proxy (`--requestheader-*`).
    #[must_use]
    pub fn with_front_proxy(mut self, front_proxy: RequestHeader) -> Self {
        self.front_proxy = Some(front_proxy);
        self
    }

    /// Accepts ServiceAccount tokens.
    #[must_use]
    pub fn with_tokens(mut self, verifier: Verifier, lookup: Arc<dyn Lookup>) -> Self {
        self.tokens = Some((verifier, lookup));
        self
    }

    /// Refuses requests without a credential (`--anonymous-auth=false`).
    #[must_use]
    pub fn without_anonymous(mut self) -> Self {
        self.anonymous = false;
        self
    }

    /// Authenticates a request at `now` (Unix seconds).
    ///
    /// # Errors
    /// When the request has an invalid credential, or none although anonymous requests are refused.
    pub fn authenticate(
        &self,
        peer: Option<&PeerCertificates>,
        headers: &HeaderMap,
        now: i64,
    ) -> Result<Authenticated, Unauthorized> {
        let mut reasons = Vec::new();
        let mut known = |answer: Answer| {
            answer.unwrap_or_else(|reason| {
                reasons.push(reason);
                None
            })
        };
        let known_user = |user| Authenticated { user, stale_token: None, warning: None };
        if let Some(peer) = peer {
            if let Some(front_proxy) = &self.front_proxy
                && let Some(user) = known(front_proxy.authenticate(peer, headers, now))
            {
                return Ok(known_user(user));
            }
            if let Some(trust) = &self.clients
                && let Some(user) = known(peer.user(trust, now))
            {
                return Ok(known_user(user));
            }
        }
        let mut warning = None;
        if let Some((verifier, lookup)) = &self.tokens {
            match bearer::token(headers) {
                Ok(bearer::Found::Token(token)) => match verifier.verify(&token, None, lookup.as_ref(), now) {
                    Ok(Verified { user, stale_for, .. }) => {
                        return Ok(Authenticated { user, stale_token: stale_for, warning: None });
                    }
                    Err(error) => reasons.push(error.to_string()),
                },
                Ok(bearer::Found::Nothing) => {}
                Ok(bearer::Found::Misspelt(text)) => warning = Some(text),
                Err(reason) => reasons.push(reason.to_owned()),
            }
        }
        if reasons.is_empty() && self.anonymous {
            return Ok(Authenticated { warning, ..known_user(anonymous::user()) });
        }
        Err(Unauthorized { reasons })
    }

    /// Verifies a token for a TokenReview, for the given audiences or, if there are none, for this server's.
    ///
    /// # Errors
    /// The reason for refusing the token, in upstream's words.
    pub fn review(&self, token: &str, audiences: &[String], now: i64) -> Result<Verified, TokenError> {
        let (verifier, lookup) = self.tokens.as_ref().ok_or(TokenError::NotOurs)?;
        let audiences = (!audiences.is_empty()).then_some(audiences);
        verifier.verify(token, audiences, lookup.as_ref(), now)
    }

    /// Removes every credential from the headers, so that later stages neither see nor forward them.
    pub fn clear(&self, headers: &mut HeaderMap) {
        bearer::clear(headers);
        request_header::clear_standard(headers);
        if let Some(front_proxy) = &self.front_proxy {
            front_proxy.clear(headers);
        }
    }
}
