//! The HTTPS transport: HTTP/2 over TLS to one or several apiservers, Oarlock's or upstream's.
//!
//! Calls are spread over all ready servers. Bodies are JSON. A call is repeated, on another server if there is one, only when that is safe: reads after any failure of the
//! connection; writes only when the server certainly did not begin them (the connection was never made, the stream was refused, a GOAWAY excluded it) or refused them with 429
//! or 503 and a `Retry-After`. The outcome of any other write is unknown, and its 504 says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method as HttpMethod};
use http_body_util::Full;
use hyper::body::Incoming;
use oarlock_meta::{GroupResource, Status};
use oarlock_schema::Resource;
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces::{self, traceparent};
use tokio::time::{Instant, timeout_at};

use crate::options::ListOptions;
use crate::raw::{RawReply, RawRequest};
use crate::request::{Reply, Request};
use crate::transport::{Transport, WatchStream};

mod answer;
mod attempt;
mod body;
mod compose;
mod connection;
mod endpoint;
mod error;
mod frames;
mod metrics;
mod names;
mod pool;
mod server;
mod token;
mod watch;

pub use connection::{Spawn, TokioSpawn};
pub use endpoint::{Auth, Endpoint, Error, system_authorities};

use attempt::{Failure, Retry, Verdict};
use compose::Composed;
use pool::{Pool, Stream};
use server::Server;
use token::Token;

/// Deadline for the headers of a watch; accepting a watch takes the server some work.
const WATCH_ACCEPT_TIMEOUT: Duration = Duration::from_secs(30);

/// A [`Transport`] over HTTPS, for one identity and one or several apiservers. Create one per identity and share it.
pub struct Https {
    pool: Pool,
    token: Token,
    headers: HeaderMap,
    retries: AtomicU64,
}

impl std::fmt::Debug for Https {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Https").field("servers", &self.pool.servers()).finish_non_exhaustive()
    }
}

/// A request that can be sent any number of times.
struct Prepared {
    composed: Composed,
    /// Whether sending the request twice has the same effect as once.
    safe: bool,
    resource: GroupResource,
    name: String,
}

/// Head of an answer with its unread body, and the stream that carries it.
type Response = (http::Response<Incoming>, Stream);

