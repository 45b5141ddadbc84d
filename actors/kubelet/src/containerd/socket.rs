//! gRPC client over the runtime's unix socket.

use std::path::PathBuf;
use std::time::Duration;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use oarlock_contracts::{Method, ServerStreaming};
use oarlock_runtime::clock;
use oarlock_telemetry::traces::{self, traceparent};
use prost::Message;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::cri::{Error, Result};
use crate::grpc::{rpc_error, with_causes};

/// containerd namespace of CRI's containers.
const NAMESPACE: &str = "k8s.io";
/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest answer in bytes: a list of all images and containers of a node.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// A lazy connection that reconnects after a failure. Clones share the connection.
#[derive(Clone, Debug)]
pub(crate) struct Socket {
    channel: Channel,
}

impl Socket {
    /// Creates a client of `endpoint`, a path with or without `unix://` before it. Must be called inside tokio.
    ///
    /// # Errors
    /// When the endpoint is of another scheme.
    pub(crate) fn new(endpoint: &str) -> Result<Self> {
        let path = match endpoint.split_once("://") {
            Some(("unix", path)) => path,
            None if endpoint.starts_with('/') => endpoint,
            _ => return Err(Error::Failed(format!("\"{endpoint}\" is no unix socket: write unix:///path/to/socket"))),
        };
        let path = PathBuf::from(path);
        let connect = tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
        });
        // gRPC requires an authority; the server ignores its value.
        let endpoint = Endpoint::from_static("http://localhost").connect_timeout(CONNECT_TIMEOUT);
        Ok(Self { channel: endpoint.connect_with_connector_lazy(connect) })
    }

    /// Sends a unary request and returns the answer, within `limit`.
    pub(crate) async fn call<Q, R>(&self, method: Method<Q, R>, message: Q, limit: Duration) -> Result<R>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let exchange = async {
            let mut grpc = self.ready().await?;
            let answer =
                grpc.unary(named(message), PathAndQuery::from_static(method.path()), ProstCodec::<Q, R>::default());
            answer.await.map_err(|status| failure(method.path(), &status))
        };
        match clock::timeout(limit, exchange).await {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(Error::DeadlineExceeded(rpc_error(Code::DeadlineExceeded, "context deadline exceeded"))),
        }
    }

    /// Sends a request with a stream of answers. Some servers send not even headers, which this call waits for, before the first answer.
    pub(crate) async fn stream<Q, R>(&self, method: Method<Q, R, ServerStreaming>, message: Q) -> Result<Streaming<R>>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<Q, R>::default();
        let answer = grpc.server_streaming(named(message), PathAndQuery::from_static(method.path()), codec).await;
        answer.map(tonic::Response::into_inner).map_err(|status| failure(method.path(), &status))
    }

    async fn ready(&self) -> Result<Grpc<Channel>> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES);
        match grpc.ready().await {
            Ok(()) => Ok(grpc),
            Err(error) => Err(Error::Failed(rpc_error(Code::Unavailable, &with_causes(&error)))),
        }
    }
}

/// Returns a request in containerd's namespace of Kubernetes, with the context of the span that runs.
fn named<Q>(message: Q) -> Request<Q> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("containerd-namespace", MetadataValue::from_static(NAMESPACE));
    if let Some(parent) = traceparent::text(&traces::current()).and_then(|text| text.parse().ok()) {
        request.metadata_mut().insert(traceparent::HEADER, parent);
    }
    request
}

/// Formats an error as Go's gRPC does, since users know those texts.
fn failure(method: &'static str, status: &Status) -> Error {
    let said = if status.message().is_empty() { with_causes(status) } else { status.message().to_owned() };
    match status.code() {
        Code::NotFound => Error::NotFound(rpc_error(Code::NotFound, &said)),
        Code::DeadlineExceeded => Error::DeadlineExceeded(rpc_error(Code::DeadlineExceeded, &said)),
        Code::Unimplemented => Error::Unimplemented(method),
        code => Error::Failed(rpc_error(code, &said)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::v1;

    #[tokio::test]
    async fn calls_name_the_span_that_causes_them() {
        const SPAN: &str = "00-0000000000000000000000000000feed-0000000000000001-01";
        let named = async || {
            let request = named(v1::VersionRequest::default());
            request.metadata().get(traceparent::HEADER).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(named().await, None);
        assert_eq!(traces::within(traceparent::parse(SPAN), named()).await.as_deref(), Some(SPAN));
    }

    #[tokio::test]
    async fn says_what_go_says() {
        assert_eq!(
            failure("/x/Y", &Status::not_found("no such image")),
            Error::NotFound("rpc error: code = NotFound desc = no such image".into())
        );
        assert_eq!(failure("/x/Y", &Status::unimplemented("x")), Error::Unimplemented("/x/Y"));
        let gone = Socket::new("unix:///nowhere/at/all.sock").unwrap();
        let answer = gone.call(v1::RuntimeService::VERSION, v1::VersionRequest::default(), CONNECT_TIMEOUT).await;
        let text = answer.unwrap_err().to_string();
        assert!(text.contains("code = Unavailable") && text.contains("No such file"), "{text}");
        assert!(Socket::new("tcp://127.0.0.1:1").is_err());
    }
}
