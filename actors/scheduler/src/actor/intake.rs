//! Feeds changes from the informers to the engine.
//!
//! Notices are level-triggered: only the current state counts. After a `Resync`, every object that the engine knows and
//! the cache does not is treated as deleted.

use std::sync::Arc;

use oarlock_informer::{Cache, CacheRevision, Change, Changes, Item, Notice, Project, SharedInformers};
use oarlock_mesh::Scope;
use oarlock_runtime::Failure;

use crate::engine::Engine;
use crate::intern::{Interner, Sym};
use crate::map::Set;
use crate::model::{PodInfo, Uid};
use crate::project::{
    BudgetView, DeviceClaimView, DeviceClassView, NamespaceView, NodeView, PodView, ReplicaSetView,
    ReplicationControllerView, SelectorOf, ServiceView, StatefulSetView, StorageClassView, VolumeClaimView, VolumeView,
};
use crate::queue::Stamp;

use super::duties::Parts;
use super::names::namespace;

/// Bound of pending changed keys per resource; a subscriber that falls further behind gets a `Resync` instead.
const CHANGES_CAPACITY: usize = 1 << 16;

/// One resource's cache with the subscription to its changes.
struct Subscription<T> {
    cache: Arc<Cache<T>>,
    changes: Changes<T>,
}

impl<T: Project> Subscription<T> {
    async fn open(informers: &SharedInformers) -> Result<Self, Failure> {
        let cache = informers.all::<T>().await?;
        let changes = cache.subscribe(CHANGES_CAPACITY);
        Ok(Self { cache, changes })
    }
}

/// A notice of changes, by resource.
pub(super) enum News {
    Namespaces(Notice<NamespaceView>),
    Nodes(Notice<NodeView>),
    Services(Notice<ServiceView>),
    ReplicaSets(Notice<ReplicaSetView>),
    StatefulSets(Notice<StatefulSetView>),
    ReplicationControllers(Notice<ReplicationControllerView>),
    Budgets(Notice<BudgetView>),
    StorageClasses(Notice<StorageClassView>),
    DeviceClasses(Notice<DeviceClassView>),
    Volumes(Notice<VolumeView>),
    VolumeClaims(Notice<VolumeClaimView>),
    DeviceClaims(Notice<DeviceClaimView>),
    Pods(Notice<PodView>),
}

/// The subscriptions to every resource that the scheduler reads.
pub(super) struct Intake {
    names: Set<Sym>,
    shards: Scope,
    /// The shards whose pods this process queues.
    parts: Parts,
    namespaces: Subscription<NamespaceView>,
    nodes: Subscription<NodeView>,
    services: Subscription<ServiceView>,
    replica_sets: Subscription<ReplicaSetView>,
    stateful_sets: Subscription<StatefulSetView>,
    replication_controllers: Subscription<ReplicationControllerView>,
    budgets: Subscription<BudgetView>,
    storage_classes: Subscription<StorageClassView>,
    device_classes: Subscription<DeviceClassView>,
    volumes: Subscription<VolumeView>,
    volume_claims: Subscription<VolumeClaimView>,
    device_claims: Subscription<DeviceClaimView>,
    pods: Subscription<PodView>,
}

impl Intake {
    /// Opens the informers; `names` are the values of `spec.schedulerName` that this scheduler serves.
    pub(super) async fn open(informers: &SharedInformers, names: &[String]) -> Result<Self, Failure> {
        Ok(Self {
            names: names.iter().map(|name| Interner::process().intern(name)).collect(),
            shards: crate::shards(),
            parts: Parts::default(),
            namespaces: Subscription::open(informers).await?,
            nodes: Subscription::open(informers).await?,
            services: Subscription::open(informers).await?,
            replica_sets: Subscription::open(informers).await?,
            stateful_sets: Subscription::open(informers).await?,
            replication_controllers: Subscription::open(informers).await?,
            budgets: Subscription::open(informers).await?,
            storage_classes: Subscription::open(informers).await?,
            device_classes: Subscription::open(informers).await?,
            volumes: Subscription::open(informers).await?,
            volume_claims: Subscription::open(informers).await?,
            device_claims: Subscription::open(informers).await?,
            pods: Subscription::open(informers).await?,
        })
    }

