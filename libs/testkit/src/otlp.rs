//! [`Collector`]: a receiver of spans, by OTLP over gRPC and over HTTP at one port. Its functions are async; each connection is a task of the runtime that started the collector.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
pub use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
pub use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::wait;

/// Path of the one method of OTLP over gRPC.
const GRPC: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Why a collector with a full disk refuses spans.
const NO_SPACE: &str = "no space left on device";

/// Returns the text of an attribute.
#[must_use]
pub fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// Returns the texts of an attribute that is a list.
#[must_use]
pub fn texts(attributes: &[KeyValue], key: &str) -> Vec<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    let Some(Value::ArrayValue(list)) = found.and_then(|found| found.value.clone()?.value) else { return Vec::new() };
    let text = |value| match value {
        Some(Value::StringValue(text)) => Some(text),
        _ => None,
    };
    list.values.into_iter().filter_map(|value| text(value.value)).collect()
}

/// How a collector answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The collector takes the spans.
    Accept,
    /// The collector confirms the spans and keeps none of them.
    Discard,
    /// The collector asks the sender to try again.
    Unavailable,
    /// The collector refuses the spans, and no second attempt is allowed.
    Refuse,
    /// The collector's disk is full: it refuses the spans, and allows a second attempt after this time, if there is one.
    Full(Option<Duration>),
    /// The collector never answers.
    Hang,
}

impl Answer {
    /// Returns the status with which the collector answers over gRPC.
    fn grpc_status(self) -> Status {
        match self {
            Self::Accept | Self::Discard | Self::Hang => Status::ok(""),
            Self::Unavailable => Status::unavailable(""),
            Self::Refuse => Status::invalid_argument(""),
            Self::Full(None) => Status::resource_exhausted(NO_SPACE),
            Self::Full(after) => {
                Status::with_error_details(Code::ResourceExhausted, NO_SPACE, ErrorDetails::with_retry_info(after))
            }
        }
    }

    /// Returns the status with which the collector answers over HTTP.
    const fn http_status(self) -> StatusCode {
        match self {
            Self::Accept | Self::Discard | Self::Hang => StatusCode::OK,
            Self::Unavailable | Self::Full(Some(_)) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Refuse => StatusCode::BAD_REQUEST,
            Self::Full(None) => StatusCode::INSUFFICIENT_STORAGE,
        }
    }
}

/// A running collector on the loopback address.
#[derive(Clone, Debug)]
pub struct Collector {
    /// The address at which the collector listens.
    pub address: SocketAddr,
    answer: Arc<Mutex<Answer>>,
    received: Arc<Mutex<Vec<(HeaderMap, ExportTraceServiceRequest)>>>,
    /// Number of requests whose answer is decided.
    seen: Arc<watch::Sender<usize>>,
}

impl Collector {
    /// Starts a collector that gives this answer.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let collector =
            Self { address, answer: Arc::new(Mutex::new(answer)), received: Arc::default(), seen: Arc::default() };
        spawn(collector.clone().accept(listener));
        collector
    }

    /// Changes the answer to what comes from now on.
    pub fn answer(&self, answer: Answer) {
        *self.answer.lock() = answer;
    }

    /// Returns the number of requests whose answer is decided.
    #[must_use]
    pub fn requests_seen(&self) -> usize {
        *self.seen.borrow()
    }

    /// Waits until the answers of so many requests are decided.
    ///
    /// # Panics
    /// When they do not arrive.
    pub async fn seen(&self, requests: usize) {
        let mut seen = self.seen.subscribe();
        wait::step("requests at the collector", seen.wait_for(|seen| *seen >= requests)).await.unwrap();
    }

    /// Waits for so many accepted spans and returns all there are.
    ///
    /// # Panics
    /// When they do not arrive.
    pub async fn spans_at_least(&self, count: usize) -> Vec<Span> {
        let mut seen = self.seen.subscribe();
        wait::step("spans at the collector", seen.wait_for(|_| self.spans().len() >= count)).await.unwrap();
        self.spans()
    }

    /// Waits for an accepted span that fits a condition and returns it.
    ///
    /// # Panics
    /// When none arrives.
    pub async fn span(&self, what: &str, fits: impl Fn(&Span) -> bool) -> Span {
        let mut seen = self.seen.subscribe();
        let found = || self.spans().into_iter().find(&fits);
        wait::step(what, seen.wait_for(|_| found().is_some())).await.unwrap();
        found().unwrap()
    }

    /// Returns headers and content of the accepted requests.
    #[must_use]
    pub fn requests(&self) -> Vec<(HeaderMap, ExportTraceServiceRequest)> {
        self.received.lock().clone()
    }

    /// Returns the accepted spans.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        let requests = self.requests();
        let scopes = requests.into_iter().flat_map(|(_, request)| request.resource_spans).flat_map(|of| of.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    async fn accept(self, listener: TcpListener) {
        while let Ok((connection, _)) = listener.accept().await {
            let own = self.clone();
            spawn(async move {
                let serve = service_fn(move |request| {
                    let own = own.clone();
                    async move { Ok::<_, Infallible>(own.serve(request).await) }
                });
                // A connection that breaks off is what some tests want.
                let _ended =
                    auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(connection), serve).await;
            });
        }
    }

    async fn serve(self, request: Request<Incoming>) -> Response<BoxBody<Bytes, Infallible>> {
        let grpc = request.uri().path() == GRPC;
        assert!(grpc || request.uri().path() == "/v1/traces", "{}", request.uri());
        let headers = request.headers().clone();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let answer = *self.answer.lock();
        match answer {
            Answer::Accept => {
                let body = if grpc { body.slice(5..) } else { body };
                self.received.lock().push((headers, ExportTraceServiceRequest::decode(body).unwrap()));
            }
            Answer::Discard | Answer::Unavailable | Answer::Refuse | Answer::Full(_) | Answer::Hang => {}
        }
        self.seen.send_modify(|seen| *seen += 1);
        if answer == Answer::Hang {
            std::future::pending::<()>().await;
        }
        let accepted = ExportTraceServiceResponse::default().encode_to_vec();
        if grpc { of_grpc(answer, &accepted) } else { of_http(answer, accepted) }
    }
}

fn of_http(answer: Answer, body: Vec<u8>) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
    *response.status_mut() = answer.http_status();
    if let Answer::Full(Some(after)) = answer {
        response.headers_mut().insert(RETRY_AFTER, after.as_secs().into());
    }
    response
}

/// One message behind its flag and length, then the status as a trailer.
fn of_grpc(answer: Answer, message: &[u8]) -> Response<BoxBody<Bytes, Infallible>> {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap());
    framed.put_slice(message);
    let mut trailers = HeaderMap::new();
    answer.grpc_status().add_header(&mut trailers).unwrap();
    let frames = [Ok(Frame::data(framed.freeze())), Ok(Frame::trailers(trailers))];
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(futures::stream::iter(frames))));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    #[expect(clippy::disallowed_methods, reason = "a test's server needs no gate")]
    drop(tokio::spawn(task));
}
