//! cloud-node-controller: initializes new nodes with the cloud's data before they may get pods, and keeps the nodes' addresses current (upstream
//! `k8s.io/cloud-provider/controllers/node`).

mod plan;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_client::Object;
use oarlock_cloud::wire;
use oarlock_informer::{Item, Key, Reconcile, Requeue};
use oarlock_meta::Revision;
use oarlock_runtime::{Failure, Instant, clock};
use oarlock_schema::Value;
use oarlock_schema::views::{View, core_v1};
use parking_lot::Mutex;

use crate::cloud::provider::{CallError, Cloud};
use crate::error::Error;
use crate::harness::{Concurrency, Env, Reconciled, Requirement, Row, Spread};
use crate::project::CloudNode;

use crate::write;
pub use settings::CloudNodeSettings;

pub(crate) const ROW: Row = Row {
    name: "cloud-node-controller",
    aliases: &["cloud-node"],
    account: "node-controller",
    component: "cloud-node-controller",
    workers: Concurrency::flag("concurrent-node-syncs", 4),
    spread: Spread::Cloud,
    why: "one process at a time speaks to the cloud",
    on_by_default: true,
    gate: None,
    needs: &[Requirement::Cloud],
    start: |env| start(env).boxed(),
};

/// The taint of a node that is not initialized. Kubelets with `--cloud-provider=external` register with the taint.
pub(crate) const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// The time after which a process that may not make outside calls tries again.
const PERMIT_RETRY: Duration = Duration::from_secs(1);

struct NodeController {
    env: Env,
    cloud: Cloud,
    nodes: Reconciled<CloudNode>,
    settings: CloudNodeSettings,
    /// The time at which the cloud is asked again about each node.
    due: Mutex<BTreeMap<Key, Instant>>,
}

async fn start(env: Env) -> Result<(), Error> {
    let (nodes, shell) = (Reconciled::<CloudNode>::open(&env).await?, env.shell());
    let (cloud, settings) = (env.cloud()?, env.settings());
    let this = NodeController { env, cloud, nodes: nodes.clone(), settings, due: Mutex::default() };
    shell.spawn(nodes.controller(&shell, this)).await
}

#[async_trait]
impl Reconcile for NodeController {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(node) = self.nodes.get(key) else {
            self.due.lock().remove(key);
            return Ok(Requeue::No);
        };
        let new = node.value.has_taint(UNINITIALIZED);
        let due = self.due.lock().get(key).copied();
        if let Some(due) = due.filter(|due| !new && !due.passed()) {
            return Ok(Requeue::After(due.remaining()));
        }
        let instance = match self.cloud.instance(node.meta.name(), &node.value.provider_id).await {
            Ok(instance) => instance,
            Err(CallError::NotPermitted(_)) => return Ok(Requeue::After(PERMIT_RETRY)),
            Err(CallError::Provider(error)) => return Err(about(&node, &error).into()),
        };
        match instance {
            Some(instance) if new => self.initialize(&node, &instance).await?,
            Some(instance) => self.refresh(&node, &instance).await?,
            None if new => return Err(about(&node, "instance not found").into()),
            // The cloud-node-lifecycle-controller decides whether the node is deleted.
            None => {}
        }
        let refresh = self.settings.node_status_update_frequency;
        self.due.lock().insert(key.clone(), clock::after(refresh));
        Ok(Requeue::After(refresh))
    }
}

fn about(node: &Item<CloudNode>, error: impl std::fmt::Display) -> String {
    format!("failed to get instance metadata for node {}: {error}", node.meta.name())
}

impl NodeController {
    /// Writes the cloud's data of a new node and removes the taint, so that pods can be scheduled.
    async fn initialize(&self, node: &Item<CloudNode>, instance: &wire::Instance) -> Result<(), Failure> {
        let known = plan::initial(node, instance)?;
        let written = write::update(&self.env.client, self.nodes.resource, "", &node.meta, |object| {
            object.set_at(&["spec", "providerID"], known.provider_id.as_str());
            for (key, value) in &known.labels {
                object.set_at(&["metadata", "labels", key], value.as_str());
            }
            write::remove_taint(object, UNINITIALIZED);
        })
        .await?;
        self.nodes.wrote(node, written.revision);
        self.env.recorder.normal(&write::about(self.nodes.resource, &node.meta), "Synced", "Node synced successfully");
        self.refresh(&Item::of(&written.obj()?, written.revision), instance).await
    }

    /// Writes changed addresses and labels of a node.
    async fn refresh(&self, node: &Item<CloudNode>, instance: &wire::Instance) -> Result<(), Failure> {
        let mut meta = node.meta.clone();
        let labels = plan::additional(node, instance);
        if !labels.is_empty() {
            let written = write::update(&self.env.client, self.nodes.resource, "", &meta, |object| {
                for (key, value) in &labels {
                    object.set_at(&["metadata", "labels", key], *value);
                }
            });
            meta.revision = self.shown(node, &written.await?);
        }
        let addresses = plan::addresses(node, instance)?;
        if addresses.is_empty() || addresses == node.value.addresses {
            return Ok(());
        }
        let written = write::update(&self.env.client, self.nodes.resource, "status", &meta, |object| {
            object.set_at(&["status", "addresses"], Value::from_iter(addresses.iter().map(address)));
        });
        self.shown(node, &written.await?);
        Ok(())
    }

    fn shown(&self, node: &Item<CloudNode>, written: &Object) -> Revision {
        self.nodes.wrote(node, written.revision);
        written.revision
    }
}

fn address(address: &wire::Address) -> Value {
    let fields = [("type", Value::from(address.r#type.as_str())), ("address", address.address.as_str().into())];
    Value::Struct(write::node(core_v1::NodeAddress::TYPE, fields))
}
