//! The etcd client: chooses the member to ask and classifies failures.

use std::error::Error as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use oarlock_contracts::Method;
use oarlock_contracts::etcd::{Auth, AuthenticateRequest, Watch, WatchRequest, WatchResponse};
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces::traceparent;
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, ConnectError, Request, Status, Streaming};
use tonic_prost::ProstCodec;
use tracing::Instrument as _;

use super::options::Options;
use super::trace;
use crate::Error;

/// Deadline for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of HTTP/2 keep-alive pings; a member that does not answer one counts as failed. etcd closes connections that ping more often than every 5 s.
const PING_INTERVAL: Duration = Duration::from_secs(6);
const PONG_TIMEOUT: Duration = Duration::from_secs(3);
/// Deadline of a write at one member; above etcd's own 7 s, so that etcd's error arrives first.
const WRITE_TIMEOUT: Duration = Duration::from_secs(9);
/// Deadline of a read at one member.
const READ_TIMEOUT: Duration = Duration::from_secs(3);

/// Effect of a failed request, as far as the failure shows it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No member has executed the request or will.
    Unsent(String),
    /// A member may have executed the request, or may still do so.
    Unanswered(String),
    /// A member refused the request.
    Refused(Status),
}

impl Failure {
    /// Returns the sort of failure, without anything of the request.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Unsent(_) => "not sent",
            Self::Unanswered(_) => "no answer",
            Self::Refused(_) => "refused",
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Unavailable(match failure {
            Failure::Unsent(text) | Failure::Unanswered(text) => text,
            Failure::Refused(status) => format!("etcd: {}", status.message()),
        })
    }
}

/// One member of the cluster, with its connection.
#[derive(Debug)]
struct Member {
    endpoint: String,
    channel: Channel,
}

/// The cluster's members. All requests go to one member until it fails.
#[derive(Debug)]
pub(crate) struct Members {
    members: Vec<Member>,
    current: AtomicUsize,
    login: Option<AuthenticateRequest>,
    token: Mutex<Option<MetadataValue<Ascii>>>,
}