    /// Returns the caches of all resources.
    pub(super) fn caches(&self) -> Vec<Arc<dyn CacheRevision>> {
        vec![
            self.namespaces.cache.clone(),
            self.nodes.cache.clone(),
            self.services.cache.clone(),
            self.replica_sets.cache.clone(),
            self.stateful_sets.cache.clone(),
            self.replication_controllers.cache.clone(),
            self.budgets.cache.clone(),
            self.storage_classes.cache.clone(),
            self.device_classes.cache.clone(),
            self.volumes.cache.clone(),
            self.volume_claims.cache.clone(),
            self.device_claims.cache.clone(),
            self.pods.cache.clone(),
        ]
    }

    /// Returns the cache of pods.
    pub(super) fn pods(&self) -> Arc<Cache<PodView>> {
        Arc::clone(&self.pods.cache)
    }

    /// Returns the next pending notice, if any. Pods come last, so that the objects they refer to are known first.
    pub(super) fn try_next(&mut self) -> Option<News> {
        let namespaces = self.namespaces.changes.try_next().map(News::Namespaces);
        namespaces
            .or_else(|| self.nodes.changes.try_next().map(News::Nodes))
            .or_else(|| self.services.changes.try_next().map(News::Services))
            .or_else(|| self.replica_sets.changes.try_next().map(News::ReplicaSets))
            .or_else(|| self.stateful_sets.changes.try_next().map(News::StatefulSets))
            .or_else(|| self.replication_controllers.changes.try_next().map(News::ReplicationControllers))
            .or_else(|| self.budgets.changes.try_next().map(News::Budgets))
            .or_else(|| self.storage_classes.changes.try_next().map(News::StorageClasses))
            .or_else(|| self.device_classes.changes.try_next().map(News::DeviceClasses))
            .or_else(|| self.volumes.changes.try_next().map(News::Volumes))
            .or_else(|| self.volume_claims.changes.try_next().map(News::VolumeClaims))
            .or_else(|| self.device_claims.changes.try_next().map(News::DeviceClaims))
            .or_else(|| self.pods.changes.try_next().map(News::Pods))
    }

    /// Waits for the next notice. Cancel safe.
    pub(super) async fn next(&mut self) -> News {
        tokio::select! {
            biased;
            notice = self.namespaces.changes.next() => News::Namespaces(notice),
            notice = self.nodes.changes.next() => News::Nodes(notice),
            notice = self.services.changes.next() => News::Services(notice),
            notice = self.replica_sets.changes.next() => News::ReplicaSets(notice),
            notice = self.stateful_sets.changes.next() => News::StatefulSets(notice),
            notice = self.replication_controllers.changes.next() => News::ReplicationControllers(notice),
            notice = self.budgets.changes.next() => News::Budgets(notice),
            notice = self.storage_classes.changes.next() => News::StorageClasses(notice),
            notice = self.device_classes.changes.next() => News::DeviceClasses(notice),
            notice = self.volumes.changes.next() => News::Volumes(notice),
            notice = self.volume_claims.changes.next() => News::VolumeClaims(notice),
            notice = self.device_claims.changes.next() => News::DeviceClaims(notice),
            notice = self.pods.changes.next() => News::Pods(notice),
        }
    }

    /// Applies a notice to the engine.
    pub(super) fn apply(&self, engine: &mut Engine, news: News, now: Stamp) {
        match news {
            News::Namespaces(notice) => namespaces(engine, &self.namespaces.cache, notice),
            News::Nodes(notice) => nodes(engine, &self.nodes.cache, notice, now),
            News::Services(notice) => services(engine, &self.services.cache, notice),
            News::ReplicaSets(notice) => owners(engine, &self.replica_sets.cache, notice),
            News::StatefulSets(notice) => owners(engine, &self.stateful_sets.cache, notice),
            News::ReplicationControllers(notice) => owners(engine, &self.replication_controllers.cache, notice),
            News::Budgets(notice) => budgets(engine, &self.budgets.cache, notice),
            News::StorageClasses(notice) => storage_classes(engine, &self.storage_classes.cache, notice, now),
            News::DeviceClasses(notice) => device_classes(engine, &self.device_classes.cache, notice, now),
            News::Volumes(notice) => volumes(engine, &self.volumes.cache, notice, now),
            News::VolumeClaims(notice) => volume_claims(engine, &self.volume_claims.cache, notice, now),
            News::DeviceClaims(notice) => device_claims(engine, &self.device_claims.cache, notice, now),
            News::Pods(notice) => self.apply_pods(engine, notice, now),
        }
    }

