//! service-lb-controller: maintains a cloud load balancer to all eligible nodes for each Service of type LoadBalancer (upstream
//! `k8s.io/cloud-provider/controllers/service`).

mod act;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_client::fence;
use oarlock_cloud::wire;
use oarlock_informer::{Cache, Key, Reconcile, Requeue, WorkQueue};
use oarlock_meta::Revision;
use oarlock_runtime::Failure;
use oarlock_runtime::kind::Backoff;
use parking_lot::Mutex;

use crate::cloud::provider::{CallError, Cloud};
use crate::error::Error;
use crate::harness::{Concurrency, Env, Reconciled, Requirement, Row, Spread};
use crate::project::{BalancedService, CloudNode};

use plan::{Done, Nodes, Step};

pub(crate) const ROW: Row = Row {
    name: "service-lb-controller",
    aliases: &["service"],
    account: "service-controller",
    component: "service-controller",
    workers: Concurrency::flag("concurrent-service-syncs", 4),
    spread: Spread::Cloud,
    why: "one process at a time speaks to the cloud",
    on_by_default: true,
    gate: None,
    needs: &[Requirement::Cloud],
    start: |env| start(env).boxed(),
};

/// The pauses after failures (upstream `minRetryDelay`, `maxRetryDelay`).
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(5), max: Duration::from_secs(300) };
/// The time after which a process that may not make outside calls tries again.
const PERMIT_RETRY: Duration = Duration::from_secs(1);

struct ServiceController {
    env: Env,
    cloud: Cloud,
    services: Reconciled<BalancedService>,
    nodes: Arc<Cache<CloudNode>>,
    /// The last applied state of each Service's load balancer, with the claim.
    done: Mutex<BTreeMap<Key, Done>>,
    /// The last list of eligible nodes, shared with the entries of `done`.
    latest: Mutex<Nodes>,
}

async fn start(env: Env) -> Result<(), Error> {
    let services = Reconciled::<BalancedService>::open(&env).await?;
    let nodes = env.informers.all::<CloudNode>().await?;
    let (cloud, shell) = (env.cloud()?, env.shell());
    let balanced = services.cache.index("balanced by the cloud", |service, value| {
        if service.value.wants.is_some() {
            value("");
        }
    });
    let (done, latest) = (Mutex::default(), Mutex::default());
    let this = ServiceController { env, cloud, services: services.clone(), nodes: nodes.clone(), done, latest };
    let controller = services
        .controller(&shell, this)
        .watches(&nodes, move |change, enqueue| {
            let led_to = |node: &Option<_>| node.as_deref().and_then(plan::node);
            if led_to(&change.old) != led_to(&change.new) {
                balanced.get("").iter().for_each(|service| enqueue(service.key().clone()));
            }
        })
        .queue(&Arc::new(WorkQueue::with_backoff(BACKOFF)));
    shell.spawn(controller).await
}

#[async_trait]
impl Reconcile for ServiceController {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(service) = self.services.get(key) else {
            self.done.lock().remove(key);
            return Ok(Requeue::No);
        };
        let epoch = fence::current().map_or(Revision::ZERO, |fence| fence.epoch);
        let nodes = self.nodes();
        let done = self.done.lock().get(key).cloned();
        let made = match plan::step(&service, &nodes, done.as_ref(), epoch) {
            Step::Nothing => return Ok(Requeue::No),
            Step::Guard => return self.guard(&service).await,
            Step::Publish(ingress) => return self.publish(&service, &ingress).await,
            Step::Ensure(wants) => self.ensure(&service, wants, nodes, epoch).await,
            Step::Update(done) => self.update(&service, done, nodes).await,
            Step::Delete => self.delete(&service).await,
        };
        match made {
            Ok(requeue) => Ok(requeue),
            Err(error) if matches!(error.downcast_ref(), Some(CallError::NotPermitted(_))) => {
                tracing::debug!(%key, %error, "the cloud is not called");
                Ok(Requeue::After(PERMIT_RETRY))
            }
            Err(error) => Err(error),
        }
    }
}

impl ServiceController {
    /// Returns the eligible nodes; the same allocation as long as the list is unchanged.
    fn nodes(&self) -> Nodes {
        let now: Vec<wire::Node> = self.nodes.list().iter().filter_map(|node| plan::node(node)).collect();
        let mut latest = self.latest.lock();
        if **latest != now {
            *latest = Arc::new(now);
        }
        latest.clone()
    }
}
