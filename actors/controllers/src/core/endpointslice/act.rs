//! The API writes of EndpointSlices.

use oarlock_client::DeleteOptions;
use oarlock_informer::Item;
use oarlock_meta::Status;
use oarlock_schema::views::{View, meta_v1};
use oarlock_schema::{Map, Obj, Value};

use super::EndpointSlices;
use super::plan::{Plan, Wanted};
use crate::project::ServiceView;
use crate::write;

impl EndpointSlices {
    /// Writes slices before it deletes any, so that no address is missing in between.
    pub(super) async fn perform(&self, service: &Item<ServiceView>, plan: &Plan) -> Result<(), Status> {
        let client = &self.env.client;
        for wanted in &plan.write {
            let slice = self.slice(service, wanted);
            let written = if wanted.slice.is_some() {
                client.update(self.slice, slice).await
            } else {
                client.create(self.slice, slice).await
            };
            match written {
                Ok(object) => self.own.wrote(service.key(), &self.slices, object.revision),
                Err(status) if status.cause("NamespaceTerminating").is_some() => return Ok(()),
                Err(status) => return Err(status),
            }
        }
        for slice in &plan.delete {
            let only = DeleteOptions::uid(slice.meta.uid.0.clone());
            match client.delete(self.slice, slice.meta.namespace(), slice.meta.name(), only).await {
                Ok(_) => self.own.deleted(service.key(), &self.slices, slice.key().clone(), slice.meta.uid.clone()),
                Err(status) if status.is_not_found() || status.is_conflict() => {}
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }

    fn slice(&self, service: &Item<ServiceView>, wanted: &Wanted) -> Obj {
        let mut slice = Obj::new(self.slice.ty);
        let mut annotations = Map::default();
        slice.set_at(&["metadata", "namespace"], service.meta.namespace());
        match &wanted.slice {
            Some(there) => {
                slice.set_at(&["metadata", "name"], there.meta.name());
                slice.set_at(&["metadata", "resourceVersion"], there.meta.revision.to_string());
                annotations = there.meta.annotations.iter().cloned().collect();
            }
            None => {
                slice.set_at(&["metadata", "generateName"], format!("{}-", service.meta.name()));
            }
        }
        annotations.insert(TRIGGER, write::now().to_string());
        let labels: Map = wanted.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        slice.set_at(&["metadata", "labels"], labels);
        slice.set_at(&["metadata", "annotations"], annotations);
        let owner = write::owner_node(meta_v1::OwnerReference::TYPE, self.service, &service.meta);
        slice.set_at(&["metadata", "ownerReferences"], Value::from_iter([owner]));
        slice.set_at(&["addressType"], wanted.family.clone());
        slice.set_at(&["endpoints"], Value::from_iter(wanted.endpoints.iter().cloned()));
        slice.set_at(&["ports"], Value::from_iter(wanted.ports.iter().cloned()));
        slice
    }
}

/// The annotation with the time of the change that caused a write; proxies compute their latency from the annotation.
pub(crate) const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
