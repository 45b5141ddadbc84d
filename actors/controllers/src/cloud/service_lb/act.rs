//! The cloud calls and API writes of the service-lb controller.

use std::time::Duration;

use oarlock_cloud::{Error, wire};
use oarlock_informer::{Item, Requeue};
use oarlock_meta::{Revision, Status};
use oarlock_runtime::Failure;
use oarlock_schema::views::{View, core_v1};
use oarlock_schema::{Obj, Value};

use super::ServiceController;
use super::plan::{self, Done, FINALIZER, Nodes};
use crate::cloud::provider::CallError;
use crate::project::BalancedService;
use crate::write;

type Service = Item<BalancedService>;

impl ServiceController {
    /// Adds the finalizer to a Service.
    pub(super) async fn guard(&self, service: &Service) -> Result<Requeue, Failure> {
        let written = self.write(service, |object| {
            let mut finalizers = finalizers(service);
            finalizers.push(FINALIZER);
            object.set_at(&["metadata", "finalizers"], list(&finalizers));
        });
        match written.await {
            Ok(()) => Ok(Requeue::No),
            Err(status) if status.is_conflict() || status.is_not_found() => Err(status.into()),
            Err(status) => {
                let error = format!("failed to add load balancer cleanup finalizer: {status}");
                self.failed(service, &error);
                Err(status.into())
            }
        }
    }

    pub(super) async fn ensure(
        &self,
        service: &Service,
        wants: &wire::LoadBalancerSpec,
        nodes: Nodes,
        epoch: Revision,
    ) -> Result<Requeue, Failure> {
        let about = write::about(self.services.resource, &service.meta);
        self.env.recorder.normal(&about, "EnsuringLoadBalancer", "Ensuring load balancer");
        if nodes.is_empty() {
            self.env.recorder.warning(&about, "UnAvailableLoadBalancer", NO_NODES);
        }
        let request = wire::EnsureLoadBalancerRequest {
            key: Some(self.key(service)),
            claim: None,
            spec: Some(wants.clone()),
            nodes: nodes.to_vec(),
        };
        let answer = match self.cloud.ensure(request).await {
            Ok(answer) => answer,
            Err(error) => return self.sync_failed(service, "failed to ensure load balancer", error),
        };
        if answer.retry_after_seconds > 0 {
            return Ok(Requeue::After(Duration::from_secs(answer.retry_after_seconds.into())));
        }
        self.env.recorder.normal(&about, "EnsuredLoadBalancer", "Ensured load balancer");
        let done = Done {
            uid: service.meta.uid.clone(),
            epoch,
            wants: Box::new(wants.clone()),
            nodes,
            ingress: plan::ingress(answer.ingress),
        };
        self.done.lock().insert(service.key().clone(), done);
        // The next reconcile compares the status with the applied state.
        Ok(Requeue::After(Duration::ZERO))
    }

    pub(super) async fn update(&self, service: &Service, done: &Done, nodes: Nodes) -> Result<Requeue, Failure> {
        let request = wire::UpdateLoadBalancerRequest {
            key: Some(self.key(service)),
            claim: None,
            spec: Some((*done.wants).clone()),
            nodes: nodes.to_vec(),
        };
        let about = write::about(self.services.resource, &service.meta);
        match self.cloud.update(request).await {
            Ok(wire::UpdateLoadBalancerAnswer {}) => {}
            // The load balancer was deleted at the provider; it is created again.
            Err(CallError::Provider(Error::NotFound(_))) => {
                self.done.lock().remove(service.key());
                return Ok(Requeue::After(Duration::ZERO));
            }
            Err(error @ CallError::NotPermitted(_)) => return Err(error.into()),
            Err(error) => {
                let (names, total) = (plan::names(&nodes), nodes.len());
                let text = format!(
                    "Error updating load balancer with new hosts {names} [node names limited, total number of nodes: {total}], error: {error}"
                );
                self.env.recorder.warning(&about, "UpdateLoadBalancerFailed", text);
                return Err(error.into());
            }
        }
        if nodes.is_empty() {
            self.env.recorder.warning(&about, "UnAvailableLoadBalancer", NO_NODES);
        } else {
            self.env.recorder.normal(&about, "UpdatedLoadBalancer", "Updated load balancer with new hosts");
        }
        self.done.lock().insert(service.key().clone(), Done { nodes, ..done.clone() });
        Ok(Requeue::No)
    }

