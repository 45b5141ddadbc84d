//! Issuing tokens: the `token` subresource of ServiceAccounts (upstream: `pkg/registry/core/serviceaccount/storage/token.go`).

use std::sync::Arc;

use oarlock_meta::{FieldError, GroupKind, GroupResource, Path, Status};
use oarlock_pki::SigningKey;

use super::claims::{Claims, Kubernetes, Reference};
use super::{Found, Lookup, jwt};
use crate::user::service_account_name;

/// Shortest lifetime: ten minutes.
const MIN_SECONDS: i64 = 600;
/// Longest lifetime.
const MAX_SECONDS: i64 = 1 << 32;
/// What is given when nothing is asked for.
const DEFAULT_SECONDS: i64 = 3600;
/// The odd lifetime the ServiceAccount admission stage asks for: such a token lives a year, and says after this time that it is stale.
const EXTENDABLE_SECONDS: i64 = 3607;
/// How long an extended token lives.
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

/// What a TokenRequest's body says, names and numbers only.
#[derive(Debug, Clone, Default)]
pub struct TokenRequest {
    /// `metadata.name`, if any.
    pub name: String,
    /// `metadata.namespace`, if any.
    pub namespace: String,
    /// `metadata.uid`, if any: the account must have it.
    pub uid: String,
    /// `spec.audiences`; empty means this server's.
    pub audiences: Vec<String>,
    /// `spec.expirationSeconds`; absent means an hour.
    pub expiration_seconds: Option<i64>,
    /// `spec.boundObjectRef`.
    pub bound: Option<BoundObject>,
}

/// The object a token is to be bound to.
#[derive(Debug, Clone, Default)]
pub struct BoundObject {
    /// `v1`.
    pub api_version: String,
    /// `Pod`, `Secret` or `Node`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid, if it must be that one.
    pub uid: String,
}

/// An issued token and what the answer to the request must say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedToken {
    /// The token.
    pub token: String,
    /// `status.expirationTimestamp`, Unix seconds: of an extended token the time asked for, not its end.
    pub expires_at: i64,
    /// `spec.audiences` of the answer.
    pub audiences: Vec<String>,
    /// `spec.expirationSeconds` of the answer.
    pub expiration_seconds: i64,
    /// The account's uid, `metadata.uid` of the answer.
    pub uid: String,
    /// For the audit annotation `authentication.kubernetes.io/issued-credential-id`.
    pub credential_id: String,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// A request that is right in itself, with what it leaves to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The account's uid.
    pub uid: String,
    /// The audiences; this server's where none are asked for.
    pub audiences: Vec<String>,
    /// The lifetime; an hour where none is asked for.
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

/// What a request is bound to, resolved.
#[derive(Default)]
struct Binding {
    pod: Option<Reference>,
    secret: Option<Reference>,
    node: Option<Reference>,
}

impl Issuer {
    /// Issues as `issuer`, for `audiences` unless asked otherwise, extending pods' tokens as upstream does by default.
    #[must_use]
    pub fn new(key: Arc<SigningKey>, issuer: String, audiences: Vec<String>) -> Self {
        let audiences = if audiences.is_empty() { vec![issuer.clone()] } else { audiences };
        Self { key, issuer, audiences, max_seconds: None, extend: true }
    }

    /// Shortens longer lifetimes to this (`--service-account-max-token-expiration`).
    #[must_use]
    pub fn at_most(mut self, seconds: i64) -> Self {
        self.max_seconds = Some(seconds).filter(|s| *s > 0);
        self
    }

    /// Whether tokens with the lifetime admission asks for live a year (`--service-account-extend-token-expiration`).
    #[must_use]
    pub fn extending(mut self, extend: bool) -> Self {
        self.extend = extend;
        self
    }

    /// Checks a TokenRequest for the account `namespace`/`name`, except for the object that the token is to be bound to: admission stages run before that
    /// object is looked up.
    ///
    /// # Errors
    /// The Status upstream answers: 404 for an account that is not there, 409 for another uid, 422 for a bad lifetime or name.
    pub fn accept(
        &self,
        (namespace, name): (&str, &str),
        request: &TokenRequest,
        lookup: &dyn Lookup,
    ) -> Result<Accepted, Status> {
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
        Ok(Accepted { uid: account.uid, audiences, expiration_seconds })
    }

    /// Issues a token for the account `namespace`/`name` at `now` (Unix seconds). `jti` is a fresh UUID.
    ///
    /// # Errors
    /// The Status upstream answers: 404 for an account or bound object that is not there, 409 for another uid, 422 for a
    /// bad lifetime or name, 400 for an object tokens cannot be bound to.
    pub fn issue(
        &self,
        (namespace, name): (&str, &str),
        request: &TokenRequest,
        lookup: &dyn Lookup,
        now: i64,
        jti: &str,
    ) -> Result<IssuedToken, Status> {
        let Accepted { uid, audiences, expiration_seconds: asked } = self.accept((namespace, name), request, lookup)?;
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
            // The node may be gone; then its name is still worth knowing.
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
