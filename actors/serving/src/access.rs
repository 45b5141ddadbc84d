//! Who asks, and whether they may: by certificate, else the API server is asked, and its answers are remembered for a while (upstream's delegated
//! authentication and authorization).

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

/// Everybody who proved who they are.
const AUTHENTICATED: &str = "system:authenticated";
/// How long answers are believed: whose a token is, that somebody may, that somebody may not (upstream's defaults).
const TOKEN: Duration = Duration::from_secs(120);
const ALLOWED: Duration = Duration::from_secs(300);
const DENIED: Duration = Duration::from_secs(30);
/// Answers remembered at most, of each kind.
const REMEMBERED: usize = 1024;

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// Name.
    pub name: String,
    /// Groups.
    pub groups: Vec<String>,
}

impl User {
    /// Somebody who shows nothing.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { name: "system:anonymous".to_owned(), groups: vec!["system:unauthenticated".to_owned()] }
    }
}

/// What somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attributes {
    /// A subresource of a resource of the core group without a namespace.
    Resource {
        /// Its plural.
        resource: &'static str,
        /// The subresource.
        subresource: &'static str,
        /// The object; empty for all.
        name: String,
    },
    /// A path that is no resource.
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

/// A question about a user: the user, the verb, what for.
type Question = (Arc<User>, &'static str, Attributes);

/// Who may come in.
#[derive(Debug)]
pub struct Access {
    clients: Option<ClientTrust>,
    tokens: Mutex<Memory<String, Arc<User>>>,
    decisions: Mutex<Memory<Question, bool>>,
}

impl Access {
    /// `clients` says whose certificates are believed; without it only tokens are.
    #[must_use]
    pub fn new(clients: Option<ClientTrust>) -> Self {
        Self { clients, tokens: Mutex::default(), decisions: Mutex::default() }
    }

    /// Says who asks; none where nothing was shown that could say it. `client` reviews tokens.
    ///
    /// # Errors
    /// 401 for a token that is nobody's, another code where it cannot be reviewed.
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
        let user = Arc::new(review_token(client, token).await?.ok_or_else(unauthorized)?);
        self.tokens.lock().keep(token.to_owned(), user.clone(), TOKEN);
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

    /// Whether a user may, as `client` is told.
    ///
    /// # Errors
    /// When it cannot be reviewed.
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
        self.decisions.lock().keep(question, allowed, if allowed { ALLOWED } else { DENIED });
        Ok(allowed)
    }
}

/// Upstream's word to those who are nobody.
#[must_use]
pub fn unauthorized() -> Refusal {
    Refusal::new(401, "Unauthorized")
}

async fn review_token(client: &Client, token: &str) -> Result<Option<User>, Status> {
    let spec = json!({"token": token});
    let review = ask(client, "authentication.k8s.io", "TokenReview", "tokenreviews", spec).await?;
    let status = review.get("status").cloned().unwrap_or_default();
    if status.get("authenticated") != Some(&Value::Bool(true)) {
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

/// Answers that are good for a while.
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
        if self.0.len() >= REMEMBERED {
            let now = clock::now();
            self.0.retain(|_, (until, _)| *until > now);
        }
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(key, (clock::after(time), value));
    }
}
