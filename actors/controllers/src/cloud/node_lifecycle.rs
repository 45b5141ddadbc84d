//! cloud-node-lifecycle-controller: deletes a node that is not ready if its machine does not exist, and taints the node while the machine is shut down
//! (upstream `k8s.io/cloud-provider/controllers/nodelifecycle`).

mod plan;
mod settings;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_client::DeleteOptions;
use oarlock_informer::{Item, Key, Reconcile, Requeue};
use oarlock_meta::Status;
use oarlock_runtime::Failure;
use oarlock_schema::Obj;

use crate::cloud::provider::{CallError, Cloud};
use crate::error::Error;
use crate::harness::{Concurrency, Env, Reconciled, Requirement, Row, Spread};
use crate::project::CloudNode;

use crate::write;
use plan::{SHUTDOWN, Step, Verdict};
pub use settings::CloudNodeLifecycleSettings;

pub(crate) const ROW: Row = Row {
    name: "cloud-node-lifecycle-controller",
    aliases: &["cloud-node-lifecycle"],
    account: "node-controller",
    component: "cloud-node-lifecycle-controller",
    workers: Concurrency::fixed(4),
    spread: Spread::Cloud,
    why: "one process at a time speaks to the cloud",
    on_by_default: true,
    gate: None,
    needs: &[Requirement::Cloud],
    start: |env| start(env).boxed(),
};

struct Lifecycle {
    env: Env,
    cloud: Cloud,
    nodes: Reconciled<CloudNode>,
    settings: CloudNodeLifecycleSettings,
}

async fn start(env: Env) -> Result<(), Error> {
    let (nodes, shell) = (Reconciled::<CloudNode>::open(&env).await?, env.shell());
    let this = Lifecycle { cloud: env.cloud()?, settings: env.settings(), env, nodes: nodes.clone() };
    shell.spawn(nodes.controller(&shell, this)).await
}

#[async_trait]
impl Reconcile for Lifecycle {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(node) = self.nodes.get(key) else { return Ok(Requeue::No) };
        match plan::step(&node, write::now()) {
            Step::Nothing => Ok(Requeue::No),
            Step::Untaint => {
                self.change(&node, |object| write::remove_taint(object, SHUTDOWN)).await?;
                Ok(Requeue::No)
            }
            Step::Wait(time) => Ok(Requeue::After(time)),
            Step::Ask => {
                let instance = match self.cloud.instance(node.meta.name(), &node.value.provider_id).await {
                    Ok(instance) => instance,
                    Err(CallError::NotPermitted(_)) => return Ok(Requeue::After(self.settings.node_monitor_period)),
                    Err(CallError::Provider(error)) => {
                        return Err(format!("error checking if node {} exists: {error}", node.meta.name()).into());
                    }
                };
                match plan::verdict(&node.value, instance.as_ref()) {
                    Verdict::Wait => {}
                    Verdict::Taint => {
                        self.change(&node, |object| write::add_taint(object, SHUTDOWN, "NoSchedule")).await?
                    }
                    Verdict::Delete => self.delete(&node).await?,
                }
                Ok(Requeue::After(self.settings.node_monitor_period))
            }
        }
    }
}

impl Lifecycle {
    async fn change(&self, node: &Item<CloudNode>, change: impl FnOnce(&mut Obj)) -> Result<(), Status> {
        let written = write::update(&self.env.client, self.nodes.resource, "", &node.meta, change).await?;
        self.nodes.wrote(node, written.revision);
        Ok(())
    }

    async fn delete(&self, node: &Item<CloudNode>) -> Result<(), Status> {
        let (about, name) = (write::about(self.nodes.resource, &node.meta), node.meta.name());
        let message = format!("Deleting node {name} because it does not exist in the cloud provider");
        self.env.recorder.normal(&about, "DeletingNode", message);
        // Precondition on the revision: a node that has become ready since is not deleted.
        let only =
            DeleteOptions { resource_version: Some(node.meta.revision), ..DeleteOptions::uid(node.meta.uid.0.clone()) };
        match self.env.client.delete(self.nodes.resource, "", name, only).await {
            Ok(_) => {
                self.nodes.own.deleted(node.key(), &self.nodes.cache, node.key().clone(), node.meta.uid.clone());
                Ok(())
            }
            Err(status) if status.is_not_found() => Ok(()),
            Err(status) if status.is_conflict() => Err(status),
            Err(status) => {
                let message = format!("Failed deleting node {name}: {status}");
                self.env.recorder.warning(&about, "DeletingNodeFailed", message);
                Err(status)
            }
        }
    }
}