impl Members {
    /// Prepares connections without connecting. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Config`] for an invalid endpoint, certificate or key.
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        let members = options.endpoints.iter().map(|endpoint| {
            let channel = channel(endpoint, options).map_err(|error| Error::Config(format!("{endpoint}: {error}")))?;
            Ok(Member { endpoint: endpoint.clone(), channel })
        });
        let members = members.collect::<Result<Vec<_>, Error>>()?;
        if members.is_empty() {
            return Err(Error::Config("no etcd server is named".into()));
        }
        let login = options.credentials.clone();
        let login = login.map(|(name, password)| AuthenticateRequest { name, password });
        Ok(Self { members, current: AtomicUsize::new(0), login, token: Mutex::default() })
    }

    /// Returns every endpoint, in the order of the options.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.endpoint.as_str())
    }

    /// Sends a request that must not run twice: another member is tried only when the previous one cannot have executed it.
    pub(crate) async fn write<Q, R>(&self, method: Method<Q, R>, message: Q) -> Result<R, Failure>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        self.ask(method, message, WRITE_TIMEOUT, seeded_bug!("retry_after_unknown")).await
    }

    /// Sends a request that may run any number of times.
    pub(crate) async fn read<Q, R>(&self, method: Method<Q, R>, message: Q) -> Result<R, Failure>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        self.ask(method, message, READ_TIMEOUT, true).await
    }

    /// Sends a request to the member with this endpoint and to no other.
    pub(crate) async fn read_at<Q, R>(&self, endpoint: &str, method: Method<Q, R>, message: Q) -> Result<R, Failure>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let Some(member) = self.members.iter().find(|member| member.endpoint == endpoint) else {
            return Err(Failure::Unsent(format!("{endpoint} is no member")));
        };
        self.attempt(member, method, message, READ_TIMEOUT).await
    }

    /// Opens a watch stream at the current member; returns it with the sender of its requests.
    pub(crate) async fn watch(
        &self,
        first: WatchRequest,
    ) -> Result<(mpsc::Sender<WatchRequest>, Streaming<WatchResponse>), Failure> {
        let (sender, mut receiver) = mpsc::channel(4);
        if sender.try_send(first).is_err() {
            return Err(Failure::Unsent("the watch has no room for its first request".into()));
        }
        let at = self.current.load(Ordering::Relaxed);
        let member = self.member(at)?;
        let open = async {
            let requests = futures::stream::poll_fn(move |cx| receiver.poll_recv(cx));
            let request = self.signed(member, requests).await?;
            let mut grpc = Grpc::new(member.channel.clone()).max_decoding_message_size(usize::MAX);
            grpc.ready().await.map_err(|error| Failure::Unsent(chain(&error)))?;
            let path = PathAndQuery::from_static(Watch::WATCH.path());
            grpc.streaming(request, path, ProstCodec::default()).await.map_err(|status| failure(member, status))
        };
        match timeout(READ_TIMEOUT, open).await {
            Ok(Ok(stream)) => Ok((sender, stream.into_inner())),
            Ok(Err(failure)) => {
                self.leave(at);
                Err(failure)
            }
            Err(_) => {
                self.leave(at);
                Err(Failure::Unsent(format!("etcd {}: no watch within {READ_TIMEOUT:?}", member.endpoint)))
            }
        }
    }

    /// Switches to the next member, unless another caller already has.
    pub(crate) fn leave_current(&self) {
        self.leave(self.current.load(Ordering::Relaxed));
    }

    fn leave(&self, at: usize) {
        let next = at.wrapping_add(1);
        let _somebody_has = self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn member(&self, at: usize) -> Result<&Member, Failure> {
        self.members.get(at % self.members.len()).ok_or_else(|| Failure::Unsent("there is no member".into()))
    }

    async fn ask<Q, R>(&self, method: Method<Q, R>, message: Q, limit: Duration, again: bool) -> Result<R, Failure>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let mut tried = 0;
        loop {
            let at = self.current.load(Ordering::Relaxed);
            let failure = match self.attempt(self.member(at)?, method, message.clone(), limit).await {
                Ok(answer) => return Ok(answer),
                Err(failure @ Failure::Refused(_)) => return Err(failure),
                Err(failure) => failure,
            };
            self.leave(at);
            tried += 1;
            if tried > self.members.len() || (!again && matches!(failure, Failure::Unanswered(_))) {
                return Err(failure);
            }
            tracing::debug!(?failure, ?method, "asking another etcd member");
        }
    }

    async fn attempt<Q, R>(
        &self,
        member: &Member,
        method: Method<Q, R>,
        message: Q,
        limit: Duration,
    ) -> Result<R, Failure>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let exchange = async {
            let request = self.signed(member, message).await?;
            call(member, method, request).await
        };
        let span = trace::of_call(method.path(), &member.endpoint);
        let answer = match timeout(limit, exchange).instrument(span.clone()).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::Unanswered(format!("etcd {}: no answer within {limit:?}", member.endpoint))),
        };
        if let Err(failure) = &answer {
            trace::failed(&span, failure.kind());
        }
        if let Err(Failure::Refused(status)) = &answer
            && status.message().contains("invalid auth token")
        {
            *self.token.lock() = None;
            return Err(Failure::Unsent(format!("etcd {}: the token has run out", member.endpoint)));
        }
        answer
    }

    /// Adds etcd's metadata to a request: that a member without a leader must refuse, and the user's token.
    async fn signed<Q>(&self, member: &Member, message: Q) -> Result<Request<Q>, Failure> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(value) = trace::header() {
            request.metadata_mut().insert(traceparent::HEADER, value);
        }
        if let Some(login) = &self.login {
            let known = self.token.lock().clone();
            let token = match known {
                Some(token) => token,
                None => {
                    let login = Request::new(login.clone());
                    let answer = call(member, Auth::AUTHENTICATE, login).await.map_err(unsent)?;
                    let token = MetadataValue::try_from(answer.token)
                        .map_err(|error| Failure::Unsent(format!("etcd {}: {error}", member.endpoint)))?;
                    *self.token.lock() = Some(token.clone());
                    token
                }
            };
            request.metadata_mut().insert("token", token);
        }
        Ok(request)
    }
}

