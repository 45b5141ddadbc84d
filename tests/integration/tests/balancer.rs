//! A balancer before several API servers: each request goes to the next server, whatever connection the request came over.
//!
//! It ends TLS with the first server's certificate, speaks HTTP/1.1 and HTTP/2 to clients, and to servers HTTP/1.1 over a connection for each
//! request, as the administrator. A server that takes no connection is passed over; nothing is sent twice.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use oarlock_config::Kubeconfig;
use oarlock_pki::tls::{ServingCertificate, server_config};
use oarlock_pki::{KeyPair, parse_chain};
use oarlock_testkit::{Cluster, read};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::{TlsAcceptor, TlsConnector};

type Body = BoxBody<Bytes, hyper::Error>;

/// A balancer that sends each request to the next of several API servers. It ends when the value is dropped.
pub(crate) struct Balancer {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    servers: Vec<SocketAddr>,
    shares: Vec<AtomicU64>,
    passed_over: AtomicU64,
    next: AtomicUsize,
    connector: TlsConnector,
}

impl Balancer {
    /// Starts a balancer before these servers, whose addresses do not change.
    pub(crate) fn before(servers: &[&Cluster]) -> Self {
        let first = servers[0];
        let admin = Kubeconfig::read(&first.kubeconfig()).unwrap().resolve(None).unwrap();
        let mut client = rustls::ClientConfig::clone(&oarlock_client::Endpoint::new(&admin, "balancer").unwrap().tls);
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        let pki = first.data_dir().pki();
        let chain = parse_chain(&read(&pki.join("apiserver.crt"))).unwrap();
        let key = KeyPair::from_pem(&read(&pki.join("apiserver.key"))).unwrap().to_rustls();
        let tls = server_config(ServingCertificate::from_chain(chain, key).unwrap(), None).unwrap();
        let shared = Arc::new(Shared {
            servers: servers.iter().map(|server| address_of(server)).collect(),
            shares: servers.iter().map(|_| AtomicU64::new(0)).collect(),
            passed_over: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            connector: TlsConnector::from(Arc::new(client)),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(accept(listener, TlsAcceptor::from(Arc::new(tls)), Arc::clone(&shared)));
        Self { address, shared, runtime: Some(runtime) }
    }

    /// Returns the address for clients.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of requests that each server got.
    pub(crate) fn shares(&self) -> Vec<u64> {
        self.shared.shares.iter().map(|share| share.load(Ordering::Relaxed)).collect()
    }

    /// How often a server was passed over.
    pub(crate) fn passed_over(&self) -> u64 {
        self.shared.passed_over.load(Ordering::Relaxed)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

pub(crate) fn address_of(server: &Cluster) -> SocketAddr {
    server.http(oarlock_testkit::http::Who::Anonymous).address().parse().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a balancer is no part of the system under test")]
async fn accept(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let (tls, shared) = (tls.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(tcp).await else { return };
            let serve = service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, std::convert::Infallible>(shared.pass(request).await) }
            });
            let connection = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            let _ = connection.serve_connection(TokioIo::new(stream), serve).await;
        });
    }
}

impl Shared {
    /// Passes a request on, and its answer back.
    async fn pass(&self, request: Request<Incoming>) -> Response<Body> {
        let mut last = String::new();
        for _ in 0..self.servers.len() {
            let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.servers.len();
            match self.connect(self.servers[turn]).await {
                Ok(sender) => {
                    self.shares[turn].fetch_add(1, Ordering::Relaxed);
                    return send(sender, self.servers[turn], request).await;
                }
                Err(why) => {
                    self.passed_over.fetch_add(1, Ordering::Relaxed);
                    last = why.to_string();
                }
            }
        }
        failed(last)
    }

    #[expect(clippy::disallowed_methods, reason = "a balancer is no part of the system under test")]
    async fn connect(&self, server: SocketAddr) -> std::io::Result<SendRequest<Incoming>> {
        let tcp = TcpStream::connect(server).await?;
        tcp.set_nodelay(true)?;
        let tls = self.connector.connect(server.ip().into(), tcp).await?;
        let made = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await;
        let (sender, connection) = made.map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

async fn send(mut sender: SendRequest<Incoming>, to: SocketAddr, request: Request<Incoming>) -> Response<Body> {
    let (mut head, body) = request.into_parts();
    head.uri = head.uri.path_and_query().map_or("/", |path| path.as_str()).parse().unwrap();
    head.version = http::Version::HTTP_11;
    head.headers.remove(header::CONNECTION);
    head.headers.insert(header::HOST, to.to_string().parse().unwrap());
    match sender.send_request(Request::from_parts(head, body)).await {
        Ok(mut response) => {
            *response.version_mut() = http::Version::HTTP_11;
            for hop in [header::CONNECTION, header::TRANSFER_ENCODING] {
                response.headers_mut().remove(hop);
            }
            response.map(|body| body.boxed())
        }
        Err(error) => failed(format!("{to} broke off: {error}")),
    }
}

fn failed(why: String) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(why)).map_err(|never| match never {}).boxed());
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}
