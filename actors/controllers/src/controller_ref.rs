//! Adoption and release of objects by the selector of their owner (upstream `ControllerRefManager`).

use std::sync::Arc;

use oarlock_client::Client;
use oarlock_informer::{Cache, Change, Index, Item, Key, ObjMeta};
use oarlock_meta::{LabelSelector, Revision, Status};
use oarlock_schema::Resource;

use crate::write;

/// The objects that an owner controls, can adopt, and must release.
#[derive(Debug)]
pub(crate) struct Claims<T> {
    /// The objects that the owner controls and selects, in key order.
    pub(crate) mine: Vec<Arc<Item<T>>>,
    /// The selected objects without a controller, to be adopted.
    pub(crate) adopt: Vec<Arc<Item<T>>>,
    /// The controlled objects that the selector does not match any more, to be released.
    pub(crate) release: Vec<Arc<Item<T>>>,
}

impl<T: Send + Sync> Claims<T> {
    /// Whether nothing must be adopted or released.
    pub(crate) fn is_settled(&self) -> bool {
        self.adopt.is_empty() && self.release.is_empty()
    }

    /// Adopts and releases objects of `resource` for their owner; calls `wrote` with the revision of each write.
    ///
    /// # Errors
    /// The server's Status; no error for objects that are deleted.
    pub(crate) async fn settle(
        &self,
        client: &Client,
        (kind, owner): (&'static Resource, &ObjMeta),
        resource: &'static Resource,
        wrote: impl Fn(Revision) + Send + Sync,
    ) -> Result<(), Status> {
        if !self.adopt.is_empty() {
            // The cache may not show the owner's deletion yet, so the API server is asked before objects are adopted.
            write::current(client, kind, owner).await?;
        }
        let taken = write::all(self.adopt.iter().map(|item| {
            let reference = write::owner(kind, owner);
            async move {
                match write::adopt(client, resource, &item.meta, reference).await {
                    Ok(object) => Ok(Some(object)),
                    Err(status) if status.is_not_found() => Ok(None),
                    Err(status) => Err(status),
                }
            }
        }))
        .await;
        let uid = owner.uid.as_str();
        let left = self.release.iter().map(|item| write::release(client, resource, &item.meta, uid));
        let left = write::all(left).await;
        for answer in taken.into_iter().chain(left) {
            if let Some(object) = answer? {
                wrote(object.revision);
            }
        }
        Ok(())
    }
}

/// Sorts candidates, which are the objects controlled by `owner` and the objects without a controller.
pub(crate) fn claim<T>(
    owner: &ObjMeta,
    selector: Option<&LabelSelector>,
    candidates: impl IntoIterator<Item = Arc<Item<T>>>,
) -> Claims<T> {
    claim_if(owner, selector, candidates, |_| true)
}

/// Sorts candidates as [`claim`] does, but an object for which `fits` returns false counts as not selected.
pub(crate) fn claim_if<T>(
    owner: &ObjMeta,
    selector: Option<&LabelSelector>,
    candidates: impl IntoIterator<Item = Arc<Item<T>>>,
    fits: impl Fn(&Item<T>) -> bool,
) -> Claims<T> {
    let mut claims = Claims { mine: Vec::new(), adopt: Vec::new(), release: Vec::new() };
    for item in candidates {
        let selected = selector.is_some_and(|selector| selector.matches(&*item.meta.labels)) && fits(&item);
        match item.meta.controller() {
            Some(controller) if controller.uid != owner.uid => {}
            Some(_) if selected => claims.mine.push(item),
            Some(_) if !owner.deleting() => claims.release.push(item),
            None if selected && !owner.deleting() && !item.meta.deleting() => claims.adopt.push(item),
            Some(_) | None => {}
        }
    }
    claims
}

/// Enqueues the owners that might adopt a changed object, if the object has no controller: those of its namespace that select it.
pub(crate) fn enqueue_adopters<T, O: Send + Sync + 'static>(
    owners: &Cache<O>,
    selector: impl Fn(&O) -> Option<&LabelSelector>,
    change: &Change<T>,
    enqueue: &mut dyn FnMut(Key),
) {
    let orphan = change.new.as_ref().filter(|item| item.meta.controller().is_none() && !item.meta.deleting());
    let Some(orphan) = orphan else { return };
    for owner in owners.in_namespace(orphan.meta.namespace()) {
        if selector(&owner.value).is_some_and(|selector| selector.matches(&*orphan.meta.labels)) {
            enqueue(owner.key().clone());
        }
    }
}

