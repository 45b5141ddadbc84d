//! endpoints-controller: writes the addresses of the pods that each Service selects into an Endpoints object, for clients of this older API (upstream
//! `pkg/controller/endpoint`).

mod address;
mod order;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_client::DeleteOptions;
use oarlock_informer::{Cache, Item, Key, OwnWrites, Project, Reconcile, Requeue};
use oarlock_meta::Status;
use oarlock_runtime::Failure;
use oarlock_schema::{Map, Obj, Resource, Value};

use crate::core::endpointslice::act::TRIGGER;
use crate::core::service_pods::{PodsByLabels, selector_of, services_of};
use crate::error::Error;
use crate::harness::{Concurrency, Env, Row, Spread, must};
use crate::project::{EndpointsView, PodView, ServiceView};

use crate::write;

pub(crate) const ROW: Row = Row {
    name: "endpoints-controller",
    aliases: &["endpoint"],
    account: "endpoint-controller",
    component: "endpoint-controller",
    workers: Concurrency::flag("concurrent-endpoint-syncs", 8),
    spread: Spread::Key,
    why: "a service's addresses are decided on its own",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

/// The label with the name of the controller that writes an Endpoints object. Only this controller's objects are deleted with their Service.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
/// The annotation of an object from which addresses were left out.
const CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

struct EndpointsController {
    env: Env,
    services: Arc<Cache<ServiceView>>,
    pods_by_labels: PodsByLabels,
    endpoints: Arc<Cache<EndpointsView>>,
    own: Arc<OwnWrites>,
    resource: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let services = env.informers.all::<ServiceView>().await?;
    let pods = env.informers.all::<PodView>().await?;
    let endpoints = env.informers.all::<EndpointsView>().await?;
    let own = Arc::new(OwnWrites::default());
    let shell = env.shell();
    let this = EndpointsController {
        env,
        services: services.clone(),
        pods_by_labels: PodsByLabels::of(&pods),
        endpoints: endpoints.clone(),
        own: own.clone(),
        resource: must(EndpointsView::RESOURCE)?,
    };
    let of_pods = services.clone();
    let controller = shell
        .controller(this)
        .reconciles(&services)
        .reconciles(&endpoints)
        .watches(&pods, move |change, enqueue| services_of(&of_pods, change, enqueue))
        .own_writes(&own);
    shell.spawn(controller).await
}

#[async_trait]
impl Reconcile for EndpointsController {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let there = self.endpoints.get(key);
        let Some(service) = self.services.get(key) else {
            if let Some(there) = there.filter(|there| there.meta.label(MANAGED_BY) == Some(MANAGER)) {
                self.remove(&there).await?;
            } else {
                self.own.forget(key);
            }
            return Ok(Requeue::No);
        };
        let Some(selector) = selector_of(&service) else { return Ok(Requeue::No) };
        let pods = self.pods_by_labels.get(&key.namespace, selector);
        let wanted = plan::plan(&service, &pods);
        if there.as_ref().is_some_and(|there| wanted.stands(there)) {
            return Ok(Requeue::No);
        }
        let object = self.object(&service, &wanted, there.as_deref());
        let written = if there.is_some() {
            self.env.client.update(self.resource, object).await
        } else {
            self.env.client.create(self.resource, object).await
        };
        match written {
            Ok(object) => self.own.wrote(key, &self.endpoints, object.revision),
            Err(status) if status.cause("NamespaceTerminating").is_some() => {}
            Err(status) => return Err(status.into()),
        }
        Ok(Requeue::No)
    }
}

impl EndpointsController {
    async fn remove(&self, there: &Item<EndpointsView>) -> Result<(), Status> {
        let only = DeleteOptions::uid(there.meta.uid.0.clone());
        let (namespace, name) = (there.meta.namespace(), there.meta.name());
        match self.env.client.delete(self.resource, namespace, name, only).await {
            Ok(_) => {
                let (key, uid) = (there.key().clone(), there.meta.uid.clone());
                self.own.deleted(there.key(), &self.endpoints, key, uid);
                Ok(())
            }
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(status) => Err(status),
        }
    }

    fn object(&self, service: &Item<ServiceView>, wanted: &plan::Wanted, there: Option<&Item<EndpointsView>>) -> Obj {
        let mut object = Obj::new(self.resource.ty);
        object.set_at(&["metadata", "namespace"], service.meta.namespace());
        object.set_at(&["metadata", "name"], service.meta.name());
        let mut annotations = Map::default();
        if let Some(there) = there {
            object.set_at(&["metadata", "resourceVersion"], there.meta.revision.to_string());
            annotations = there.meta.annotations.iter().cloned().collect();
        }
        annotations.insert(TRIGGER, write::now().to_string());
        if wanted.truncated {
            annotations.insert(CAPACITY, "truncated");
        } else {
            annotations.remove(CAPACITY);
        }
        let labels: Map = wanted.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        object.set_at(&["metadata", "labels"], labels);
        object.set_at(&["metadata", "annotations"], annotations);
        object.set_at(&["subsets"], Value::from_iter(wanted.subsets.iter().cloned()));
        object
    }
}
