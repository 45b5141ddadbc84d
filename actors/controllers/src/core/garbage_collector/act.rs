//! The API calls of the garbage collector.

use oarlock_client::{DeleteOptions, PatchType, WriteOptions};
use oarlock_informer::{Key, ObjMeta, OwnerRef};
use oarlock_meta::{Revision, Status, Uid};
use oarlock_schema::Resource;
use serde_json::{Value, json};

use super::absent::Asked;
use super::plan::{self, FOREGROUND, ORPHAN, Owner, Unknown, Verdict};
use super::{Collector, key};
use crate::write;

impl Collector {
    /// Returns the states of an object's owners, and whether an owner exists that no cache shows. An owner in no cache is looked up at the API server.
    /// `Unknown` if an owner cannot be looked up, so that no decision about the object is possible.
    pub(super) async fn owners(
        &self,
        resource: &'static Resource,
        meta: &ObjMeta,
    ) -> Result<Result<(Vec<Owner>, bool), Unknown>, Status> {
        let (mut states, mut unseen) = (Vec::new(), false);
        for owner in &meta.owners {
            match self.owner(resource, meta, owner).await? {
                Ok((state, alone)) => {
                    states.push(state);
                    unseen |= alone;
                }
                Err(unknown) => return Ok(Err(unknown)),
            }
        }
        Ok(Ok((states, unseen)))
    }

    /// Returns the state of an owner, and whether the owner exists although no cache shows it yet.
    async fn owner(
        &self,
        resource: &'static Resource,
        meta: &ObjMeta,
        owner: &OwnerRef,
    ) -> Result<Result<(Owner, bool), Unknown>, Status> {
        if self.graph.elsewhere(owner, meta.namespace()) {
            let message = plan::invalid_namespace(owner, meta.namespace());
            self.env.recorder.warning(&write::about(resource, meta), "OwnerRefInvalidNamespace", message);
        }
        // Objects of a kind that is not served cannot be looked up, so the owner is not declared absent.
        let Some(kind) = self.graph.resource(owner) else {
            tracing::debug!(object = %meta.key, owner = %owner.kind, version = %owner.api_version, "nobody serves the kind of an owner");
            return Ok(Err(Unknown::Kind));
        };
        if kind.namespaced && !resource.namespaced {
            return Ok(Err(Unknown::Namespace));
        }
        if let Some(there) = self.graph.owner(kind, meta.namespace(), owner) {
            return Ok(Ok((plan::state(&there.meta), false)));
        }
        let namespace = if kind.namespaced { meta.namespace() } else { "" };
        let asked = Asked::new(owner, namespace);
        if self.absent.has(&asked) {
            return Ok(Ok((Owner::Absent, false)));
        }
        let live = self.env.client.find(kind, namespace, &owner.name).await?;
        Ok(Ok(match live {
            Some(object) if object.uid() == owner.uid.0 => {
                (plan::state(&ObjMeta::read(&object.obj()?, object.revision, false)), true)
            }
            _ => {
                self.absent.add(asked);
                (Owner::Absent, false)
            }
        }))
    }

    /// Carries out the decision about an object.
    pub(super) async fn perform(
        &self,
        at: &Key,
        resource: &'static Resource,
        meta: &ObjMeta,
        verdict: Verdict,
    ) -> Result<(), Status> {
        match verdict {
            Verdict::Keep => Ok(()),
            Verdict::Release(dead) => self.forget(at, resource, meta, &dead).await,
            Verdict::Delete { propagation, unblock } => {
                let mut revision = meta.revision;
                if unblock {
                    let owners =
                        meta.owners.iter().map(|owner| json!({"uid": owner.uid.as_str(), "blockOwnerDeletion": false}));
                    let owners: Vec<Value> = owners.collect();
                    let patch = json!({"metadata": {"uid": meta.uid.as_str(), "ownerReferences": owners}});
                    let Some(unblocked) = self.patch(at, resource, meta, PatchType::Strategic, &patch).await? else {
                        return Ok(());
                    };
                    revision = unblocked;
                }
                let options = DeleteOptions {
                    // If the object has changed since it was read, for instance its owners, the deletion fails with a conflict.
                    resource_version: Some(revision),
                    ..DeleteOptions::uid(meta.uid.0.clone())
                };
                let options = options.propagate(propagation);
                match self.env.client.delete(resource, meta.namespace(), meta.name(), options).await {
                    Err(status) if !status.is_not_found() => Err(status),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Removes the object from the owners of every dependent, then removes the orphan finalizer.
    pub(super) async fn orphan(&self, at: &Key, resource: &'static Resource, meta: &ObjMeta) -> Result<(), Status> {
        let dependents = self.graph.dependents(meta.uid.as_str());
        let owner = [meta.uid.clone()];
        let calls = dependents.iter().map(|(kind, dependent)| self.forget(at, kind, &dependent.meta, &owner));
        for answer in write::all(calls).await {
            answer?;
        }
        self.finish(at, resource, meta, ORPHAN).await
    }

    /// Removes the foreground finalizer when no blocking dependent is left; otherwise enqueues the dependents.
    pub(super) async fn foreground(&self, at: &Key, resource: &'static Resource, meta: &ObjMeta) -> Result<(), Status> {
        let dependents = self.graph.dependents(meta.uid.as_str());
        if !dependents.iter().any(|(_, dependent)| plan::blocks(&meta.uid, &dependent.meta)) {
            return self.finish(at, resource, meta, FOREGROUND).await;
        }
        for (_, dependent) in dependents {
            if !dependent.meta.deleting() {
                self.queue.add(key(dependent.meta.uid.as_str()));
            }
        }
        Ok(())
    }

    /// Removes owner references from an object.
    async fn forget(
        &self,
        at: &Key,
        resource: &'static Resource,
        meta: &ObjMeta,
        owners: &[Uid],
    ) -> Result<(), Status> {
        let owners: Vec<Value> = owners.iter().map(|uid| json!({"$patch": "delete", "uid": uid.as_str()})).collect();
        let patch = json!({"metadata": {"uid": meta.uid.as_str(), "ownerReferences": owners}});
        self.patch(at, resource, meta, PatchType::Strategic, &patch).await.map(drop)
    }

    /// Removes a finalizer from an object.
    async fn finish(
        &self,
        at: &Key,
        resource: &'static Resource,
        meta: &ObjMeta,
        finalizer: &str,
    ) -> Result<(), Status> {
        let rest: Vec<&str> = meta.finalizers.iter().map(|one| one.as_str()).filter(|one| *one != finalizer).collect();
        let patch = json!({"metadata": {
            "uid": meta.uid.as_str(),
            "resourceVersion": meta.revision.to_string(),
            "finalizers": rest,
        }});
        self.patch(at, resource, meta, PatchType::Merge, &patch).await.map(drop)
    }

    /// Patches an object; returns the revision of the write, or `None` if the object is deleted.
    async fn patch(
        &self,
        at: &Key,
        resource: &'static Resource,
        meta: &ObjMeta,
        kind: PatchType,
        patch: &Value,
    ) -> Result<Option<Revision>, Status> {
        let place = (meta.namespace(), meta.name());
        let written = self.env.client.patch(resource, "", place, (kind, patch.to_string()), WriteOptions::default());
        match written.await {
            Ok(object) => {
                if let Some(cache) = self.graph.cache(resource) {
                    self.own.wrote(at, cache, object.revision);
                }
                Ok(Some(object.revision))
            }
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }
}
