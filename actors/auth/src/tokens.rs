//! ServiceAccount tokens: JSON Web Tokens bound to the account and, mostly, to a pod, a secret or a node (upstream: `pkg/serviceaccount`).
//!
//! A token is good while its signature verifies, its time has come and not passed, it is meant for this server, and the account and
//! the bound object still exist with the uid in the claims. The signature is verified once per token ([`Verifier`] remembers); all
//! the rest is asked anew on every request, so that deleting a pod ends its token at once.

mod cache;
mod claims;
mod issue;
mod jwt;
#[cfg(test)]
mod tests;
mod verify;

pub use claims::{Claims, Kubernetes, Reference};
pub use issue::{BoundObject, IssuedToken, Issuer, TokenRequest};
pub use verify::{TokenError, Verified, Verifier};

/// The issuer a cluster with the default domain uses.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// An object as token validation needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.deletionTimestamp` in Unix seconds, once deletion has been asked for.
    pub deleted_at: Option<i64>,
}

/// A pod as token validation needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPod {
    /// What every object has.
    pub object: Found,
    /// `spec.serviceAccountName`.
    pub service_account: String,
    /// `spec.nodeName`; empty while the pod is bound to no node.
    pub node: String,
}

/// The objects tokens are bound to, looked up in the apiserver's own view. `None` is "not there".
pub trait Lookup: Send + Sync {
    /// A ServiceAccount.
    fn service_account(&self, namespace: &str, name: &str) -> Option<Found>;
    /// A Pod.
    fn pod(&self, namespace: &str, name: &str) -> Option<FoundPod>;
    /// A Secret.
    fn secret(&self, namespace: &str, name: &str) -> Option<Found>;
    /// A Node.
    fn node(&self, name: &str) -> Option<Found>;
}

/// The document at `/.well-known/openid-configuration`, fields in upstream's order. `jwks_uri` must be an `https` address.
#[must_use]
pub fn openid_configuration(issuer: &str, jwks_uri: &str) -> String {
    let text = |value: &str| serde_json::Value::from(value).to_string();
    format!(
        "{{\"issuer\":{},\"jwks_uri\":{},\"response_types_supported\":[\"id_token\"],\
         \"subject_types_supported\":[\"public\"],\"id_token_signing_alg_values_supported\":[\"ES256\"]}}",
        text(issuer),
        text(jwks_uri)
    )
}
