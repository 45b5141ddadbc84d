//! Static pods of manifests, and their mirror pods, which represent them in the API (upstream `pkg/kubelet/pod`).
//!
//! A static pod runs as soon as its manifest is read, with or without an API server. Once the API can be reached, the kubelet creates a mirror pod of the same
//! name with the manifest's hash. A mirror with another hash, or one being deleted, is replaced; a mirror without a manifest is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use oarlock_client::{DeleteOptions, Object};
use oarlock_informer::{Item, Key, ObjMeta, Project};
use oarlock_meta::{MicroTime, Revision, Status};
use oarlock_runtime::clock;
use oarlock_schema::views::core_v1::PodMut;
use oarlock_schema::views::meta_v1::OwnerReferenceMut;
use oarlock_schema::{Obj, Str, Struct, Value, type_named};

use super::{Done, Node, Now, Uid, uid_of};
use crate::manifests::{MIRROR, Manifest, read};
use crate::template::PodView;

/// A static pod that a manifest asks for.
#[derive(Debug)]
struct Wanted {
    uid: Uid,
    item: Arc<Item<PodView>>,
    object: Obj,
}

/// State of a static pod's mirror in the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mirror {
    uid: Str,
    /// Hash of the manifest that the mirror represents.
    hash: Str,
    deleting: bool,
    generation: i64,
    revision: u64,
}

/// The static pods of a node and their mirrors.
#[derive(Debug)]
pub(super) struct Statics {
    /// Whether the manifests have been read, or there are none to read.
    read: bool,
    /// Content of each file and its pod; `None` for an invalid manifest.
    files: BTreeMap<PathBuf, (Bytes, Option<Arc<Wanted>>)>,
    wanted: BTreeMap<Key, Arc<Wanted>>,
    mirrors: BTreeMap<Key, Mirror>,
    /// Mirrors without a manifest, whose deletion is in flight.
    retiring: BTreeSet<Key>,
}

impl Statics {
    pub(super) fn new(manifests: bool) -> Self {
        Self {
            read: !manifests,
            files: BTreeMap::new(),
            wanted: BTreeMap::new(),
            mirrors: BTreeMap::new(),
            retiring: BTreeSet::new(),
        }
    }

    /// Returns the uids of the pods that manifests ask for, running or not.
    pub(super) fn uids(&self) -> impl Iterator<Item = String> {
        self.wanted.values().map(|wanted| wanted.item.meta.uid.0.to_string())
    }
}

/// Action on the mirror that must come before the status of a static pod can be written.
#[derive(Debug, PartialEq, Eq)]
enum MirrorAction {
    Nothing,
    Create,
    /// Delete a mirror that represents another manifest or is being deleted.
    Delete,
}

fn mirror_action(hash: &str, mirror: Option<&Mirror>) -> MirrorAction {
    match mirror {
        None => MirrorAction::Create,
        Some(mirror) if mirror.hash == hash && !mirror.deleting => MirrorAction::Nothing,
        Some(_) => MirrorAction::Delete,
    }
}

/// Returns the mirror of a static pod on a node (upstream `CreateMirrorPod`).
fn mirror_of(object: &Obj, hash: &str, node: &str, node_uid: &str) -> Obj {
    let mut mirror = object.clone();
    mirror.remove_name("status");
    let mut view = PodMut::new(&mut mirror);
    let mut metadata = view.metadata_mut();
    metadata.clear_uid();
    metadata.annotations_mut().insert(MIRROR, hash);
    if let Some(mut owner) = type_named("meta/v1.OwnerReference").map(Struct::zero) {
        let mut view = OwnerReferenceMut::new(&mut owner);
        view.set_api_version("v1").set_kind("Node").set_name(node).set_uid(node_uid).set_controller(true);
        metadata.owner_references_mut().push(Value::Struct(owner));
    }
    mirror
}

/// Returns the state of a mirror from the API's answer to its creation.
fn created(object: &Object, hash: Str) -> Result<Mirror, Status> {
    let meta = ObjMeta::read(&object.obj()?, object.revision, false);
    Ok(Mirror { uid: meta.uid.0, hash, deleting: false, generation: meta.generation, revision: object.revision.get() })
}

