//! Authenticates and authorizes requests, as upstream's delegated authentication and authorization: users by client certificate or TokenReview, access
//! by SubjectAccessReview. The API server's answers are cached for a limited time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, header};
use oarlock_client::{Client, decode};
use oarlock_meta::Status;
use oarlock_pki::{CertificateDer, ClientTrust, UnixTime};
use oarlock_runtime::{Instant, clock};
use oarlock_schema::resource;
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::answer::Refusal;

/// The group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";
/// The time for which the user of a token is cached (upstream's default).
const TOKEN_TTL: Duration = Duration::from_secs(120);
/// The time for which an allowed access is cached (upstream's default).
const ALLOWED_TTL: Duration = Duration::from_secs(300);
/// The time for which a denied access is cached (upstream's default).
const DENIED_TTL: Duration = Duration::from_secs(30);
/// The most cached answers of each kind.
const MAX_CACHED_ANSWERS: usize = 1024;

/// The user who sent a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The user's groups.
    pub groups: Vec<String>,
}

impl User {
    /// The user of a request without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { name: "system:anonymous".to_owned(), groups: vec!["system:unauthenticated".to_owned()] }
    }
}

/// The target of a request, as an access review describes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attributes {
    /// A subresource of a resource of the core group without a namespace.
    Resource {
        /// The resource's plural name.
        resource: &'static str,
        /// The subresource.
        subresource: &'static str,
        /// The object's name; empty for all objects.
        name: String,
    },
    /// A non-resource path.
    Path(String),
}

impl Attributes {
    fn spec(&self, verb: &str) -> (&'static str, Value) {
        match self {
            Self::Resource { resource, subresource, name } => (
                "resourceAttributes",
                json!({"verb": verb, "version": "v1", "resource": resource, "subresource": subresource, "name": name}),
            ),
            Self::Path(path) => ("nonResourceAttributes", json!({"verb": verb, "path": path})),
        }
    }
}

