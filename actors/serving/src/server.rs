//! The request handler of a component's server: open health endpoints, and metrics and actors for authorized users.

use std::sync::Arc;

use http::{HeaderMap, Method, Request};
use hyper::body::Incoming;
use oarlock_client::Client;
use oarlock_runtime::{ActorKind, System};

use crate::access::{Access, Attributes, User};
use crate::actors;
use crate::answer::{self, Answer, Refusal};
use crate::check::Check;
use crate::checks;
use crate::listener::{Chain, Handler};
use crate::metrics;
use crate::slis;

/// The request handler of a component's server. Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    system: System,
    access: Access,
    /// The client for token and access reviews.
    client: Option<Client>,
    /// The paths that need no authorization; a path that ends in `*` matches every path with this prefix.
    open: Vec<String>,
    live: Vec<Check>,
    ready: Vec<Check>,
}

/// The endpoint that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route<'a> {
    /// A health endpoint, and the name of one of its checks or an empty text.
    Health(&'a str, &'a str),
    Metrics,
    Slis,
    Actors,
}

impl<'a> Route<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        match (first, rest) {
            ("healthz" | "livez" | "readyz", check) => Some(Self::Health(first, check)),
            ("metrics", "") => Some(Self::Metrics),
            ("metrics", "slis") => Some(Self::Slis),
            ("debug", "actors") => Some(Self::Actors),
            _ => None,
        }
    }
}

impl Server {
    pub(crate) fn new(
        system: &System,
        access: Access,
        client: Option<Client>,
        open: Vec<String>,
        (kinds, own): (Vec<&'static ActorKind>, Vec<Check>),
    ) -> Self {
        let ready = [checks::ready(system, kinds), own].concat();
        Self {
            inner: Arc::new(Inner { system: system.clone(), access, client, open, live: checks::live(system), ready }),
        }
    }

    async fn try_answer(&self, chain: &Chain, request: &Request<Incoming>) -> Result<Answer, Refusal> {
        let path = request.uri().path().trim_end_matches('/');
        // Checked before authorization, so that requests for unknown paths cause no reviews at the API server.
        let route = self.route(path).ok_or_else(Refusal::not_found)?;
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(Refusal::new(405, "405: Method Not Allowed"));
        }
        self.admit(chain, request.headers(), path).await?;
        Ok(match route {
            Route::Health(endpoint, check) => checks::answer(endpoint, check, self.checks(endpoint), request),
            Route::Metrics => metrics::answer(&self.inner.system, request.headers()).await?,
            Route::Slis => slis::answer(request.headers()),
            Route::Actors => answer::whole(200, "application/json", actors::json(&self.inner.system)),
        })
    }

    fn route<'a>(&self, path: &'a str) -> Option<Route<'a>> {
        let there = |route: &Route<'_>| match route {
            Route::Health(endpoint, check) => {
                check.is_empty() || self.checks(endpoint).iter().any(|known| known.name() == *check)
            }
            Route::Metrics | Route::Slis | Route::Actors => true,
        };
        Route::of(path).filter(there)
    }

    fn checks(&self, endpoint: &str) -> &[Check] {
        if endpoint == "readyz" { &self.inner.ready } else { &self.inner.live }
    }

    /// Refuses a request unless its path is open or its user is authorized.
    async fn admit(&self, chain: &Chain, headers: &HeaderMap, path: &str) -> Result<(), Refusal> {
        if is_open(&self.inner.open, path) {
            return Ok(());
        }
        let Inner { access, client, .. } = &*self.inner;
        let user = access.authenticate(client.as_ref(), chain, headers).await?;
        let user = user.unwrap_or_else(|| Arc::new(User::anonymous()));
        let forbidden = || Refusal::new(403, format!("forbidden: User {:?} cannot get path {path:?}\n", user.name));
        // Without a client no access can be reviewed, so none is allowed.
        let client = client.as_ref().ok_or_else(forbidden)?;
        match access.may(client, &user, "get", Attributes::Path(path.to_owned())).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(forbidden()),
            Err(_) => Err(Refusal::new(500, format!("Authorization error (user={}, path={path})\n", user.name))),
        }
    }
}

impl Handler for Server {
    type Peer = Chain;

    fn peer(&self, chain: Option<Chain>) -> Chain {
        chain.unwrap_or_default()
    }

    async fn answer(&self, peer: &Chain, request: Request<Incoming>) -> Answer {
        self.try_answer(peer, &request).await.unwrap_or_else(Answer::from)
    }
}

/// Whether a path needs no authorization (upstream `path.NewAuthorizer`).
fn is_open(open: &[String], path: &str) -> bool {
    open.iter().any(|open| match open.strip_suffix('*') {
        Some(beginning) => path.starts_with(beginning),
        None => open == path,
    })
}

#[cfg(test)]
mod tests;