impl Node {
    /// Handles the manifests' present content.
    pub(super) fn manifests(&mut self, files: Option<&BTreeMap<PathBuf, Bytes>>) {
        let (Some(files), now) = (files, Self::now()) else { return };
        let mut before = std::mem::take(&mut self.statics.files);
        for (path, bytes) in files {
            let known = before.remove(path);
            let wanted = match known {
                Some((old, wanted)) if old == *bytes => wanted,
                known => {
                    let known = known.and_then(|(_, wanted)| wanted);
                    // The same pod in another notation keeps the time of its first reading.
                    self.read_manifest(path, bytes)
                        .map(|read| known.filter(|known| known.uid == read.uid).unwrap_or(read))
                }
            };
            self.statics.files.insert(path.clone(), (bytes.clone(), wanted));
        }
        self.statics.wanted.clear();
        for (path, (_, wanted)) in &self.statics.files {
            let Some(wanted) = wanted else { continue };
            if let Some(other) = self.statics.wanted.insert(wanted.item.key().clone(), wanted.clone())
                && other.uid != wanted.uid
            {
                let (node, pod) = (&self.parts.config.name, wanted.item.key());
                tracing::error!(%node, path = %path.display(), %pod, "manifest takes the place of another of its name");
            }
        }
        let wanted: BTreeSet<Uid> = self.statics.wanted.values().map(|wanted| wanted.uid).collect();
        let of_files = self.pods.iter().filter(|(_, entry)| entry.is_static && !entry.pod.gone);
        let removed: Vec<Uid> = of_files.map(|(uid, _)| *uid).filter(|uid| !wanted.contains(uid)).collect();
        for uid in removed {
            self.end(uid, now);
        }
        self.start_statics(now);
        self.statics.read = true;
        self.sources_ready(now);
    }

    fn read_manifest(&self, path: &Path, bytes: &[u8]) -> Option<Arc<Wanted>> {
        let config = &self.parts.config;
        let at = MicroTime::from_unix_micros(clock::wall().as_microsecond());
        match read(bytes, path, &config.name, at) {
            Ok(Manifest { pod, findings }) => {
                for finding in findings {
                    tracing::warn!(node = %config.name, path = %path.display(), %finding, "manifest has more than is used");
                }
                let value =
                    if self.tools.host_resources.is_some() { PodView::whole(&pod) } else { PodView::project(&pod) };
                let item = Arc::new(Item { meta: ObjMeta::read(&pod, Revision::ZERO, false), value });
                Some(Arc::new(Wanted { uid: uid_of(&item), item, object: pod }))
            }
            Err(why) => {
                tracing::error!(node = %config.name, path = %path.display(), %why, "could not process manifest file");
                None
            }
        }
    }

    /// Starts static pods that are wanted and not running. A pod waits until another static pod of its name has ended.
    pub(super) fn start_statics(&mut self, now: Now) {
        let wanted: Vec<Arc<Wanted>> = self.statics.wanted.values().cloned().collect();
        for wanted in wanted {
            if self.static_named(wanted.item.key()).is_none() {
                self.insert(wanted.uid, wanted.item.clone(), None, true, now);
                self.touch(wanted.uid, now);
            }
        }
    }

    fn static_named(&self, key: &Key) -> Option<Uid> {
        let named = self.pods.iter().find(|(_, entry)| entry.is_static && entry.pod.item.key() == key);
        named.map(|(uid, _)| *uid)
    }

    /// Ends the pods that neither the API nor a manifest has, once both have been read.
    pub(super) fn sources_ready(&mut self, now: Now) {
        if !self.cache.is_synced() || !self.statics.read {
            return;
        }
        if !std::mem::replace(&mut self.synced, true) {
            self.sweep();
        }
        let statics: Vec<Uid> = self.pods.iter().filter(|(_, entry)| entry.is_static).map(|(uid, _)| *uid).collect();
        for uid in statics {
            self.touch(uid, now);
        }
        self.retire();
    }

    /// Replaces the known mirrors by the complete list from the API.
    pub(super) fn mirrors_are(&mut self, items: &[Arc<Item<PodView>>]) {
        let there: BTreeSet<&str> = items.iter().map(|item| item.meta.uid.as_str()).collect();
        self.statics.mirrors.retain(|_, mirror| there.contains(mirror.uid.as_str()));
    }

    /// Handles a mirror's new state from the API.
    pub(super) fn mirror_seen(&mut self, item: &Item<PodView>, hash: Str, now: Now) {
        let (meta, state) = (&item.meta, item.value.seen.lock().take());
        let revision = meta.revision.get();
        if self.statics.mirrors.get(&meta.key).is_some_and(|known| known.revision > revision) {
            return;
        }
        let (uid, deleting, generation) = (meta.uid.0.clone(), meta.deleting(), meta.generation);
        let mirror = Mirror { uid, hash, deleting, generation, revision };
        self.statics.mirrors.insert(meta.key.clone(), mirror);
        let Some(uid) = self.static_named(&meta.key) else { return self.retire() };
        if let Some(entry) = self.pods.get_mut(&uid)
            && revision > entry.revision
            && !entry.writing
            && state.is_none_or(|state| entry.pod.differs(&state))
        {
            // Another client has changed the mirror's status.
            entry.written = 0;
        }
        self.touch(uid, now);
    }

    /// Handles the removal of a mirror from the API.
    pub(super) fn mirror_lost(&mut self, item: &Item<PodView>, now: Now) {
        let key = &item.meta.key;
        if self.statics.mirrors.get(key).is_some_and(|mirror| mirror.uid == item.meta.uid.0) {
            self.statics.mirrors.remove(key);
        }
        if let Some(uid) = self.static_named(key) {
            self.touch(uid, now);
        }
    }

