//! A proxy between an API server and etcd that can hold the events of watches while all other messages pass. Both use one
//! connection, so the links of the chaos proxy cannot do this.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use oarlock_contracts::etcd::TxnResponse;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// A proxy between an API server and etcd that can delay the events of watches. The proxy ends with this value.
pub(super) struct Teller {
    address: SocketAddr,
    wire: Wire,
    _runtime: Runtime,
}

#[derive(Clone)]
struct Wire {
    etcd: SocketAddr,
    silent: watch::Sender<bool>,
    /// Transactions that etcd has refused, as requested.
    refused: Arc<Mutex<Vec<Bytes>>>,
}

impl Teller {
    /// Before the member of etcd at this port.
    pub(super) fn before(port: u16) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let wire =
            Wire { etcd: ([127, 0, 0, 1], port).into(), silent: watch::Sender::new(false), refused: Arc::default() };
        let (own, handle) = (wire.clone(), runtime.handle().clone());
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                handle.spawn(own.clone().serve(stream));
            }
        });
        Self { address, wire, _runtime: runtime }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Delays the events of watches from now on, or lets them pass again.
    pub(super) fn silent(&self, silent: bool) {
        self.wire.silent.send_replace(silent);
    }

    /// Whether etcd has refused a transaction about this.
    pub(super) fn has_refused(&self, about: &str) -> bool {
        let is_about = |asked: &Bytes| asked.windows(about.len()).any(|part| part == about.as_bytes());
        self.wire.refused.lock().iter().any(is_about)
    }
}

impl Wire {
    /// Serves one connection until one of its ends breaks it.
    async fn serve(self, stream: TcpStream) {
        let Ok(far) = TcpStream::connect(self.etcd).await else { return };
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(far)).await;
        let Ok((etcd, connection)) = handshake else { return };
        let answer = hyper::service::service_fn(|request| self.clone().pass(request, etcd.clone()));
        let near = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::select! {
            _ = connection => {}
            _ = near.serve_connection(TokioIo::new(stream), answer) => {}
        }
    }

    async fn pass(
        self,
        request: Request<Incoming>,
        mut etcd: SendRequest<Body>,
    ) -> Result<Response<Body>, hyper::Error> {
        match request.uri().path() {
            "/etcdserverpb.Watch/Watch" => {
                let answer = etcd.send_request(request.map(BodyExt::boxed_unsync)).await?;
                Ok(answer.map(|told| self.told(told)))
            }
            "/etcdserverpb.KV/Txn" => {
                let (head, body) = request.into_parts();
                let asked = body.collect().await?.to_bytes();
                let whole = Full::new(asked.clone()).map_err(|never| match never {}).boxed_unsync();
                let (head, body) = etcd.send_request(Request::from_parts(head, whole)).await?.into_parts();
                let body = body.collect().await?;
                let trailers = body.trailers().cloned();
                let told = body.to_bytes();
                // The message follows gRPC's five-byte prefix; a frame without the prefix holds no decision.
                if matches!(told.get(5..).map(TxnResponse::decode), Some(Ok(TxnResponse { succeeded: false, .. }))) {
                    self.refused.lock().push(asked);
                }
                let whole = Full::new(told).with_trailers(async { trailers.map(Ok) });
                Ok(Response::from_parts(head, whole.map_err(|never| match never {}).boxed_unsync()))
            }
            _ => Ok(etcd.send_request(request.map(BodyExt::boxed_unsync)).await?.map(BodyExt::boxed_unsync)),
        }
    }

    /// Forwards the events of watches when they are allowed to pass.
    fn told(&self, told: Incoming) -> Body {
        let state = (told, self.silent.subscribe());
        let frames = futures::stream::unfold(state, |(mut told, mut silent)| async {
            let frame = told.frame().await?;
            // An error means that the test has ended.
            let _ = silent.wait_for(|silent| !silent).await;
            Some((frame, (told, silent)))
        });
        BodyExt::boxed_unsync(StreamBody::new(frames))
    }
}
