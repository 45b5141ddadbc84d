//! A cloud provider: a gRPC server that reads its state, takes its time, acts on what it read and records its effects. A call cannot be cancelled, and has no effect after its
//! deadline. The provider does not compare epochs, so only our own rules keep two holders apart.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use oarlock_check::effects::{Effect, What};
use oarlock_cloud::wire::*;
use oarlock_testkit::wait::Deadline;
use parking_lot::Mutex;
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle, Runtime};
use tonic::Status;
use tonic::body::Body;
use tonic_prost::ProstCodec;

/// A cloud provider over gRPC that records its effects. The server ends with this value.
pub(crate) struct FakeCloud {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    _runtime: Runtime,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// The time between reading the state and acting.
    pub(crate) pace: Duration,
    /// The error with which calls are refused.
    pub(crate) refuses: Option<String>,
    /// Machines that are shut down, and machines that no longer exist; all others run.
    pub(crate) shut_down: BTreeSet<String>,
    pub(crate) gone: BTreeSet<String>,
    /// The Service and the content of each load balancer.
    balancers: BTreeMap<u64, (String, String)>,
    last: u64,
    pub(crate) effects: Vec<Effect>,
    /// Calls that have looked, and have not done anything yet: method, name of the Service, epoch.
    pub(crate) open: Vec<(&'static str, String, u64)>,
    /// The epochs of calls, in the order of arrival.
    pub(crate) epochs: Vec<u64>,
}

type Shared = Arc<Mutex<State>>;

impl FakeCloud {
    pub(crate) fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (address, state) = (listener.local_addr().unwrap(), Shared::default());
        let (shared, handle) = (state.clone(), runtime.handle().clone());
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                handle.spawn(serve(stream, shared.clone(), handle.clone()));
            }
        });
        Self { address, state, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock())
    }
}

async fn serve(stream: TcpStream, state: Shared, handle: Handle) {
    let answer = move |request: Request<Incoming>| {
        let (state, handle) = (state.clone(), handle.clone());
        async move { Ok::<_, std::convert::Infallible>(route(request, state, handle).await) }
    };
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // The connection breaks when the client was killed.
    let _broken = server.serve_connection(TokioIo::new(stream), hyper::service::service_fn(answer)).await;
}

async fn route(request: Request<Incoming>, state: Shared, handle: Handle) -> Response<Body> {
    let call = Call { state, handle, deadline: Deadline::after(time(&request)) };
    match request.uri().path().rsplit('/').next().unwrap() {
        "GetLoadBalancer" => unary(request, |ask| call.get(ask)).await,
        "EnsureLoadBalancer" => unary(request, |ask| call.ensure(ask)).await,
        "UpdateLoadBalancer" => unary(request, |ask| call.update(ask)).await,
        "DeleteLoadBalancer" => unary(request, |ask| call.delete(ask)).await,
        "GetInstance" => unary(request, |ask| call.instance(ask)).await,
        method => Status::unimplemented(method.to_owned()).into_http(),
    }
}

/// The time that the caller allows (`grpc-timeout`).
fn time(request: &Request<Incoming>) -> Duration {
    let said = request.headers()["grpc-timeout"].to_str().unwrap();
    let (number, unit) = said.split_at(said.len() - 1);
    let number: u64 = number.parse().unwrap();
    match unit {
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        unit => panic!("no unit of time: {unit}"),
    }
}

async fn unary<Q, A, F>(request: Request<Incoming>, answer: impl FnMut(Q) -> F + Send) -> Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    F: Future<Output = Result<A, Status>> + Send,
{
    let mut answer = answer;
    let service = tower::service_fn(|request: tonic::Request<Q>| {
        let answered = answer(request.into_inner());
        async { answered.await.map(tonic::Response::new) }
    });
    tonic::server::Grpc::new(ProstCodec::<A, Q>::default()).unary(service, request).await
}

#[derive(Clone)]
struct Call {
    state: Shared,
    handle: Handle,
    deadline: Deadline,
}

impl Call {
    /// Begins a call: records the caller, and fails if calls are to be refused.
    fn begin(&self, claim: Option<&Claim>) -> Result<u64, Status> {
        let claim = claim.expect("every call says on whose behalf");
        assert_eq!(claim.unit, "cloud");
        let mut state = self.state.lock();
        state.epochs.push(claim.epoch);
        match &state.refuses {
            Some(why) => Err(Status::resource_exhausted(why.clone())),
            None => Ok(claim.epoch),
        }
    }

    fn find(&self, service: &str) -> Vec<u64> {
        let state = self.state.lock();
        state.balancers.iter().filter(|(_, (uid, _))| uid == service).map(|(id, _)| *id).collect()
    }