/// The question of an access review: the user, the verb, and the target.
type Question = (Arc<User>, &'static str, Attributes);

/// Authenticates and authorizes the requests of a server, with caches of the API server's answers.
#[derive(Debug)]
pub struct Access {
    clients: Option<ClientTrust>,
    tokens: Mutex<Memory<String, Arc<User>>>,
    decisions: Mutex<Memory<Question, bool>>,
}

impl Access {
    /// Accepts client certificates that `clients` verifies; without `clients` only tokens authenticate.
    #[must_use]
    pub fn new(clients: Option<ClientTrust>) -> Self {
        Self { clients, tokens: Mutex::default(), decisions: Mutex::default() }
    }

    /// Returns the user who sent a request; `None` without a valid certificate or a token. `client` reviews tokens.
    ///
    /// # Errors
    /// 401 for an invalid token, or for a token when `client` is `None`; another code when the review fails.
    pub async fn authenticate(
        &self,
        client: Option<&Client>,
        chain: &[CertificateDer<'static>],
        headers: &HeaderMap,
    ) -> Result<Option<Arc<User>>, Refusal> {
        if let Some(user) = self.by_certificate(chain) {
            return Ok(Some(Arc::new(user)));
        }
        let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("");
        let token = match authorization.trim().split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
            _ => "",
        };
        if token.is_empty() {
            return Ok(None);
        }
        let known = self.tokens.lock().get(token);
        if known.is_some() {
            return Ok(known);
        }
        let client = client.ok_or_else(unauthorized)?;
        let user = Arc::new(review_token(client, token, &[]).await?.ok_or_else(unauthorized)?);
        self.tokens.lock().keep(token.to_owned(), user.clone(), TOKEN_TTL);
        Ok(Some(user))
    }

    fn by_certificate(&self, chain: &[CertificateDer<'static>]) -> Option<User> {
        let clients = self.clients.as_ref().filter(|_| !chain.is_empty())?;
        let now = u64::try_from(clock::wall().as_second()).ok()?;
        match clients.verify(chain, UnixTime::since_unix_epoch(Duration::from_secs(now))) {
            Ok(facts) if !facts.subject.common_name.is_empty() => {
                let mut groups = facts.subject.organizations;
                groups.push(AUTHENTICATED.to_owned());
                Some(User { name: facts.subject.common_name, groups })
            }
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(%error, "client certificate not believed");
                None
            }
        }
    }

    /// Whether the API server allows a user the verb on the target.
    ///
    /// # Errors
    /// When the access review fails.
    pub async fn may(
        &self,
        client: &Client,
        user: &Arc<User>,
        verb: &'static str,
        attributes: Attributes,
    ) -> Result<bool, Status> {
        let question: Question = (user.clone(), verb, attributes);
        let known = self.decisions.lock().get(&question);
        if let Some(allowed) = known {
            return Ok(allowed);
        }
        let allowed = review_access(client, &question).await.inspect_err(|status| {
            tracing::warn!(%status, user = user.name, "access could not be reviewed");
        })? || seeded_bug!("access_is_not_reviewed");
        self.decisions.lock().keep(question, allowed, if allowed { ALLOWED_TTL } else { DENIED_TTL });
        Ok(allowed)
    }
}

/// Returns upstream's answer to a request that is not authenticated.
#[must_use]
pub fn unauthorized() -> Refusal {
    Refusal::new(401, "Unauthorized")
}

/// Asks the API server whose token this is; `None` if the token is not valid for one of the audiences. Without audiences the token must be valid for the API server.
///
/// # Errors
/// When the review fails.
pub async fn review_token(client: &Client, token: &str, audiences: &[&str]) -> Result<Option<User>, Status> {
    let mut spec = json!({"token": token});
    if !audiences.is_empty()
        && let Some(spec) = spec.as_object_mut()
    {
        spec.insert("audiences".to_owned(), json!(audiences));
    }
    let review = ask(client, "authentication.k8s.io", "TokenReview", "tokenreviews", spec).await?;
    let status = review.get("status").cloned().unwrap_or_default();
    if status.get("authenticated") != Some(&Value::Bool(true)) {
        return Ok(None);
    }
    let mut reviewed_for =
        status.get("audiences").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    // A server that does not know audiences names none: such a server has reviewed the token for itself.
    if !audiences.is_empty() && !reviewed_for.any(|audience| audiences.contains(&audience)) {
        return Ok(None);
    }
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let user = status.get("user").cloned().unwrap_or_default();
    let groups = user.get("groups").and_then(Value::as_array).into_iter().flatten().map(|group| text(Some(group)));
    Ok(Some(User { name: text(user.get("username")), groups: groups.collect() }))
}

async fn review_access(client: &Client, (user, verb, attributes): &Question) -> Result<bool, Status> {
    let (field, attributes) = attributes.spec(verb);
    let spec = json!({"user": user.name, "groups": user.groups, field: attributes});
    let review = ask(client, "authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", spec).await?;
    Ok(review.pointer("/status/allowed") == Some(&Value::Bool(true)))
}

async fn ask(client: &Client, group: &str, kind: &str, plural: &str, spec: Value) -> Result<Value, Status> {
    let row = resource(group, "v1", plural).ok_or_else(|| Status::internal_error("the schema has no reviews"))?;
    let body = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec});
    let answer = client.create(row, decode(row.ty, body.to_string().as_bytes())?).await?;
    serde_json::from_slice(&answer.bytes).map_err(Status::internal_error)
}

/// A cache of answers that expire.
#[derive(Debug)]
struct Memory<K, V>(HashMap<K, (Instant, V)>);

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq, V: Clone> Memory<K, V> {
    fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let (until, value) = self.0.get(key)?;
        (*until > clock::now()).then(|| value.clone())
    }

    fn keep(&mut self, key: K, value: V, time: Duration) {
        if self.0.len() >= MAX_CACHED_ANSWERS {
            let now = clock::now();
            self.0.retain(|_, (until, _)| *until > now);
        }
        if self.0.len() >= MAX_CACHED_ANSWERS {
            self.0.clear();
        }
        self.0.insert(key, (clock::after(time), value));
    }
}
