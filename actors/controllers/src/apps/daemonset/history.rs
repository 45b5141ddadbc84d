//! Finds or creates the revision of a DaemonSet's template, repairs the history, and deletes the revisions beyond the limit (upstream `constructHistory`,
//! `cleanupHistory`).

use std::sync::Arc;

use oarlock_client::DeleteOptions;
use oarlock_informer::{Change, Item, Key};
use oarlock_meta::Status;
use oarlock_schema::views::{View, meta_v1};
use oarlock_schema::{Obj, Str, Value};
use oarlock_workloads::revision::{self, DAEMON_HASH_LABEL};
use oarlock_workloads::{Fingerprint, Update};
use serde_json::json;

use super::DaemonSets;
use super::pods::Pod;
use crate::project::{ControllerRevision, DaemonSet, history};
use crate::write;

/// A cached revision.
pub(super) type Cached = Arc<Item<ControllerRevision>>;

/// The revision of a DaemonSet's template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Current {
    name: Str,
    /// The hash in the revision's label, which the pods of the template have too.
    pub(super) hash: Str,
}

impl DaemonSets {
    /// Returns the revision of the set's template, after it became the newest or was created. `None` if the history had to be repaired, so that the caches must
    /// show the result first: revisions had no hash, several had the template, or the name of a new one was in use.
    pub(super) async fn current_revision(
        &self,
        set: &Item<DaemonSet>,
        pods: &[Pod],
        known: &[Cached],
    ) -> Result<Option<Current>, Status> {
        let unlabelled: Vec<&Cached> = known.iter().filter(|item| hash_of(item).is_none()).collect();
        if !unlabelled.is_empty() {
            for item in unlabelled {
                self.change_revision(set, item, &["metadata", "labels", DAEMON_HASH_LABEL], item.meta.name()).await?;
            }
            return Ok(None);
        }
        let history = history(known);
        let (found, number) = match history.update(set.value.data) {
            Update::Newest(found) => (found, None),
            Update::Raise(found, number) => (found, Some(number)),
            Update::New { number, .. } => return self.create_revision(set, number).await,
        };
        let Some(current) = known.iter().find(|item| item.meta.name() == found.name) else {
            return Err(Status::internal_error("a revision that is not known"));
        };
        let hash = hash_of(current).unwrap_or_default();
        let duplicates = history.duplicates(set.value.data, found.name);
        if !duplicates.is_empty() {
            let is_duplicate = |item: &&Cached| duplicates.iter().any(|one| one.name == item.meta.name());
            for duplicate in known.iter().filter(is_duplicate) {
                self.absorb(set, pods, (duplicate, hash)).await?;
            }
            return Ok(None);
        }
        if let Some(number) = number {
            self.change_revision(set, current, &["revision"], number).await?;
        }
        Ok(Some(Current { name: found.name.into(), hash: hash.into() }))
    }

    /// Changes a field of a revision.
    async fn change_revision(
        &self,
        set: &Item<DaemonSet>,
        item: &Cached,
        path: &[&str],
        value: impl Into<Value> + Send,
    ) -> Result<(), Status> {
        let value = value.into();
        let change = |object: &mut Obj| {
            object.set_at(path, value);
        };
        let written = write::update(&self.env.client, self.revision, "", &item.meta, change).await?;
        self.sets.own.wrote(set.key(), &self.revisions, written.revision);
        Ok(())
    }

    /// Gives the pods of a revision the hash of another with the same template, and deletes the revision.
    async fn absorb(
        &self,
        set: &Item<DaemonSet>,
        pods: &[Pod],
        (duplicate, kept): (&Cached, &str),
    ) -> Result<(), Status> {
        let old = hash_of(duplicate).filter(|old| *old != kept);
        for pod in pods.iter().filter(|pod| old.is_some() && pod.meta.label(DAEMON_HASH_LABEL) == old) {
            let patch = json!({"metadata": {"uid": pod.meta.uid.as_str(), "labels": {DAEMON_HASH_LABEL: kept}}});
            match write::patch_metadata(&self.env.client, self.pod, &pod.meta, &patch).await {
                Ok(written) => self.sets.own.wrote(set.key(), &self.pods, written.revision),
                // The pod is deleted, or another incarnation.
                Err(status) if status.is_not_found() || status.is_conflict() => {}
                Err(status) => return Err(status),
            }
        }
        self.delete_revision(set, duplicate).await
    }

