//! namespace-controller: deletes the content of a namespace that is being deleted, then removes the finalizer (upstream `pkg/controller/namespace`).

mod act;
mod plan;
#[cfg(test)]
mod tests;

use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_informer::{Key, Project, Reconcile, Requeue};
use oarlock_runtime::Failure;
use oarlock_schema::{RESOURCES, Resource};

use crate::error::Error;
use crate::harness::{Concurrency, Env, Reconciled, Row, Spread, must};
use crate::project::{NamespaceView, PodView};

use crate::write;

pub(crate) const ROW: Row = Row {
    name: "namespace-controller",
    aliases: &["namespace"],
    account: "namespace-controller",
    component: "namespace-controller",
    workers: Concurrency::flag("concurrent-namespace-syncs", 8),
    spread: Spread::Key,
    why: "each namespace is decided on its own",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

/// The finalizer that this controller removes.
const FINALIZER: &str = "kubernetes";

struct Namespaces {
    env: Env,
    namespaces: Reconciled<NamespaceView>,
    pod: &'static Resource,
    /// The namespaced resources that support delete, except pods.
    others: Vec<&'static Resource>,
}

async fn start(env: Env) -> Result<(), Error> {
    let namespaces = Reconciled::<NamespaceView>::open(&env).await?;
    let pods = env.informers.all::<PodView>().await?;
    let shell = env.shell();
    let pod = must(PodView::RESOURCE)?;
    let others = contents().filter(|resource| !std::ptr::eq(*resource, pod)).collect();
    let this = Namespaces { env, namespaces: namespaces.clone(), pod, others };
    let known = namespaces.cache.clone();
    let controller = namespaces.controller(&shell, this).watches(&pods, move |change, enqueue| {
        // Pods are deleted first; the last pod's end lets the rest be deleted.
        let gone = change.new.is_none();
        let key = Key::cluster(change.key.namespace.clone());
        if gone && known.get(&key).is_some_and(|namespace| namespace.meta.deleting()) {
            enqueue(key);
        }
    });
    shell.spawn(controller).await
}

/// Returns the namespaced resources that support delete. Events are served by two groups; deleting through both costs only one more call.
fn contents() -> impl Iterator<Item = &'static Resource> {
    RESOURCES.iter().filter(|resource| resource.namespaced && resource.has_verb("delete") && resource.has_verb("list"))
}

#[async_trait]
impl Reconcile for Namespaces {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(Requeue::No) };
        if !namespace.meta.deleting() || !namespace.value.finalizers.iter().any(|name| name == FINALIZER) {
            return Ok(Requeue::No);
        }
        // Pods before everything else: the objects that pods mount and their ServiceAccounts must outlive the pods.
        let mut found = self.empty(&key.name, &[self.pod]).await;
        if found.iter().all(plan::Remaining::nothing) {
            found.extend(self.empty(&key.name, &self.others).await);
        }
        let conditions = plan::conditions(&namespace.value.conditions, &found, write::now());
        if conditions != namespace.value.conditions {
            self.report(&namespace, &conditions).await?;
            // Reconciles the new revision at once.
            if found.iter().all(plan::Remaining::nothing) {
                return Ok(Requeue::After(Duration::ZERO));
            }
        }
        if found.iter().all(plan::Remaining::nothing) {
            self.finalize(&namespace).await?;
            return Ok(Requeue::No);
        }
        if let Some(status) = found.into_iter().find_map(|left| left.error) {
            return Err(status.into());
        }
        // Only pods are watched; other objects with finalizers must be checked again after a pause.
        Ok(Requeue::After(Duration::from_secs(1)))
    }
}