    /// Deletes a Service's load balancer, if there is one, and then removes the finalizer.
    pub(super) async fn delete(&self, service: &Service) -> Result<Requeue, Failure> {
        let about = write::about(self.services.resource, &service.meta);
        self.done.lock().remove(service.key());
        let there = match self.cloud.get(self.key(service)).await {
            Ok(answer) => answer.exists,
            Err(error) => {
                return self.sync_failed(service, "failed to check if load balancer exists before cleanup", error);
            }
        };
        if there {
            self.env.recorder.normal(&about, "DeletingLoadBalancer", "Deleting load balancer");
            match self.cloud.delete(self.key(service)).await {
                Ok(answer) if answer.retry_after_seconds > 0 => {
                    return Ok(Requeue::After(Duration::from_secs(answer.retry_after_seconds.into())));
                }
                Ok(_) => {}
                Err(error) => return self.sync_failed(service, "failed to delete load balancer", error),
            }
        }
        let written = self.write(service, |object| {
            let mut finalizers = finalizers(service);
            finalizers.retain(|finalizer| *finalizer != FINALIZER);
            object.set_at(&["metadata", "finalizers"], list(&finalizers));
            object.set_at(&["status", "loadBalancer", "ingress"], list(&[]));
        });
        match written.await {
            Err(status) if !status.is_not_found() => return Err(status.into()),
            _ => {}
        }
        self.env.recorder.normal(&about, "DeletedLoadBalancer", "Deleted load balancer");
        Ok(Requeue::No)
    }

    /// Writes the load balancer's addresses into the Service's status.
    pub(super) async fn publish(&self, service: &Service, ingress: &[wire::Ingress]) -> Result<Requeue, Failure> {
        let nodes = ingress.iter().map(|one| {
            let fields = [("ip", &one.ip), ("hostname", &one.hostname), ("ipMode", &one.ip_mode)];
            let told = fields.into_iter().filter(|(_, text)| !text.is_empty());
            let told = told.map(|(name, text)| (name, Value::from(text.as_str())));
            Value::Struct(write::node(core_v1::LoadBalancerIngress::TYPE, told))
        });
        let nodes = Value::from_iter(nodes);
        let written = self.write(service, |object| {
            object.set_at(&["status", "loadBalancer", "ingress"], nodes);
        });
        match written.await {
            Err(status) if !status.is_not_found() => Err(status.into()),
            _ => Ok(Requeue::No),
        }
    }

    fn key(&self, service: &Service) -> wire::LoadBalancerKey {
        wire::LoadBalancerKey {
            cluster: self.cloud.cluster(),
            uid: service.meta.uid.as_str().to_owned(),
            namespace: service.meta.namespace().to_owned(),
            name: service.meta.name().to_owned(),
        }
    }

    /// Changes a Service's metadata and status. Upstream writes both through the status subresource, because its role allows nothing else.
    async fn write(&self, service: &Service, change: impl FnOnce(&mut Obj)) -> Result<(), Status> {
        let written = write::update(&self.env.client, self.services.resource, "status", &service.meta, change).await?;
        self.services.wrote(service, written.revision);
        Ok(())
    }

    fn sync_failed(&self, service: &Service, what: &str, error: CallError) -> Result<Requeue, Failure> {
        if let CallError::Provider(error) = &error {
            self.failed(service, &format!("{what}: {error}"));
        }
        Err(error.into())
    }

    fn failed(&self, service: &Service, error: &str) {
        let about = write::about(self.services.resource, &service.meta);
        self.env.recorder.warning(&about, "SyncLoadBalancerFailed", format!("Error syncing load balancer: {error}"));
    }
}

const NO_NODES: &str = "There are no available nodes for LoadBalancer";

fn finalizers(service: &Service) -> Vec<&str> {
    service.meta.finalizers.iter().map(oarlock_schema::Str::as_str).collect()
}

fn list(texts: &[&str]) -> Value {
    Value::from_iter(texts.iter().map(|text| Value::from(*text)))
}