    /// Creates the revision of the set's template. If its name is another template's, the collision is counted in the status, and the next attempt makes
    /// another name.
    async fn create_revision(&self, set: &Item<DaemonSet>, number: i64) -> Result<Option<Current>, Status> {
        let client = &self.env.client;
        let whole = write::current(client, self.sets.resource, &set.meta).await?;
        let template = whole.at(&["spec", "template"]).and_then(Value::as_struct);
        let data = template.map(revision::data).ok_or_else(|| Status::internal_error("the answer has no template"))?;
        let fingerprint = Fingerprint::of(&data);
        let hash = fingerprint.hash(set.value.status.collisions.unwrap_or(0));
        let name = revision::name(set.meta.name(), &hash);
        let mut object = revision::of(self.revision.ty, &whole, (DAEMON_HASH_LABEL, &hash), number, data);
        object.set_at(&["metadata", "name"], name.as_str());
        let owner = write::owner_node(meta_v1::OwnerReference::TYPE, self.sets.resource, &set.meta);
        object.set_at(&["metadata", "ownerReferences"], Value::from_iter([owner]));
        let there = match client.create(self.revision, object).await {
            Err(status) if status.is_already_exists() => {
                let there = client.get(self.revision, set.meta.namespace(), &name).await?;
                if there.obj()?.get("data").map(Fingerprint::of) != Some(fingerprint) {
                    self.count_collision(set).await?;
                    return Ok(None);
                }
                there
            }
            created => created?,
        };
        self.sets.own.wrote(set.key(), &self.revisions, there.revision);
        Ok(Some(Current { name: name.into(), hash: hash.into() }))
    }

    /// Counts a collision, unless the set is newer than the cached one, whose count may be another.
    async fn count_collision(&self, set: &Item<DaemonSet>) -> Result<(), Status> {
        let count = set.value.status.collisions.unwrap_or(0).saturating_add(1);
        let written = write::update_status(&self.env, self.sets.resource, &set.meta, |object| {
            object.set_at(&["status", "collisionCount"], count);
        })
        .await?;
        self.sets.wrote(set, written.revision);
        Ok(())
    }

    /// Deletes the oldest revisions beyond the limit that no pod has.
    pub(super) async fn trim_history(
        &self,
        set: &Item<DaemonSet>,
        current: &Current,
        pods: &[Pod],
        known: &[Cached],
    ) -> Result<(), Status> {
        let Some(limit) = set.value.history else { return Ok(()) };
        let is_live = |name: &str| {
            let hash = known.iter().find(|item| item.meta.name() == name).and_then(hash_of);
            pods.iter().any(|pod| hash.is_some() && pod.meta.label(DAEMON_HASH_LABEL) == hash)
        };
        let surplus = history(known).surplus_beside(&current.name, limit, is_live);
        for item in known.iter().filter(|item| surplus.iter().any(|old| old.name == item.meta.name())) {
            self.delete_revision(set, item).await?;
        }
        Ok(())
    }

    async fn delete_revision(&self, set: &Item<DaemonSet>, item: &Cached) -> Result<(), Status> {
        let only = DeleteOptions::uid(item.meta.uid.0.clone());
        match self.env.client.delete(self.revision, item.meta.namespace(), item.meta.name(), only).await {
            Ok(_) => {
                self.sets.own.deleted(set.key(), &self.revisions, item.key().clone(), item.meta.uid.clone());
                Ok(())
            }
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(status) => Err(status),
        }
    }
}

/// Enqueues the DaemonSet that controls a revision, when the revision is changed or deleted. As with upstream's controller, a new revision is no reason to
/// look at the set: somebody who adds a revision for a template that has one sees both until something else happens (conformance demands this).
pub(super) fn enqueue_owner(change: &Change<ControllerRevision>, enqueue: &mut dyn FnMut(Key)) {
    let Some(old) = &change.old else { return };
    for item in [Some(old), change.new.as_ref()].into_iter().flatten() {
        if let Some(owner) = item.meta.controller().filter(|owner| owner.kind == "DaemonSet") {
            enqueue(Key::new(item.meta.namespace(), owner.name.clone()));
        }
    }
}

/// Returns the hash in a revision's label.
fn hash_of(item: &Cached) -> Option<&str> {
    item.meta.label(DAEMON_HASH_LABEL)
}