    fn apply_pods(&self, engine: &mut Engine, notice: Notice<PodView>, now: Stamp) {
        match notice {
            Notice::Resync => {
                let items = self.pods.cache.list();
                let present: Set<&Uid> = items.iter().map(|item| &item.value.info.uid).collect();
                for uid in engine.known_pods().into_iter().filter(|uid| !present.contains(uid)) {
                    engine.on_pod_gone(&uid, now);
                }
                items.iter().for_each(|item| self.pod(engine, item, now));
            }
            Notice::Changes(changes) => {
                for change in changes {
                    let next = change.new.as_ref().map(|item| &item.value.info.uid);
                    if let Some(old) = change.old.as_ref().filter(|old| Some(&old.value.info.uid) != next) {
                        engine.on_pod_gone(&old.value.info.uid, now);
                    }
                    if let Some(new) = &change.new {
                        self.pod(engine, new, now);
                    }
                }
            }
        }
    }

    fn pod(&self, engine: &mut Engine, item: &Item<PodView>, now: Stamp) {
        let info = &item.value.info;
        if item.value.ended {
            engine.on_pod_gone(&info.uid, now);
        } else {
            let served = self.is_served(info);
            let ours = served && self.parts.has(self.part(info));
            // Nominations of pods that other schedulers serve are ignored.
            let foreign = info.nominated.is_some() && !served;
            let info =
                if foreign { Arc::new(PodInfo { nominated: None, ..(**info).clone() }) } else { Arc::clone(info) };
            engine.on_pod(info, ours, now);
        }
    }

    /// The shards whose pods this process queues.
    pub(super) fn parts(&self) -> Parts {
        self.parts
    }

    /// Whether a pod names a scheduler that this process serves.
    pub(super) fn is_served(&self, pod: &PodInfo) -> bool {
        self.names.contains(&pod.scheduler)
    }

    fn part(&self, pod: &PodInfo) -> usize {
        self.shards.part(&namespace(pod), &pod.name)
    }

    /// Queues the pods of exactly these shards from now on.
    pub(super) fn queue_only(&mut self, engine: &mut Engine, parts: Parts, now: Stamp) {
        let before = std::mem::replace(&mut self.parts, parts);
        if before == parts {
            return;
        }
        let queued = engine.queue.pods().filter(|pod| !parts.has(self.part(pod)));
        for uid in queued.map(|pod| Arc::clone(&pod.uid)).collect::<Vec<_>>() {
            engine.queue.remove(&uid);
        }
        for item in self.pods.cache.list() {
            let part = self.part(&item.value.info);
            if parts.has(part) && !before.has(part) {
                self.pod(engine, &item, now);
            }
        }
    }

    /// Applies the cached state of a pod to the engine again.
    pub(super) fn remind(&self, engine: &mut Engine, pod: &PodInfo, now: Stamp) {
        let known = self.pods.cache.named(&namespace(pod), &pod.name);
        if let Some(item) = known.filter(|item| item.value.info.uid == pod.uid) {
            self.pod(engine, &item, now);
        }
    }
}

/// Namespace, name and current state of an object; `None` when the object is deleted.
type Current<T> = (Sym, Sym, Option<Arc<Item<T>>>);

/// Returns the changes of a notice as (namespace, name, current state). For a resync these are all cached objects, and
/// `None` for each key in `known` that is no longer cached.
fn states<T: Project>(cache: &Cache<T>, notice: Notice<T>, known: impl FnOnce() -> Vec<(Sym, Sym)>) -> Vec<Current<T>> {
    let names = Interner::process();
    let symbols = |key: &oarlock_informer::Key| (names.intern(&key.namespace), names.intern(&key.name));
    match notice {
        Notice::Resync => {
            let items = cache.list();
            let present: Set<(Sym, Sym)> = items.iter().map(|item| symbols(item.key())).collect();
            let deleted = known().into_iter().filter(|key| !present.contains(key)).map(|key| (key.0, key.1, None));
            let listed = items.into_iter().map(|item| {
                let (namespace, name) = symbols(item.key());
                (namespace, name, Some(item))
            });
            deleted.chain(listed).collect()
        }
        Notice::Changes(changes) => changes
            .into_iter()
            .map(|Change { key, new, .. }| {
                let (namespace, name) = symbols(&key);
                (namespace, name, new)
            })
            .collect(),
    }
}