impl Https {
    /// Creates a transport to `endpoint` without connecting. `spawn` runs the connection tasks; a service passes its own spawner, so that connections end with the service.
    ///
    /// # Errors
    /// When an address or a header value is malformed.
    pub fn new(endpoint: Endpoint, spawn: Arc<dyn Spawn>) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        let value = |name: &'static str, text: &str| {
            HeaderValue::from_str(text).map_err(|_| Error::Header { name, value: text.to_owned() })
        };
        headers.insert(http::header::USER_AGENT, value("user-agent", &endpoint.user_agent)?);
        if let Some(user) = &endpoint.impersonate {
            headers.insert(HeaderName::from_static("impersonate-user"), value("impersonate-user", user)?);
        }
        let token = Token::new(endpoint.auth.clone())?;
        let pool = Pool::new(&endpoint.servers, endpoint.server_name.as_deref(), endpoint.tls, spawn)?;
        Ok(Self { pool, token, headers, retries: AtomicU64::new(0) })
    }

    /// Replaces the TLS configuration (renewed client certificate) for new connections; existing connections are closed when their requests are done.
    pub fn renew(&self, tls: Arc<rustls::ClientConfig>) {
        self.pool.renew(tls);
    }

    /// Returns the number of repeated attempts so far.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Sends a request until an answer arrives that warrants no further attempt.
    async fn send(&self, prepared: &Prepared, deadline: Instant) -> Result<Response, Status> {
        let mut retry = Retry::new(prepared.safe, deadline);
        loop {
            let failure = match self.once(prepared, deadline).await {
                Ok((response, server)) => match answer::refusal(&response.0) {
                    Some(mut refusal) => {
                        // A 503 concerns the server, a 429 the call or its caller, unless the server is about to shut down.
                        let unfit = refusal.code == 503 || self.pool.ends(&server).await;
                        refusal.elsewhere = unfit && self.pool.refused(&server);
                        Failure::Refused(refusal, Box::new(response))
                    }
                    None => return Ok(response),
                },
                Err(failure) => failure,
            };
            let (pause, why) = match retry.judge(failure) {
                Verdict::Answer(response) => return Ok(*response),
                Verdict::GiveUp(status) => return Err(status),
                Verdict::Retry(pause, why) => (pause, why),
            };
            self.retries.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(?pause, why, uri = %prepared.composed.uri, "request is repeated");
            if why == attempt::UNAUTHORIZED {
                self.token.forget();
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Makes one attempt: gets a connection, sends the request, waits for the head of the answer.
    async fn once(&self, prepared: &Prepared, deadline: Instant) -> Result<(Response, Arc<Server>), Failure> {
        let connecting = timeout_at(deadline, self.pool.connection()).await;
        let (mut connection, server) = connecting.map_err(|_| Failure::Unreachable(self.pool.unreachable()))??;
        let composed = &prepared.composed;
        let mut request = http::Request::new(Full::new(composed.body.clone()));
        *request.method_mut() = composed.method.clone();
        *request.uri_mut() = connection.uri(&composed.uri).map_err(Failure::Request)?;
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        headers.extend(composed.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        let authorized = match self.token.header().map_err(|error| Failure::Request(error.into()))? {
            Some((header, renewable)) => {
                headers.insert(http::header::AUTHORIZATION, header);
                renewable
            }
            None => false,
        };
        if let Some(span) = cause() {
            headers.insert(traceparent::HEADER, span);
        }
        let began = Instant::now();
        let sent = timeout_at(deadline, connection.send(request)).await.unwrap_or(Err(Failure::Deadline));
        let code = sent.as_ref().ok().map(|(response, _)| response.status());
        server.metrics.count(&composed.method, code, began.elapsed());
        let (response, stream) = sent?;
        if authorized && response.status() == http::StatusCode::UNAUTHORIZED {
            return Err(Failure::Unauthorized(Box::new((response, stream))));
        }
        Ok(((response, stream), server))
    }
}

/// Returns the `traceparent` of the span that causes a call. A span that is not sampled, such as that of an ask outside every request, is not named: the server would not sample the call either.
fn cause() -> Option<HeaderValue> {
    let span = traces::current();
    let counts = span.is_sampled() && !seeded_bug!("context_lost_at_http");
    HeaderValue::try_from(traceparent::text(&span).filter(|_| counts)?).ok()
}

#[async_trait]
impl Transport for Https {
    async fn call(&self, request: Request) -> Result<Reply, Status> {
        let deadline = Instant::now() + request.timeout;
        let resource = request.resource.group_resource();
        let prepared = Prepared {
            composed: compose::call(&request)?,
            safe: matches!(request.call.verb(), "get" | "list"),
            resource,
            name: request.name.to_string(),
        };
        let mut again = prepared.safe;
        loop {
            let (response, stream) = self.send(&prepared, deadline).await?;
            let code = response.status();
            let retry_after = answer::retry_after(response.headers());
            for warning in response.headers().get_all(http::header::WARNING) {
                tracing::info!(uri = %prepared.composed.uri, ?warning, "the server warns");
            }
            let whole = timeout_at(deadline, body::whole(response.into_body())).await;
            drop(stream);
            match whole {
                Ok(Ok(bytes)) if code.is_success() => return answer::reply(&request, code, bytes),
                Ok(Ok(bytes)) => {
                    let context = (prepared.composed.method.as_str(), &prepared.resource, prepared.name.as_str());
                    return Err(answer::failure(code, &bytes, retry_after, context));
                }
                // The head of the answer arrived but its body was cut off: a read is repeated once.
                Ok(Err(_)) if again => again = false,
                Ok(Err(why)) if prepared.safe => return Err(Status::service_unavailable(why.to_string())),
                Ok(Err(why)) => return Err(attempt::unknown(&why.to_string())),
                Err(_) if prepared.safe => return Err(attempt::late()),
                Err(_) => return Err(attempt::unknown("the deadline passed")),
            }
        }
    }

    async fn watch(
        &self,
        resource: &'static Resource,
        namespace: &str,
        options: ListOptions,
    ) -> Result<WatchStream, Status> {
        let deadline = Instant::now() + WATCH_ACCEPT_TIMEOUT;
        let prepared = Prepared {
            composed: compose::watch(resource, namespace, &options)?,
            safe: true,
            resource: resource.group_resource(),
            name: String::new(),
        };
        let (response, stream) = self.send(&prepared, deadline).await?;
        let code = response.status();
        if code.is_success() {
            return Ok(Box::new(watch::HttpsWatch::new(resource.ty, response.into_body(), stream)));
        }
        let retry_after = answer::retry_after(response.headers());
        let bytes = timeout_at(deadline, body::whole(response.into_body())).await;
        let bytes = bytes.ok().and_then(Result::ok).unwrap_or_default();
        Err(answer::failure(code, &bytes, retry_after, ("GET", &prepared.resource, "")))
    }

    async fn raw(&self, request: RawRequest) -> Result<RawReply, Status> {
        let deadline = Instant::now() + request.timeout;
        let safe = request.method == crate::raw::Method::Get;
        let composed = compose::raw(request)?;
        let prepared = Prepared { composed, safe, resource: GroupResource::new("", ""), name: String::new() };
        let (response, stream) = self.send(&prepared, deadline).await?;
        Ok(body::raw(response, stream))
    }
}

/// Body of requests without content.
fn empty() -> Bytes {
    Bytes::new()
}

fn http_method(method: crate::raw::Method) -> HttpMethod {
    match method {
        crate::raw::Method::Get => HttpMethod::GET,
        crate::raw::Method::Post => HttpMethod::POST,
        crate::raw::Method::Put => HttpMethod::PUT,
        crate::raw::Method::Patch => HttpMethod::PATCH,
        crate::raw::Method::Delete => HttpMethod::DELETE,
    }
}