/// Reclassifies the failure of a login: the actual request was not sent.
fn unsent(failure: Failure) -> Failure {
    match failure {
        Failure::Unanswered(text) => Failure::Unsent(text),
        other => other,
    }
}

async fn call<Q, R>(member: &Member, method: Method<Q, R>, request: Request<Q>) -> Result<R, Failure>
where
    Q: Message + 'static,
    R: Message + Default + 'static,
{
    let mut grpc = Grpc::new(member.channel.clone()).max_decoding_message_size(usize::MAX);
    grpc.ready().await.map_err(|error| Failure::Unsent(format!("etcd {}: {}", member.endpoint, chain(&error))))?;
    let answer = grpc.unary(request, PathAndQuery::from_static(method.path()), ProstCodec::<Q, R>::default()).await;
    answer.map(tonic::Response::into_inner).map_err(|status| failure(member, status))
}

/// Why no connection to an endpoint can ever be made.
#[derive(Debug, thiserror::Error)]
enum EndpointError {
    /// The endpoint is no URL, or a certificate or key is invalid.
    #[error("{}", chain(.0))]
    Invalid(#[from] tonic::transport::Error),
    /// The URL has another scheme.
    #[error("an etcd server is named by http:// or https://")]
    Scheme,
}

fn channel(endpoint: &str, options: &Options) -> Result<Channel, EndpointError> {
    let mut builder = Endpoint::from_shared(endpoint.to_owned())?;
    match builder.uri().scheme_str() {
        Some("http") => {}
        Some("https") => {
            let mut tls = ClientTlsConfig::new().with_enabled_roots();
            if let Some(authorities) = &options.authorities {
                tls = tls.ca_certificate(Certificate::from_pem(authorities));
            }
            if let Some((certificate, key)) = &options.identity {
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            builder = builder.tls_config(tls)?;
        }
        _ => return Err(EndpointError::Scheme),
    }
    let builder = builder
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PONG_TIMEOUT)
        .keep_alive_while_idle(true)
        // One connection carries every write and the tail: the default windows of 64 KiB would limit throughput.
        .initial_stream_window_size(8 << 20)
        .initial_connection_window_size(32 << 20);
    Ok(match &options.dial {
        Some(dial) => dial.channel(&builder),
        None => builder.connect_lazy(),
    })
}

/// Classifies a status. etcd's messages are part of its API: its own clients match on them.
fn failure(member: &Member, status: Status) -> Failure {
    const NOT_TAKEN: [&str; 3] = ["etcdserver: no leader", "etcdserver: too many requests", "etcdserver: not capable"];
    let text = || match status.message() {
        "" => format!("etcd {}: {}", member.endpoint, chain(&status)),
        said => format!("etcd {}: {said}", member.endpoint),
    };
    let connecting = std::iter::successors(status.source(), |error| (*error).source())
        .any(|error| error.downcast_ref::<ConnectError>().is_some());
    if connecting {
        return Failure::Unsent(format!("etcd {}: {}", member.endpoint, chain(&status)));
    }
    if NOT_TAKEN.iter().any(|known| status.message().starts_with(known)) {
        return Failure::Unsent(text());
    }
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown | Code::Internal => {
            Failure::Unanswered(text())
        }
        _ => Failure::Refused(status),
    }
}

/// Formats an error with its sources.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let mut texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.dedup();
    texts.join(": ")
}
