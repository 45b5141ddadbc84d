//! endpointslice-controller: writes the addresses of the pods that each Service selects into EndpointSlices of at most a hundred (upstream
//! `pkg/controller/endpointslice`).

pub(crate) mod act;
pub(crate) mod plan;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_informer::{Cache, Index, Key, OwnWrites, Project, Reconcile, Requeue};
use oarlock_runtime::Failure;
use oarlock_schema::Resource;

use crate::core::service_pods::{PodsByLabels, selector_of, services_of};
use crate::error::Error;
use crate::harness::{Concurrency, Env, Row, Spread, must};
use crate::project::{NodeView, PodView, ServiceView, SliceView};

pub use settings::EndpointSliceSettings;

pub(crate) const ROW: Row = Row {
    name: "endpointslice-controller",
    aliases: &["endpointslice"],
    account: "endpointslice-controller",
    component: "endpoint-slice-controller",
    workers: Concurrency::flag("concurrent-service-endpoint-syncs", 8).at_most(50),
    spread: Spread::Key,
    why: "a service's slices are decided on its own",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

/// The label with the name of a slice's Service.
pub(crate) const SERVICE: &str = "kubernetes.io/service-name";
/// The label with the name of the controller that writes a slice.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// This controller's value of the label [`MANAGED_BY`].
const MANAGER: &str = "endpointslice-controller.k8s.io";
/// The label of slices and Endpoints of a headless Service.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";
const ZONE: &str = "topology.kubernetes.io/zone";

struct EndpointSlices {
    env: Env,
    services: Arc<Cache<ServiceView>>,
    pods_by_labels: PodsByLabels,
    nodes: Arc<Cache<NodeView>>,
    slices: Arc<Cache<SliceView>>,
    by_service: Index<SliceView>,
    settings: EndpointSliceSettings,
    own: Arc<OwnWrites>,
    service: &'static Resource,
    slice: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let services = env.informers.all::<ServiceView>().await?;
    let pods = env.informers.all::<PodView>().await?;
    let nodes = env.informers.all::<NodeView>().await?;
    let slices = env.informers.all::<SliceView>().await?;
    let own = Arc::new(OwnWrites::default());
    let shell = env.shell();
    let this = EndpointSlices {
        settings: env.settings(),
        env,
        services: services.clone(),
        pods_by_labels: PodsByLabels::of(&pods),
        nodes: nodes.clone(),
        slices: slices.clone(),
        by_service: slices.by_label(SERVICE),
        own: own.clone(),
        service: must(ServiceView::RESOURCE)?,
        slice: must(SliceView::RESOURCE)?,
    };
    let (of_pods, of_nodes) = (services.clone(), services.clone());
    let controller = shell
        .controller(this)
        .reconciles(&services)
        .watches(&pods, move |change, enqueue| services_of(&of_pods, change, enqueue))
        .watches(&slices, |change, enqueue| {
            if let Some(slice) = change.latest().filter(|slice| slice.meta.label(MANAGED_BY) == Some(MANAGER))
                && let Some(service) = slice.meta.label(SERVICE)
            {
                enqueue(Key::new(slice.meta.namespace(), service));
            }
        })
        .watches(&nodes, move |change, enqueue| {
            // A node rarely changes its zone; then every Service may be concerned.
            let zone = |item: &Option<Arc<oarlock_informer::Item<NodeView>>>| {
                item.as_ref().and_then(|node| node.meta.label(ZONE).map(str::to_owned))
            };
            if change.old.is_some() && change.new.is_some() && zone(&change.old) != zone(&change.new) {
                of_nodes.keys().into_iter().for_each(enqueue);
            }
        })
        .own_writes(&own);
    shell.spawn(controller).await
}

#[async_trait]
impl Reconcile for EndpointSlices {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(service) = self.services.get(key) else {
            // The garbage collector deletes the slices, which the Service owns.
            self.own.forget(key);
            return Ok(Requeue::No);
        };
        let Some(selector) = selector_of(&service) else { return Ok(Requeue::No) };
        let pods = self.pods_by_labels.get(&key.namespace, selector);
        let mut slices = self.by_service.get(&key.name);
        slices.retain(|slice| {
            slice.meta.namespace() == key.namespace.as_str()
                && slice.meta.label(MANAGED_BY) == Some(MANAGER)
                && !slice.meta.deleting()
        });
        let zone = |node: &str| self.nodes.named("", node).and_then(|node| node.meta.label(ZONE).map(Into::into));
        let plan = plan::plan(&service, &pods, &slices, &zone, self.settings.max_endpoints_per_slice);
        self.perform(&service, &plan).await?;
        Ok(Requeue::No)
    }
}