    /// Whether the API has the current mirror of a static pod; if not, its creation or replacement is begun.
    pub(super) fn has_mirror(&mut self, uid: Uid) -> bool {
        let Some(entry) = self.pods.get_mut(&uid) else { return false };
        // Without an API server nothing can be done yet.
        let Some(known) = self.known.as_ref().filter(|_| self.cache.is_synced()) else { return false };
        let meta = &entry.pod.item.meta;
        let (key, hash) = (meta.key.clone(), meta.uid.0.clone());
        let mirror = self.statics.mirrors.get(&key);
        let wanted = self.statics.wanted.get(&key).filter(|wanted| wanted.uid == uid);
        let (parts, pods) = (self.parts.clone(), self.resources.pods);
        let work: BoxFuture<'static, Done> = match (mirror_action(&hash, mirror), mirror, wanted) {
            (MirrorAction::Nothing, Some(mirror), _) => {
                entry.pod.mirror = Some(Box::new((mirror.uid.clone(), mirror.generation)));
                return true;
            }
            (MirrorAction::Create, _, Some(wanted)) => {
                let mirror = mirror_of(&wanted.object, &hash, &parts.config.name, &known.uid);
                Box::pin(async move {
                    let result = parts.client.create(pods, mirror).await.and_then(|object| created(&object, hash));
                    Done::Mirrored { uid, result: result.map(Some) }
                })
            }
            (MirrorAction::Delete, Some(mirror), _) => {
                let options = DeleteOptions::uid(mirror.uid.clone()).grace(0);
                Box::pin(async move {
                    let result = parts.client.delete(pods, &key.namespace, &key.name, options).await;
                    Done::Mirrored { uid, result: absent_is_deleted(result.map(|_| ())).map(|()| None) }
                })
            }
            // The manifest has been removed, so the pod is about to end.
            _ => return false,
        };
        entry.writing = true;
        self.writing += 1;
        self.work.push(work);
        false
    }

    /// Handles the creation of a mirror, or the deletion of an outdated one.
    pub(super) fn mirrored(&mut self, uid: Uid, result: Result<Option<Mirror>, Status>, now: Now) {
        self.writing -= 1;
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        entry.writing = false;
        let key = entry.pod.item.key().clone();
        match result {
            Ok(mirror) => {
                (entry.failures, entry.hold) = (0, None);
                match mirror {
                    Some(mirror) => self.statics.mirrors.insert(key, mirror),
                    None => self.statics.mirrors.remove(&key),
                };
                self.touch(uid, now);
            }
            Err(status) => self.failed(uid, &status, now),
        }
    }

    /// Deletes mirrors without a manifest, once their pods have ended.
    pub(super) fn retire(&mut self) {
        if !self.cache.is_synced() || !self.statics.read {
            return;
        }
        let unwanted = |key: &Key| !self.statics.wanted.contains_key(key) && self.static_named(key).is_none();
        let idle = |key: &Key| !self.statics.retiring.contains(key);
        let mirrors = self.statics.mirrors.iter().filter(|(key, _)| idle(key) && unwanted(key));
        let mirrors: Vec<(Key, Str)> = mirrors.map(|(key, mirror)| (key.clone(), mirror.uid.clone())).collect();
        for (key, uid) in mirrors {
            self.statics.retiring.insert(key.clone());
            let (parts, pods) = (self.parts.clone(), self.resources.pods);
            self.work.push(Box::pin(async move {
                let options = DeleteOptions::uid(uid.clone()).grace(0);
                let result = parts.client.delete(pods, &key.namespace, &key.name, options).await;
                Done::Retired { key, uid, result: absent_is_deleted(result.map(|_| ())) }
            }));
        }
    }

    /// Handles the deletion of a mirror without a manifest. After a failure the next check of the Node tries again.
    pub(super) fn retired(&mut self, key: &Key, uid: &Str, result: Result<(), Status>) {
        self.statics.retiring.remove(key);
        match result {
            Ok(()) if self.statics.mirrors.get(key).is_some_and(|mirror| mirror.uid == *uid) => {
                self.statics.mirrors.remove(key);
            }
            Ok(()) => {}
            Err(status) => {
                tracing::warn!(node = %self.parts.config.name, pod = %key, %status, "mirror pod not deleted");
            }
        }
    }
}

/// Counts the absence of a pod, or another pod of its name, as a successful deletion.
fn absent_is_deleted(result: Result<(), Status>) -> Result<(), Status> {
    result.or_else(|status| if status.is_not_found() || status.is_conflict() { Ok(()) } else { Err(status) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_shows_this_manifest_or_makes_way() {
        let mirror =
            |hash: &str, deleting| Mirror { uid: "u".into(), hash: hash.into(), deleting, generation: 1, revision: 5 };
        assert_eq!(mirror_action("a", None), MirrorAction::Create);
        assert_eq!(mirror_action("a", Some(&mirror("a", false))), MirrorAction::Nothing);
        assert_eq!(mirror_action("a", Some(&mirror("a", true))), MirrorAction::Delete);
        assert_eq!(mirror_action("a", Some(&mirror("b", false))), MirrorAction::Delete);
    }
}