fn namespaces(engine: &mut Engine, cache: &Cache<NamespaceView>, notice: Notice<NamespaceView>) {
    let known = || engine.cluster.counts.known_namespaces().into_iter().map(|name| (Sym::EMPTY, name)).collect();
    for (_, name, item) in states(cache, notice, known) {
        engine.cluster.set_namespace(name, item.map(|item| item.value.0.clone()));
    }
}

fn nodes(engine: &mut Engine, cache: &Cache<NodeView>, notice: Notice<NodeView>, now: Stamp) {
    let live = |engine: &Engine| engine.cluster.nodes.live.iter().map(|node| engine.cluster.nodes.name(node)).collect();
    let known: Vec<Sym> = live(engine);
    let known = || known.into_iter().map(|name| (Sym::EMPTY, name)).collect();
    for (_, name, item) in states(cache, notice, known) {
        match item {
            Some(item) => engine.on_node(item.value.0.clone(), now),
            None => engine.on_node_gone(name, now),
        }
    }
}

fn budgets(engine: &mut Engine, cache: &Cache<BudgetView>, notice: Notice<BudgetView>) {
    let known = engine.cluster.budgets.known();
    for (namespace, name, item) in states(cache, notice, || known) {
        engine.cluster.budgets.set(namespace, name, item.map(|item| item.value.0.clone()));
    }
}

fn storage_classes(engine: &mut Engine, cache: &Cache<StorageClassView>, notice: Notice<StorageClassView>, now: Stamp) {
    let known = engine.cluster.claims.storage_classes();
    for (_, name, item) in states(cache, notice, || known) {
        let waits = item.map(|item| item.value.0);
        engine.on_claim_source(|claims| claims.set_storage_class(name, waits), now);
    }
}

fn device_classes(engine: &mut Engine, cache: &Cache<DeviceClassView>, notice: Notice<DeviceClassView>, now: Stamp) {
    let known = engine.cluster.claims.device_classes();
    for (_, name, item) in states(cache, notice, || known) {
        engine.on_claim_source(|claims| claims.set_device_class(name, item.is_some()), now);
    }
}

fn volumes(engine: &mut Engine, cache: &Cache<VolumeView>, notice: Notice<VolumeView>, now: Stamp) {
    let known = engine.cluster.claims.volumes();
    for (_, name, item) in states(cache, notice, || known) {
        let nodes = item.map(|item| item.value.0.clone());
        engine.on_claim_source(|claims| claims.set_volume(name, nodes), now);
    }
}

fn volume_claims(engine: &mut Engine, cache: &Cache<VolumeClaimView>, notice: Notice<VolumeClaimView>, now: Stamp) {
    let known = engine.cluster.claims.volume_claims();
    for (namespace, name, item) in states(cache, notice, || known) {
        let (at, claim) = ((namespace, name), item.map(|item| item.value.0.clone()));
        engine.on_claim(at, |claims| claims.set_volume_claim(at, claim), now);
    }
}

fn device_claims(engine: &mut Engine, cache: &Cache<DeviceClaimView>, notice: Notice<DeviceClaimView>, now: Stamp) {
    let known = engine.cluster.claims.device_claims();
    for (namespace, name, item) in states(cache, notice, || known) {
        let (at, claim) = ((namespace, name), item.map(|item| item.value.0.clone()));
        engine.on_claim(at, |claims| claims.set_device_claim(at, claim), now);
    }
}

fn services(engine: &mut Engine, cache: &Cache<ServiceView>, notice: Notice<ServiceView>) {
    let known = engine.cluster.owners.known_services();
    for (namespace, name, item) in states(cache, notice, || known) {
        engine.cluster.owners.set_service(namespace, name, item.and_then(|item| item.value.0.clone()));
    }
}

fn owners<T: SelectorOf>(engine: &mut Engine, cache: &Cache<T>, notice: Notice<T>) {
    let known = engine.cluster.owners.known_owners(T::KIND);
    for (namespace, name, item) in states(cache, notice, || known) {
        let selector = item.map(|item| item.value.selector().clone());
        engine.cluster.owners.set_owner(namespace, T::KIND, name, selector);
    }
}
