//! Issuing tokens: the `token` subresource of ServiceAccounts (upstream: `pkg/registry/core/serviceaccount/storage/token.go`).

use std::sync::Arc;

use oarlock_meta::{FieldError, GroupKind, GroupResource, Path, Status};
use oarlock_pki::SigningKey;

use super::claims::{Claims, Kubernetes, Reference};
use super::{Found, Lookup, jwt};
use crate::user::service_account_name;

/// The shortest lifetime: ten minutes.
const MIN_SECONDS: i64 = 600;
/// The longest lifetime.
const MAX_SECONDS: i64 = 1 << 32;
/// The lifetime when the request gives none.
const DEFAULT_SECONDS: i64 = 3600;
/// The lifetime that the ServiceAccount admission plugin requests. Such a token is issued for a year, and counts as stale after this time.
const EXTENDABLE_SECONDS: i64 = 3607;
/// The lifetime of an extended token.
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

/// The body of a TokenRequest, names and numbers only.
#[derive(Debug, Clone, Default)]
pub struct TokenRequest {
    /// `metadata.name`, empty if not given.
    pub name: String,
    /// `metadata.namespace`, empty if not given.
    pub namespace: String,
    /// `metadata.uid`, empty if not given; must equal the account's.
    pub uid: String,
    /// `spec.audiences`; empty means this server's.
    pub audiences: Vec<String>,
    /// `spec.expirationSeconds`; absent means 3600.
    pub expiration_seconds: Option<i64>,
    /// `spec.boundObjectRef`.
    pub bound: Option<BoundObject>,
}

/// The object that a token is to be bound to.
#[derive(Debug, Clone, Default)]
pub struct BoundObject {
    /// `v1`.
    pub api_version: String,
    /// `Pod`, `Secret` or `Node`.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The object's uid; empty accepts any.
    pub uid: String,
}

/// An issued token, with the fields of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedToken {
    /// The token.
    pub token: String,
    /// `status.expirationTimestamp`, Unix seconds; for an extended token the requested expiry.
    pub expires_at: i64,
    /// `spec.audiences` of the response.
    pub audiences: Vec<String>,
    /// `spec.expirationSeconds` of the response.
    pub expiration_seconds: i64,
    /// `metadata.uid` of the response: the account's uid.
    pub uid: String,
    /// For the audit annotation `authentication.kubernetes.io/issued-credential-id`.
    pub credential_id: String,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// A valid token request, with the server's defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidTokenRequest {
    /// The account's uid.
    pub uid: String,
    /// The audiences; by default this server's.
    pub audiences: Vec<String>,
    /// The lifetime in seconds; by default 3600.
    pub expiration_seconds: i64,
}

/// Issues tokens.
#[derive(Debug, Clone)]
pub struct Issuer {
    key: Arc<SigningKey>,
    issuer: String,
    audiences: Vec<String>,
    max_seconds: Option<i64>,
    extend: bool,
}

/// The resolved objects that a token is bound to.
#[derive(Default)]
struct Binding {
    pod: Option<Reference>,
    secret: Option<Reference>,
    node: Option<Reference>,
}

impl Issuer {
    /// Creates an issuer with this name, for `audiences` by default. Pods' tokens are extended, as in upstream.
    #[must_use]
    pub fn new(key: Arc<SigningKey>, issuer: String, audiences: Vec<String>) -> Self {
        let audiences = if audiences.is_empty() { vec![issuer.clone()] } else { audiences };
        Self { key, issuer, audiences, max_seconds: None, extend: true }
    }

    /// Limits lifetimes (`--service-account-max-token-expiration`).
    #[must_use]
    pub fn at_most(mut self, seconds: i64) -> Self {
        self.max_seconds = Some(seconds).filter(|s| *s > 0);
        self
    }

    /// Sets whether tokens with the lifetime that admission requests are extended to a year (`--service-account-extend-token-expiration`).
    #[must_use]
    pub fn extending(mut self, extend: bool) -> Self {
        self.extend = extend;
        self
    }

    /// Checks a TokenRequest for the account `namespace`/`name`, except for the bound object: admission runs before that object is looked up.
    ///
    /// # Errors
    /// Upstream's Status: 404 for a missing account, 409 for another uid, 422 for an invalid lifetime or name.
    pub fn accept(
        &self,
        (namespace, name): (&str, &str),
        request: &TokenRequest,
        lookup: &dyn Lookup,
    ) -> Result<ValidTokenRequest, Status> {
        check_names(namespace, name, request)?;
        let account = lookup
            .service_account(namespace, name)
            .ok_or_else(|| Status::not_found(&GroupResource::new("", "serviceaccounts"), name))?;
        if !request.uid.is_empty() && request.uid != account.uid {
            let why = format!(
                "the UID in the token request ({}) does not match the UID of the service account ({})",
                request.uid, account.uid
            );
            return Err(Status::conflict(&GroupResource::new(kind().group, "TokenRequest"), name, why));
        }
        let expiration_seconds = request.expiration_seconds.unwrap_or(DEFAULT_SECONDS);
        check_lifetime(expiration_seconds)?;
        let audiences = if request.audiences.is_empty() { self.audiences.clone() } else { request.audiences.clone() };
        Ok(ValidTokenRequest { uid: account.uid, audiences, expiration_seconds })
    }