/// Indexes that find the candidates of an owner without a scan of the cache.
#[derive(Clone, Debug)]
pub(crate) struct Candidates<T> {
    owned: Index<T>,
    orphans: Index<T>,
}

impl<T: Send + Sync + 'static> Candidates<T> {
    /// Creates the indexes of a cache.
    pub(crate) fn of(cache: &Arc<Cache<T>>) -> Self {
        let orphans = cache.index("orphans by namespace", |item, value| {
            if item.meta.controller().is_none() {
                value(item.meta.namespace());
            }
        });
        Self { owned: cache.by_controller(), orphans }
    }

    /// Returns the objects that `owner` controls or might adopt.
    pub(crate) fn get(&self, owner: &ObjMeta) -> Vec<Arc<Item<T>>> {
        let mut all = self.owned.get(owner.uid.as_str());
        all.extend(self.orphans.get(owner.namespace()));
        all
    }

    /// Returns the objects that the owner `uid` controls.
    pub(crate) fn owned(&self, uid: &str) -> Vec<Arc<Item<T>>> {
        self.owned.get(uid)
    }
}

#[cfg(test)]
mod tests {
    use oarlock_informer::OwnerRef;
    use oarlock_meta::Uid;

    use super::*;

    fn item(name: &str, labels: &[(&str, &str)], controller: &str) -> Arc<Item<()>> {
        let owner = |uid: &str| OwnerRef {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "o".into(),
            uid: Uid::from(uid),
            controller: true,
            block_deletion: true,
        };
        let meta = ObjMeta {
            key: Key::new("ns", name),
            uid: Uid::from(name),
            labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            owners: if controller.is_empty() { Box::default() } else { Box::new([owner(controller)]) },
            ..ObjMeta::default()
        };
        Arc::new(Item { meta, value: () })
    }

    fn names(items: &[Arc<Item<()>>]) -> Vec<&str> {
        items.iter().map(|item| item.meta.name()).collect()
    }

    #[test]
    fn takes_orphans_keeps_its_own_releases_strays_and_leaves_others_alone() {
        let owner = ObjMeta { uid: Uid::from("me"), ..ObjMeta::default() };
        let selector = LabelSelector::from_labels([("app", "web")]);
        let web = [("app", "web")];
        let all =
            [item("mine", &web, "me"), item("stray", &[], "me"), item("orphan", &web, ""), item("theirs", &web, "you")];
        let claims = claim(&owner, Some(&selector), all.clone());
        assert_eq!(names(&claims.mine), ["mine"]);
        assert_eq!(names(&claims.adopt), ["orphan"]);
        assert_eq!(names(&claims.release), ["stray"]);
        let fitting = claim_if(&owner, Some(&selector), all.clone(), |item| item.meta.name() != "mine");
        assert!(fitting.mine.is_empty() && names(&fitting.adopt) == ["orphan"]);
        assert_eq!(names(&fitting.release), ["mine", "stray"]);
        let nothing = claim(&owner, None, all);
        assert!(nothing.mine.is_empty() && nothing.adopt.is_empty() && nothing.release.len() == 2);
    }

    #[test]
    fn a_dying_owner_neither_takes_nor_releases() {
        let owner =
            ObjMeta { uid: Uid::from("me"), deletion: Some(oarlock_meta::Time::from_unix(1)), ..ObjMeta::default() };
        let selector = LabelSelector::from_labels([("app", "web")]);
        let claims = claim(&owner, Some(&selector), [item("stray", &[], "me"), item("orphan", &[("app", "web")], "")]);
        assert!(claims.mine.is_empty() && claims.adopt.is_empty() && claims.release.is_empty());
    }
}
