//! Finds or creates the revisions of a StatefulSet's templates, and deletes the revisions beyond the limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_client::DeleteOptions;
use oarlock_informer::{Item, Key};
use oarlock_meta::{Revision, Status, Uid};
use oarlock_schema::{Str, Value};
use oarlock_workloads::{Fingerprint, Update, revision};
use parking_lot::Mutex;

use super::members::{self, Pod};
use super::snapshot::Names;
use super::{StatefulSets, objects};
use crate::project::{ControllerRevision, StatefulSet, history};
use crate::write;

/// The gate of the comparison of templates instead of bytes.
pub(super) const SEMANTIC_COMPARISON: &str = "StatefulSetSemanticRevisionComparison";
/// The most names that are tried for a new revision in one reconcile.
const MAX_NAMES: usize = 64;
/// The most sets whose comparison is remembered; beyond it all are compared again.
const MAX_REMEMBERED: usize = 10_000;

/// A cached revision.
pub(super) type Cached = Arc<Item<ControllerRevision>>;

/// The sets whose newest revision is another form of their template, by the set's generation and the revision's resourceVersion.
#[derive(Debug, Default)]
pub(super) struct SameTemplates(Mutex<BTreeMap<Key, (Uid, i64, Revision)>>);

impl SameTemplates {
    fn has(&self, set: &Item<StatefulSet>, newest: &Cached) -> bool {
        self.0.lock().get(set.key()) == Some(&(set.meta.uid.clone(), set.meta.generation, newest.meta.revision))
    }

    fn remember(&self, set: &Item<StatefulSet>, newest: &Cached) {
        let mut known = self.0.lock();
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(set.key().clone(), (set.meta.uid.clone(), set.meta.generation, newest.meta.revision));
    }

    /// Forgets a set that does not exist any more.
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

impl StatefulSets {
    /// Returns the names of a set's revisions, after the revision of the template became the newest or was created. A set that is being deleted keeps the
    /// names in its status (upstream `getStatefulSetRevisions`).
    pub(super) async fn revision_names(&self, set: &Item<StatefulSet>, known: &[Cached]) -> Result<Names, Status> {
        let status = &set.value.status;
        let mut collisions = status.collisions.unwrap_or(0);
        if set.meta.deleting() {
            let (current, update) = (status.current_revision.clone(), status.update_revision.clone());
            return Ok(Names { current, update, collisions });
        }
        let item = |name: &str| known.iter().find(|item| item.meta.name() == name);
        let history = history(known);
        let update: Str = match history.update(set.value.data) {
            Update::Newest(found) => found.name.into(),
            Update::Raise(found, number) => {
                if let Some(found) = item(found.name) {
                    self.raise(set, found, number).await?;
                }
                found.name.into()
            }
            Update::New { number, newest } => {
                let mut same = None;
                if let Some(newest) = newest.and_then(|newest| item(newest.name)) {
                    same = self.is_same_template(set, newest).await?.then(|| newest.key().name.clone());
                }
                match same {
                    Some(name) => name,
                    None => self.create_revision(set, number, &mut collisions).await?,
                }
            }
        };
        let current = item(&status.current_revision).map_or_else(|| update.clone(), |found| found.key().name.clone());
        Ok(Names { current, update, collisions })
    }

    /// Makes an old revision the newest.
    async fn raise(&self, set: &Item<StatefulSet>, old: &Cached, number: i64) -> Result<(), Status> {
        let written = write::update(&self.env.client, self.revision, "", &old.meta, |object| {
            object.set_at(&["revision"], number);
        })
        .await?;
        self.sets.own.wrote(set.key(), &self.revisions, written.revision);
        Ok(())
    }

    /// Whether the newest revision restores the template that the set has, although other bytes do: a later release may have written defaults into the
    /// template that the revision lacks (upstream `setMatchesLatestExistingRevision`).
    async fn is_same_template(&self, set: &Item<StatefulSet>, newest: &Cached) -> Result<bool, Status> {
        if !self.env.features.enabled(SEMANTIC_COMPARISON) {
            return Ok(false);
        }
        if self.same_templates.has(set, newest) {
            return Ok(true);
        }
        let whole = write::current(&self.env.client, self.sets.resource, &set.meta).await?;
        let found = self.env.client.get(self.revision, set.meta.namespace(), newest.meta.name()).await?.obj()?;
        let Ok(mut restored) = revision::restored(&whole, objects::value(&found, &["data"])?) else { return Ok(false) };
        oarlock_apis::default(&mut restored);
        let template = restored.at(&["spec", "template"]).and_then(Value::as_struct);
        let is_same = template.map(Fingerprint::of_template) == Some(set.value.data);
        if is_same {
            self.same_templates.remember(set, newest);
        }
        Ok(is_same)
    }

    /// Creates the revision of the set's template and returns its name. If the name is another template's, the next name is tried; the label keeps the hash
    /// of the first name (upstream `CreateControllerRevision`).
    async fn create_revision(&self, set: &Item<StatefulSet>, number: i64, collisions: &mut i64) -> Result<Str, Status> {
        let client = &self.env.client;
        let whole = write::current(client, self.sets.resource, &set.meta).await?;
        let template = objects::value(&whole, &["spec", "template"])?.as_struct();
        let data = template.map(revision::data).ok_or_else(|| Status::internal_error("the answer has no template"))?;
        let fingerprint = Fingerprint::of(&data);
        let label = fingerprint.hash(*collisions);
        let mut object =
            objects::revision(self.revision, (self.sets.resource, &set.meta), &whole, (number, &label, data));
        for _ in 0..MAX_NAMES {
            let name = revision::name(set.meta.name(), &fingerprint.hash(*collisions));
            object.set_at(&["metadata", "name"], name.as_str());
            let there = match client.create(self.revision, object.clone()).await {
                Ok(created) => created,
                Err(status) if status.is_already_exists() => {
                    let there = client.get(self.revision, set.meta.namespace(), &name).await?;
                    if there.obj()?.get("data").map(Fingerprint::of) != Some(fingerprint) {
                        *collisions += 1;
                        continue;
                    }
                    there
                }
                Err(status) => return Err(status),
            };
            self.sets.own.wrote(set.key(), &self.revisions, there.revision);
            return Ok(name.into());
        }
        Err(Status::internal_error(format!("the names of {MAX_NAMES} revisions are in use")))
    }

    /// Deletes the oldest revisions beyond the limit that are neither in the status nor any pod's.
    pub(super) async fn trim_history(
        &self,
        set: &Item<StatefulSet>,
        names: &Names,
        pods: &[Pod],
        known: &[Cached],
    ) -> Result<(), Status> {
        let Some(limit) = set.value.history.filter(|_| !set.meta.deleting()) else { return Ok(()) };
        let is_live = |name: &str| {
            let has = |pod: &Pod| pod.meta.label(members::REVISION) == Some(name);
            names.current == name || names.update == name || pods.iter().any(has)
        };
        let surplus = history(known).surplus(limit, is_live);
        for item in known.iter().filter(|item| surplus.iter().any(|old| old.name == item.meta.name())) {
            let only = DeleteOptions::uid(item.meta.uid.0.clone());
            match self.env.client.delete(self.revision, item.meta.namespace(), item.meta.name(), only).await {
                Ok(_) => {
                    let (key, uid) = (item.key().clone(), item.meta.uid.clone());
                    self.sets.own.deleted(set.key(), &self.revisions, key, uid);
                }
                Err(status) if status.is_not_found() || status.is_conflict() => {}
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }
}
