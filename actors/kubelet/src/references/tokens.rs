//! Requests tokens of ServiceAccounts by TokenRequest and caches them (`pkg/kubelet/token`). Tokens are kept in memory only.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::{Call, Client, Reply, WriteOptions, decode};
use oarlock_meta::{Status, Time};
use oarlock_runtime::{clock, rng};
use oarlock_schema::views::View;
use oarlock_schema::views::authentication_v1::TokenRequest;
use oarlock_schema::{Str, resource, type_of_kind};
use parking_lot::Mutex;
use serde_json::json;

use crate::pod_error::PodError;

/// Age in seconds at which a token is renewed at the latest.
const MAX_AGE_SECONDS: i64 = 24 * 3600;
/// Largest random number of seconds by which a renewal comes earlier, so that tokens of one moment are not all renewed at once.
const MAX_JITTER_SECONDS: u64 = 10;
/// Deadline of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest number of cached tokens; at the limit expired tokens are dropped, and if none has expired, new tokens are not cached.
const MAX_TOKENS: usize = 4096;
/// Default lifetime of a token in seconds (the same as the API's).
pub(crate) const DEFAULT_LIFETIME_SECONDS: i64 = 3600;

/// Parameters of a token: ServiceAccount, pod, audience and lifetime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TokenWish {
    pub(crate) namespace: Str,
    pub(crate) account: Str,
    /// Name and uid of the pod to which the token is bound.
    pub(crate) pod: (Str, Str),
    /// Audience of the token; empty for the API server.
    pub(crate) audience: Str,
    /// Lifetime in seconds.
    pub(crate) lifetime: i64,
}

#[derive(Clone, Debug)]
struct Kept {
    token: Arc<str>,
    /// Unix second of the token's expiry.
    ends: i64,
}

#[derive(Debug)]
pub(super) struct Tokens {
    client: Client,
    kept: Mutex<HashMap<TokenWish, Kept>>,
}

impl Tokens {
    pub(super) fn new(client: Client) -> Self {
        Self { client: client.with_timeout(REQUEST_TIMEOUT), kept: Mutex::default() }
    }

    pub(super) async fn get(&self, wish: &TokenWish) -> Result<Arc<str>, PodError> {
        let kept = self.kept.lock().get(wish).cloned();
        let jitter = i64::try_from(rng::below(MAX_JITTER_SECONDS)).unwrap_or(0);
        if let Some(kept) = &kept
            && !stale(kept.ends, wish.lifetime, clock::wall().as_second() + jitter)
        {
            return Ok(kept.token.clone());
        }
        let status = match self.request(wish).await {
            Ok(token) => {
                self.keep(wish, &token);
                return Ok(token.token);
            }
            Err(status) => status,
        };
        match kept {
            None => Err(PodError::NotReady(format!("failed to fetch token: {status}"))),
            Some(kept) if kept.ends <= clock::wall().as_second() => Err(PodError::NotReady(format!(
                "token {:?}/{:?} expired and refresh failed: {status}",
                wish.account.as_str(),
                wish.namespace.as_str()
            ))),
            Some(kept) => {
                tracing::warn!(namespace = %wish.namespace, account = %wish.account, %status, "token not renewed");
                Ok(kept.token)
            }
        }
    }

    pub(super) fn forget(&self, uid: &str) {
        self.kept.lock().retain(|wish, _| wish.pod.1 != uid);
    }

    fn keep(&self, wish: &TokenWish, token: &Kept) {
        let mut kept = self.kept.lock();
        if kept.len() >= MAX_TOKENS {
            let now = clock::wall().as_second();
            kept.retain(|_, kept| kept.ends > now);
        }
        if kept.len() < MAX_TOKENS || kept.contains_key(wish) {
            kept.insert(wish.clone(), token.clone());
        }
    }

    async fn request(&self, wish: &TokenWish) -> Result<Kept, Status> {
        let lacks = |what: &str| Status::internal_error(format!("the schema lacks {what}"));
        let accounts = resource("", "v1", "serviceaccounts").ok_or_else(|| lacks("serviceaccounts"))?;
        let ty = type_of_kind("authentication.k8s.io", "v1", "TokenRequest").ok_or_else(|| lacks("TokenRequest"))?;
        let audiences: Vec<&str> =
            [wish.audience.as_str()].into_iter().filter(|audience| !audience.is_empty()).collect();
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": audiences,
                "expirationSeconds": wish.lifetime,
                "boundObjectRef":
                    {"apiVersion": "v1", "kind": "Pod", "name": wish.pod.0.as_str(), "uid": wish.pod.1.as_str()},
            },
        });
        let call = Call::Create(decode(ty, body.to_string().as_bytes())?, WriteOptions::default());
        let reply = self.client.call(accounts, "token", &wish.namespace, &wish.account, call).await?;
        let Reply::Object { object, .. } = reply else { return Err(Status::internal_error("no token in the answer")) };
        let object = object.obj()?;
        let answer = TokenRequest::of(&object).unwrap_or_else(|| TokenRequest::from_option(None)).status();
        let ends = Time::parse(answer.expiration_timestamp()).map_err(Status::internal_error)?;
        if answer.token().is_empty() {
            return Err(Status::internal_error("no token in the answer"));
        }
        Ok(Kept { token: answer.token().into(), ends: ends.unix() })
    }
}

/// Whether a token that expires at `ends` should be renewed at `now`: with a fifth of its lifetime left, or a day old.
fn stale(ends: i64, lifetime: i64, now: i64) -> bool {
    let issued = ends - lifetime;
    now > issued + MAX_AGE_SECONDS || now > ends - lifetime * 20 / 100
}

#[cfg(test)]
mod tests {
    use super::stale;

    #[test]
    fn a_token_is_renewed_at_four_fifths_of_its_life_or_after_a_day() {
        assert!(!stale(10_000, 1000, 9_800));
        assert!(stale(10_000, 1000, 9_801));
        let week = 7 * 24 * 3600;
        assert!(!stale(week, week, 24 * 3600));
        assert!(stale(week, week, 24 * 3600 + 1));
    }
}
