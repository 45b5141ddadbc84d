//! A cloud as bad as its contract allows: it reads its state, waits, and acts on what it read. A call cannot be cancelled; after a call's deadline
//! the cloud changes nothing more.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oarlock_check::effects::{Effect, What};
use oarlock_cloud::wire::*;
use oarlock_cloud::{Error, Provider};
use oarlock_runtime::{Gate, Rng, clock};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The usual time between reading the state and acting; the time is sometimes longer than a call may take.
const PACE: Duration = Duration::from_secs(3);
const LATE: Duration = Duration::from_secs(7);

/// A cloud whose calls take time and that compares no epochs. Clones share the state.
#[derive(Clone, Debug)]
pub(in crate::crew) struct FakeCloud(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    gate: Gate,
    rng: Mutex<Rng>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The Service and the content of each load balancer.
    balancers: BTreeMap<u64, (String, String)>,
    last: u64,
    effects: Vec<Effect>,
    late: u64,
}

impl FakeCloud {
    pub(super) fn new(gate: Gate, rng: Rng) -> Self {
        Self(Arc::new(Inner { gate, rng: Mutex::new(rng), state: Mutex::default() }))
    }

    /// Returns the effects so far.
    pub(super) fn effects(&self) -> Vec<Effect> {
        self.0.state.lock().effects.clone()
    }

    /// Returns how many calls met their deadline without an effect.
    pub(super) fn late(&self) -> u64 {
        self.0.state.lock().late
    }

    fn find(&self, service: &str) -> Vec<u64> {
        let state = self.0.state.lock();
        state.balancers.iter().filter(|(_, (uid, _))| uid == service).map(|(id, _)| *id).collect()
    }

    fn note(&self, what: What, balancer: u64, service: &str, content: &str, claim: Option<&Claim>) {
        let mut state = self.0.state.lock();
        if what == What::Removed {
            state.balancers.remove(&balancer);
        } else {
            state.balancers.insert(balancer, (service.to_owned(), content.to_owned()));
        }
        let epoch = claim.map_or(0, |claim| claim.epoch);
        state.effects.push(Effect { what, balancer, service: service.to_owned(), content: content.to_owned(), epoch });
    }

    /// Runs `work` between its pauses, whether the caller still waits or not; returns an answer if there is time.
    async fn call<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl Future<Output = Option<T>> + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, answer) = oneshot::channel();
        let this = self.clone();
        let run = async move {
            match work.await {
                Some(answer) => drop(sender.send(answer)),
                None => this.0.state.lock().late += 1,
            }
        };
        self.0.gate.spawn("call", run).map_err(|closed| Error::Unsent(closed.to_string()))?;
        match clock::timeout(within, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            _ => Err(Error::Unanswered("no answer".into())),
        }
    }

    /// Waits, and returns whether the call may still act.
    async fn pause(&self, within: Duration) -> bool {
        let deadline = clock::after(within);
        let pace = {
            let mut rng = self.0.rng.lock();
            if rng.chance(1, 12) { LATE } else { rng.jitter(PACE, 90) }
        };
        clock::sleep(pace).await;
        !deadline.passed()
    }

    async fn shape(self, key: LoadBalancerKey, claim: Option<Claim>, content: String, within: Duration) -> Option<u64> {
        let found = self.find(&key.uid);
        if !self.pause(within).await {
            return None;
        }
        let Some(id) = found.first().copied() else {
            let id = {
                let mut state = self.0.state.lock();
                state.last += 1;
                state.last
            };
            self.note(What::Made, id, &key.uid, &content, claim.as_ref());
            return Some(id);
        };
        let same = self.0.state.lock().balancers.get(&id).is_some_and(|(_, known)| *known == content);
        if !same {
            self.note(What::Changed, id, &key.uid, &content, claim.as_ref());
        }
        Some(id)
    }
}

/// Returns the content of a load balancer as one text.
pub(super) fn content(spec: &LoadBalancerSpec, nodes: &[Node]) -> String {
    let ports: Vec<String> = spec.ports.iter().map(|port| port.port.to_string()).collect();
    let nodes: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    format!("{} to {}", ports.join(","), nodes.join(","))
}

#[async_trait]
impl Provider for FakeCloud {
    async fn get(&self, request: GetLoadBalancerRequest, _: Duration) -> Result<GetLoadBalancerAnswer, Error> {
        let exists = !self.find(&request.key.unwrap().uid).is_empty();
        Ok(GetLoadBalancerAnswer { exists, ingress: Vec::new() })
    }

    async fn ensure(
        &self,
        request: EnsureLoadBalancerRequest,
        within: Duration,
    ) -> Result<EnsureLoadBalancerAnswer, Error> {
        let content = content(&request.spec.unwrap(), &request.nodes);
        let shaped = self.clone().shape(request.key.unwrap(), request.claim, content, within);
        let id = self.call(within, shaped).await?;
        let ingress = vec![Ingress { ip: format!("192.0.2.{id}"), ..Ingress::default() }];
        Ok(EnsureLoadBalancerAnswer { ingress, retry_after_seconds: 0 })
    }

    async fn update(
        &self,
        request: UpdateLoadBalancerRequest,
        within: Duration,
    ) -> Result<UpdateLoadBalancerAnswer, Error> {
        let content = content(&request.spec.unwrap(), &request.nodes);
        let shaped = self.clone().shape(request.key.unwrap(), request.claim, content, within);
        self.call(within, shaped).await.map(|_| UpdateLoadBalancerAnswer {})
    }

    async fn delete(
        &self,
        request: DeleteLoadBalancerRequest,
        within: Duration,
    ) -> Result<DeleteLoadBalancerAnswer, Error> {
        let (this, key) = (self.clone(), request.key.unwrap());
        let work = async move {
            let found = this.find(&key.uid);
            if !this.pause(within).await {
                return None;
            }
            found.iter().for_each(|id| this.note(What::Removed, *id, &key.uid, "", request.claim.as_ref()));
            Some(DeleteLoadBalancerAnswer::default())
        };
        self.call(within, work).await
    }

    async fn instance(&self, request: GetInstanceRequest, _: Duration) -> Result<GetInstanceAnswer, Error> {
        let instance = Instance { provider_id: format!("fake://{}", request.node), ..Instance::default() };
        Ok(GetInstanceAnswer { instance: Some(instance) })
    }
}
