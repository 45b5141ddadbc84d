//! The ownership graph: finds the objects of all resources by uid and by owner.

use std::sync::Arc;

use oarlock_informer::{Cache, Index, Item, OwnerRef, Selection, SharedInformers};
use oarlock_schema::{RESOURCES, Resource};
use oarlock_seeded_bug::seeded_bug;

use crate::error::Error;

/// The metadata of an object.
pub(super) type Object = Arc<Item<()>>;

/// The ownership graph over metadata caches of all collected resources.
pub(super) struct Graph {
    nodes: Vec<Node>,
}

struct Node {
    resource: &'static Resource,
    cache: Arc<Cache<()>>,
    by_uid: Index<()>,
    by_owner: Index<()>,
}

/// Returns the collected resources: those that support delete, list and watch. Excluded are Events, which have no owners and own nothing (as upstream),
/// and Assignments, which upstream's servers lack.
fn collected() -> impl Iterator<Item = &'static Resource> {
    RESOURCES.iter().filter(|resource| {
        !matches!((resource.group, resource.plural), (_, "events") | ("oarlock.dev", _))
            && ["delete", "list", "watch"].iter().all(|verb| resource.has_verb(verb))
            && first(resource)
    })
}

/// Whether the resource is the first version of its objects in discovery order.
fn first(resource: &Resource) -> bool {
    let same = |other: &&Resource| other.group == resource.group && other.plural == resource.plural;
    RESOURCES.iter().find(same).is_some_and(|other| other.version == resource.version)
}

/// Returns the resource of a reference's kind, if the kind is served in exactly the reference's version. Another version of the group might define the
/// kind differently, so no other version is tried.
pub(super) fn served(owner: &OwnerRef) -> Option<&'static Resource> {
    let same = |resource: &&Resource| {
        let version = resource.group_version() == owner.api_version.as_str() || seeded_bug!("owner_version_ignored");
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        version && resource.group == group && resource.kind == owner.kind
    };
    RESOURCES.iter().find(same)
}

impl Graph {
    /// Starts an informer for each collected resource.
    pub(super) async fn new(informers: &SharedInformers) -> Result<Self, Error> {
        let mut nodes = Vec::new();
        for resource in collected() {
            let cache = informers.of::<()>(resource, Selection::default()).await?;
            let by_uid = cache.index("uid", |item, value| value(item.meta.uid.as_str()));
            let by_owner = cache.by_owner();
            nodes.push(Node { resource, cache, by_uid, by_owner });
        }
        Ok(Self { nodes })
    }

    /// Returns the caches of all collected resources.
    pub(super) fn caches(&self) -> impl Iterator<Item = &Arc<Cache<()>>> {
        self.nodes.iter().map(|node| &node.cache)
    }

    /// Returns the cache of a resource.
    pub(super) fn cache(&self, resource: &'static Resource) -> Option<&Arc<Cache<()>>> {
        self.nodes.iter().find(|node| std::ptr::eq(node.resource, resource)).map(|node| &node.cache)
    }

    /// Returns the object with a uid.
    pub(super) fn find(&self, uid: &str) -> Option<(&'static Resource, Object)> {
        self.nodes.iter().find_map(|node| Some((node.resource, node.by_uid.get(uid).into_iter().next()?)))
    }

    /// Returns the objects that have the uid as an owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<(&'static Resource, Object)> {
        let of = |node: &'_ Node| {
            let resource = node.resource;
            node.by_owner.get(uid).into_iter().map(move |object| (resource, object))
        };
        self.nodes.iter().flat_map(of).collect()
    }

    /// Returns the resource of a reference's kind; `None` if kind and version are not served.
    pub(super) fn resource(&self, owner: &OwnerRef) -> Option<&'static Resource> {
        let row = served(owner)?;
        let same = |node: &&Node| node.resource.group == row.group && node.resource.plural == row.plural;
        let collected = self.nodes.iter().find(same).map(|node| node.resource);
        // Kinds that are not collected (Events) are in no cache but may own objects; such an owner is always looked up at the API server.
        collected.or_else(|| row.has_verb("get").then_some(row))
    }

    /// Whether the object with the reference's uid is in another namespace than the dependent, which makes the reference invalid.
    pub(super) fn elsewhere(&self, owner: &OwnerRef, namespace: &str) -> bool {
        self.find(owner.uid.as_str())
            .is_some_and(|(resource, object)| resource.namespaced && object.meta.namespace() != namespace)
    }

    /// Returns the owner of a reference from the caches.
    pub(super) fn owner(&self, resource: &'static Resource, namespace: &str, owner: &OwnerRef) -> Option<Object> {
        let node = self.nodes.iter().find(|node| std::ptr::eq(node.resource, resource))?;
        let namespace = if resource.namespaced { namespace } else { "" };
        node.cache.named(namespace, &owner.name).filter(|object| object.meta.uid == owner.uid)
    }
}