    fn note(&self, what: What, balancer: u64, service: &str, content: &str, epoch: u64) {
        let mut state = self.state.lock();
        if what == What::Removed {
            state.balancers.remove(&balancer);
        } else {
            state.balancers.insert(balancer, (service.to_owned(), content.to_owned()));
        }
        state.effects.push(Effect { what, balancer, service: service.to_owned(), content: content.to_owned(), epoch });
    }

    /// Waits, and then does `act` if there is time left, whether the caller still waits or not.
    async fn later<A: Send + 'static>(
        &self,
        (method, key, epoch): (&'static str, &LoadBalancerKey, u64),
        act: impl FnOnce() -> A + Send + 'static,
    ) -> Result<A, Status> {
        let open = (method, key.name.clone(), epoch);
        let pace = self.with(|state| {
            state.open.push(open.clone());
            state.pace
        });
        let this = self.clone();
        let work = self.handle.spawn(async move {
            tokio::time::sleep(pace).await;
            let acted = if this.deadline.passed() { None } else { Some(act()) };
            this.with(|state| {
                let at = state.open.iter().position(|one| *one == open).unwrap();
                state.open.remove(at);
            });
            acted
        });
        work.await.unwrap().ok_or_else(|| Status::deadline_exceeded("took too long"))
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock())
    }

    async fn shape(
        &self,
        method: &'static str,
        key: LoadBalancerKey,
        epoch: u64,
        content: String,
    ) -> Result<u64, Status> {
        let (this, found, of) = (self.clone(), self.find(&key.uid), key.clone());
        let act = move || {
            let Some(id) = found.first().copied() else {
                let id = this.with(|state| {
                    state.last += 1;
                    state.last
                });
                this.note(What::Made, id, &of.uid, &content, epoch);
                return id;
            };
            if this.with(|state| state.balancers.get(&id).is_none_or(|(_, known)| *known != content)) {
                this.note(What::Changed, id, &of.uid, &content, epoch);
            }
            id
        };
        self.later((method, &key, epoch), act).await
    }

    async fn get(&self, ask: GetLoadBalancerRequest) -> Result<GetLoadBalancerAnswer, Status> {
        self.begin(ask.claim.as_ref())?;
        let exists = !self.find(&ask.key.unwrap().uid).is_empty();
        Ok(GetLoadBalancerAnswer { exists, ingress: Vec::new() })
    }

    async fn ensure(&self, ask: EnsureLoadBalancerRequest) -> Result<EnsureLoadBalancerAnswer, Status> {
        let epoch = self.begin(ask.claim.as_ref())?;
        let content = content(&ask.spec.unwrap(), &ask.nodes);
        let id = self.shape("ensure", ask.key.unwrap(), epoch, content).await?;
        let ingress = vec![Ingress { ip: format!("192.0.2.{id}"), ..Ingress::default() }];
        Ok(EnsureLoadBalancerAnswer { ingress, retry_after_seconds: 0 })
    }

    async fn update(&self, ask: UpdateLoadBalancerRequest) -> Result<UpdateLoadBalancerAnswer, Status> {
        let epoch = self.begin(ask.claim.as_ref())?;
        let content = content(&ask.spec.unwrap(), &ask.nodes);
        self.shape("update", ask.key.unwrap(), epoch, content).await?;
        Ok(UpdateLoadBalancerAnswer {})
    }

    async fn delete(&self, ask: DeleteLoadBalancerRequest) -> Result<DeleteLoadBalancerAnswer, Status> {
        let (epoch, key) = (self.begin(ask.claim.as_ref())?, ask.key.unwrap());
        let (this, found, of) = (self.clone(), self.find(&key.uid), key.clone());
        let act = move || found.iter().for_each(|id| this.note(What::Removed, *id, &of.uid, "", epoch));
        self.later(("delete", &key, epoch), act).await?;
        Ok(DeleteLoadBalancerAnswer::default())
    }

    async fn instance(&self, ask: GetInstanceRequest) -> Result<GetInstanceAnswer, Status> {
        self.begin(ask.claim.as_ref())?;
        let state = self.state.lock();
        let instance = Instance {
            provider_id: format!("fake://{}", ask.node),
            shutdown: state.shut_down.contains(&ask.node),
            instance_type: "m1".to_owned(),
            zone: "z1".to_owned(),
            region: "r1".to_owned(),
            addresses: vec![Address { r#type: "InternalIP".to_owned(), address: "198.51.100.7".to_owned() }],
            ..Instance::default()
        };
        let instance = (!state.gone.contains(&ask.node)).then_some(instance);
        Ok(GetInstanceAnswer { instance })
    }
}

/// Returns the content of a load balancer as one text.
fn content(spec: &LoadBalancerSpec, nodes: &[Node]) -> String {
    let ports: Vec<String> = spec.ports.iter().map(|port| port.port.to_string()).collect();
    let nodes: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    format!("{} to {}", ports.join(","), nodes.join(","))
}