    /// Issues a token for the account `namespace`/`name` at `now` (Unix seconds). `jti` is a fresh UUID.
    ///
    /// # Errors
    /// Upstream's Status: 404 for a missing account or bound object, 409 for another uid, 422 for an invalid lifetime or name, 400 for an object that
    /// tokens cannot be bound to.
    pub fn issue(
        &self,
        (namespace, name): (&str, &str),
        request: &TokenRequest,
        lookup: &dyn Lookup,
        now: i64,
        jti: &str,
    ) -> Result<IssuedToken, Status> {
        let ValidTokenRequest { uid, audiences, expiration_seconds: asked } =
            self.accept((namespace, name), request, lookup)?;
        let binding = match &request.bound {
            Some(object) => bind(namespace, name, object, lookup)?,
            None => Binding::default(),
        };
        let mut warnings = Vec::new();
        let seconds = match self.max_seconds {
            Some(max) if asked > max => {
                warnings.push(format!("requested expiration of {asked} seconds shortened to {max} seconds"));
                max
            }
            _ => asked,
        };
        let extend = self.extend
            && binding.pod.is_some()
            && seconds == EXTENDABLE_SECONDS
            && audiences.iter().all(|audience| self.audiences.contains(audience));
        let claims = Claims {
            aud: audiences.clone(),
            exp: Some(now.saturating_add(if extend { EXTENDED_SECONDS } else { seconds })),
            iat: Some(now),
            iss: self.issuer.clone(),
            jti: jti.to_owned(),
            kubernetes: Kubernetes {
                namespace: namespace.to_owned(),
                node: binding.node,
                pod: binding.pod,
                secret: binding.secret,
                serviceaccount: Reference::new(name, &uid),
                warnafter: extend.then_some(now.saturating_add(seconds)),
            },
            nbf: Some(now),
            sub: service_account_name(namespace, name),
        };
        let token = jwt::sign(&claims, &self.key)
            .map_err(|e| Status::internal_error(format!("failed to generate token: {e}")))?;
        Ok(IssuedToken {
            token,
            expires_at: now.saturating_add(seconds),
            audiences,
            expiration_seconds: seconds,
            uid,
            credential_id: format!("JTI={jti}"),
            warnings,
        })
    }
}

fn kind() -> GroupKind {
    GroupKind::new("authentication.k8s.io", "TokenRequest")
}

fn check_names(namespace: &str, name: &str, request: &TokenRequest) -> Result<(), Status> {
    let metadata = Path::new("metadata");
    let wrong = |field: &'static str, value: &str, of: &str| {
        let text = format!("must match the service account {of} if specified");
        Err(Status::invalid(&kind(), name, &[FieldError::invalid(&metadata.child(field), value, text)]))
    };
    if !request.name.is_empty() && request.name != name {
        return wrong("name", &request.name, "name");
    }
    if !request.namespace.is_empty() && request.namespace != namespace {
        return wrong("namespace", &request.namespace, "namespace");
    }
    Ok(())
}

fn check_lifetime(seconds: i64) -> Result<(), Status> {
    let why = if seconds < MIN_SECONDS {
        "may not specify a duration less than 10 minutes"
    } else if seconds > MAX_SECONDS {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    let spec = Path::new("spec");
    Err(Status::invalid(&kind(), "", &[FieldError::invalid(&spec.child("expirationSeconds"), seconds, why)]))
}

fn bind(namespace: &str, account: &str, object: &BoundObject, lookup: &dyn Lookup) -> Result<Binding, Status> {
    let (group, version) = object.api_version.split_once('/').unwrap_or(("", &object.api_version));
    let absent = |resource: &str| Status::not_found(&GroupResource::new("", resource), &object.name);
    let same = |found: &Found| {
        if object.uid.is_empty() || object.uid == found.uid {
            return Ok(Reference::new(&object.name, &found.uid));
        }
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. \
             The object might have been deleted and then recreated",
            object.uid
        );
        Err(Status::conflict(&GroupResource::new("", object.kind.as_str()), &object.name, why))
    };
    let mut binding = Binding::default();
    match (group, object.kind.as_str()) {
        ("", "Pod") => {
            let pod = lookup.pod(namespace, &object.name).ok_or_else(|| absent("pods"))?;
            if pod.service_account != account {
                let account = oarlock_meta::quote::quote(account);
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {account} to pod running with different serviceaccount name."
                )));
            }
            binding.pod = Some(same(&pod.object)?);
            // The node may have been deleted; its name is recorded all the same.
            if !pod.node.is_empty() {
                let uid = lookup.node(&pod.node).map(|node| node.uid).unwrap_or_default();
                binding.node = Some(Reference::new(pod.node, uid));
            }
        }
        ("", "Node") => binding.node = Some(same(&lookup.node(&object.name).ok_or_else(|| absent("nodes"))?)?),
        ("", "Secret") => {
            binding.secret = Some(same(&lookup.secret(namespace, &object.name).ok_or_else(|| absent("secrets"))?)?);
        }
        (group, kind) => {
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    }
    Ok(binding)
}
