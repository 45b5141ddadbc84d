//! The API calls that delete the content of a namespace.

use oarlock_client::{DeleteOptions, ListOptions, Propagation};
use oarlock_informer::{Item, ObjMeta};
use oarlock_meta::Status;
use oarlock_schema::views::{View, core_v1};
use oarlock_schema::{Resource, Value};

use super::plan::Remaining;
use super::{FINALIZER, Namespaces};
use crate::project::{Condition, NamespaceView};
use crate::write;

impl Namespaces {
    /// Deletes all objects of these resources; returns the remaining objects of each resource that has any.
    pub(super) async fn empty(&self, namespace: &str, resources: &[&'static Resource]) -> Vec<Remaining> {
        let calls = resources.iter().map(|resource| async move {
            let mut left =
                Remaining { resource: format!("{}.{}", resource.plural, resource.group), ..Remaining::default() };
            if let Err(status) = self.clear(namespace, resource, &mut left).await
                && !status.is_not_found()
            {
                left.error = Some(status);
            }
            left
        });
        let mut found = write::all(calls).await;
        found.retain(|left| !left.nothing());
        found.sort_by(|a, b| a.resource.cmp(&b.resource));
        found
    }

    async fn clear(&self, namespace: &str, resource: &'static Resource, left: &mut Remaining) -> Result<(), Status> {
        let client = &self.env.client;
        let there = client.list(resource, namespace, ListOptions::default()).await?;
        if there.items.is_empty() {
            return Ok(());
        }
        let options = DeleteOptions::default().propagate(Propagation::Background);
        if resource.has_verb("deletecollection") {
            client.delete_collection(resource, namespace, ListOptions::default(), options).await?;
        } else {
            for item in &there.items {
                match client.delete(resource, namespace, &item.name(), options.clone()).await {
                    Err(status) if !status.is_not_found() => return Err(status),
                    _ => {}
                }
            }
        }
        let after = client.list(resource, namespace, ListOptions::default()).await?;
        left.count = after.items.len();
        for item in &after.items {
            let meta = ObjMeta::read(&item.obj()?, item.revision, false);
            left.finalizers.extend(meta.finalizers);
        }
        Ok(())
    }

    /// Writes the namespace's conditions.
    pub(super) async fn report(&self, namespace: &Item<NamespaceView>, conditions: &[Condition]) -> Result<(), Status> {
        let written = write::update(&self.env.client, self.namespaces.resource, "status", &namespace.meta, |object| {
            let nodes = conditions.iter().map(|one| one.write(core_v1::NamespaceCondition::TYPE));
            object.set_at(&["status", "conditions"], Value::from_iter(nodes));
        })
        .await?;
        self.namespaces.wrote(namespace, written.revision);
        Ok(())
    }

    /// Removes this controller's finalizer; the removal of the last finalizer deletes the namespace.
    pub(super) async fn finalize(&self, namespace: &Item<NamespaceView>) -> Result<(), Status> {
        let written =
            write::update(&self.env.client, self.namespaces.resource, "finalize", &namespace.meta, |object| {
                let rest = namespace.value.finalizers.iter().filter(|name| *name != FINALIZER).cloned();
                object.set_at(&["spec", "finalizers"], Value::from_iter(rest));
            })
            .await;
        match written {
            Ok(_) => Ok(()),
            Err(status) if status.is_not_found() => Ok(()),
            Err(status) => Err(status),
        }
    }
}
