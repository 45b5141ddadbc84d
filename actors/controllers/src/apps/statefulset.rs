//! statefulset-controller: gives each ordinal of a StatefulSet its pod and its claims (upstream `pkg/controller/statefulset`).
//!
//! A reconcile finds the revisions of the set's templates (`revisions.rs`), plans over the caches (`plan.rs`), takes the planned actions (`act.rs`), and
//! writes the status. Pods and claims have fixed names, so the API server refuses a second pod of an ordinal whatever the caches show.

mod act;
mod claim_act;
mod claims;
mod members;
mod objects;
mod plan;
mod revisions;
mod roll;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_informer::{Cache, Change, Item, Key, Project, Reconcile, Requeue, ResourceName, Selection};
use oarlock_runtime::Failure;
use oarlock_schema::Resource;

use crate::controller_ref::{Candidates, Claims, claim, claim_if};
use crate::error::Error;
use crate::harness::{Concurrency, Env, Reconciled, Row, Spread, must};
use crate::project::{ControllerRevision, PodView, StatefulSet};
use crate::write;

use revisions::SameTemplates;
use snapshot::Snapshot;

pub(crate) const ROW: Row = Row {
    name: "statefulset-controller",
    aliases: &["statefulset"],
    account: "statefulset-controller",
    component: "statefulset-controller",
    workers: Concurrency::flag("concurrent-statefulset-syncs", 16),
    spread: Spread::Key,
    why: "a stateful set's pods are decided on its own",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

const CLAIMS: ResourceName = ResourceName::core("persistentvolumeclaims");
/// The gate of `spec.updateStrategy.rollingUpdate.maxUnavailable`.
const MAX_UNAVAILABLE: &str = "MaxUnavailableStatefulSet";
/// The feature gates that change what the controller does.
pub(crate) const GATES: &[&str] = &[MAX_UNAVAILABLE, revisions::SEMANTIC_COMPARISON];

pub(crate) struct StatefulSets {
    env: Env,
    sets: Reconciled<StatefulSet>,
    pods: Arc<Cache<PodView>>,
    claims: Arc<Cache<()>>,
    revisions: Arc<Cache<ControllerRevision>>,
    pods_of: Candidates<PodView>,
    revisions_of: Candidates<ControllerRevision>,
    same_templates: SameTemplates,
    pod: &'static Resource,
    claim: &'static Resource,
    revision: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let sets = Reconciled::<StatefulSet>::open(&env).await?;
    let pods = env.informers.all::<PodView>().await?;
    let revisions = env.informers.all::<ControllerRevision>().await?;
    let claim = must(CLAIMS)?;
    let claims = env.informers.of::<()>(claim, Selection::default()).await?;
    let shell = env.shell();
    let this = StatefulSets {
        env,
        sets: sets.clone(),
        pods: pods.clone(),
        claims: claims.clone(),
        revisions: revisions.clone(),
        pods_of: Candidates::of(&pods),
        revisions_of: Candidates::of(&revisions),
        same_templates: SameTemplates::default(),
        pod: must(PodView::RESOURCE)?,
        claim,
        revision: must(ControllerRevision::RESOURCE)?,
    };
    let (for_orphans, for_claims) = (sets.cache.clone(), sets.cache.clone());
    let controller = sets
        .controller(&shell, this)
        .owns(&pods, "StatefulSet")
        .owns(&revisions, "StatefulSet")
        .watches(&pods, move |change, enqueue| wanted_by(&for_orphans, change, enqueue))
        .watches(&claims, move |change, enqueue| claimed_by(&for_claims, change, enqueue));
    shell.spawn(controller).await
}

/// Enqueues the StatefulSets that might adopt a pod without a controller.
fn wanted_by(sets: &Cache<StatefulSet>, change: &Change<PodView>, enqueue: &mut dyn FnMut(Key)) {
    let Some(pod) = change.new.as_ref().filter(|pod| pod.meta.controller().is_none() && !pod.meta.deleting()) else {
        return;
    };
    for set in sets.in_namespace(pod.meta.namespace()) {
        let selected = set.value.selector.as_ref().is_some_and(|selector| selector.matches(&*pod.meta.labels));
        if selected && members::ordinal(set.meta.name(), pod.meta.name()).is_some() {
            enqueue(set.key().clone());
        }
    }
}

/// Enqueues the StatefulSets whose pods a claim is for: a pod may wait for the claim, or for the claim's deletion.
fn claimed_by(sets: &Cache<StatefulSet>, change: &Change<()>, enqueue: &mut dyn FnMut(Key)) {
    for set in sets.in_namespace(&change.key.namespace) {
        if claims::is_of(&set, &change.key.name) {
            enqueue(set.key().clone());
        }
    }
}

#[async_trait]
impl Reconcile for StatefulSets {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(set) = self.sets.get(key) else {
            self.same_templates.forget(key);
            return Ok(Requeue::No);
        };
        let Some(selector) = &set.value.selector else { return Ok(Requeue::No) };
        let is_member = |pod: &Item<PodView>| members::ordinal(set.meta.name(), pod.meta.name()).is_some();
        let pods = claim_if(&set.meta, Some(selector), self.pods_of.get(&set.meta), is_member);
        // A revision that the selector does not match any more stays the set's, so that it is deleted with the set.
        let revisions =
            Claims { release: Vec::new(), ..claim(&set.meta, Some(selector), self.revisions_of.get(&set.meta)) };
        if !pods.is_settled() || !revisions.is_settled() {
            let (client, owner) = (&self.env.client, (self.sets.resource, &set.meta));
            pods.settle(client, owner, self.pod, |at| self.sets.own.wrote(key, &self.pods, at)).await?;
            revisions.settle(client, owner, self.revision, |at| self.sets.own.wrote(key, &self.revisions, at)).await?;
            // The key is reconciled again when the caches show the new owners.
            return Ok(Requeue::After(Duration::ZERO));
        }
        self.sync(&set, &pods.mine, &revisions.mine).await
    }
}

impl StatefulSets {
    async fn sync(
        &self,
        set: &Item<StatefulSet>,
        pods: &[Arc<Item<PodView>>],
        revisions: &[Arc<Item<ControllerRevision>>],
    ) -> Result<Requeue, Failure> {
        let names = self.revision_names(set, revisions).await?;
        let mut plan = plan::plan(&Snapshot {
            set,
            pods,
            names: &names,
            claim: &|name| self.claims.named(set.meta.namespace(), name),
            counts_unavailable: self.env.features.enabled(MAX_UNAVAILABLE),
            now: write::now(),
        });
        let (replaced, failure) = self.perform(set, &names, &plan).await;
        plan.status.current -= replaced;
        status::complete(&mut plan.status, &set.value);
        let reported = self.report(set, &plan.status).await;
        let trimmed = self.trim_history(set, &names, pods, revisions).await;
        failure.map_or(Ok(()), Err).and(reported).and(trimmed)?;
        Ok(plan.again.map_or(Requeue::No, Requeue::After))
    }
}
