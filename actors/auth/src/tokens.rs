//! ServiceAccount tokens: JSON Web Tokens bound to the account and, mostly, to a pod, a Secret or a node (upstream: `pkg/serviceaccount`).
//!
//! A token is valid while its signature verifies, its validity period includes the present, its audience is this server, and the account and the
//! bound object still exist with the uid in the claims. The signature is verified once per token ([`Verifier`] caches the result); everything else is
//! checked on every request, so that deleting a pod invalidates its token at once.

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

/// The issuer of a cluster with the default domain.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The fields of an object that token validation needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.deletionTimestamp` in Unix seconds, if set.
    pub deleted_at: Option<i64>,
}

/// The fields of a pod that token validation needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPod {
    /// The fields common to all objects.
    pub object: Found,
    /// `spec.serviceAccountName`.
    pub service_account: String,
    /// `spec.nodeName`; empty while the pod is bound to no node.
    pub node: String,
}

/// Lookup of the objects that tokens are bound to, in the apiserver's own View. `None` means that the object does not exist.
pub trait Lookup: Send + Sync {
    /// Returns a ServiceAccount.
    fn service_account(&self, namespace: &str, name: &str) -> Option<Found>;
    /// Returns a Pod.
    fn pod(&self, namespace: &str, name: &str) -> Option<FoundPod>;
    /// Returns a Secret.
    fn secret(&self, namespace: &str, name: &str) -> Option<Found>;
    /// Returns a Node.
    fn node(&self, name: &str) -> Option<Found>;
}

/// Returns the document at `/.well-known/openid-configuration`, with fields in upstream's order. `jwks_uri` must be an `https` address.
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
