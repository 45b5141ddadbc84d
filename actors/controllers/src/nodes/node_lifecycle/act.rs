//! The API writes and Events about nodes.

use oarlock_client::{PatchType, WriteOptions};
use oarlock_informer::{Item, Key, ObjectRef};
use oarlock_meta::{Status, Uid};
use oarlock_schema::Value;
use oarlock_schema::views::{View, core_v1};
use serde_json::json;

use super::Lifecycle;
use super::plan::{self, REPORTED};
use crate::project::{NodeView, Taint};
use crate::write;

impl Lifecycle {
    /// Sends the Event that a node was registered.
    pub(super) fn registered(&self, node: &Item<NodeView>) {
        let name = node.meta.name();
        let message = format!("Node {name} event: Registered Node {name} in Controller");
        self.env.recorder.normal(&write::about(self.node, &node.meta), "RegisteredNode", message);
    }

    /// Sends the Event that a node was removed.
    pub(super) fn removed(&self, key: &Key, uid: &Uid) {
        let name = &key.name;
        let about = ObjectRef {
            api_version: self.node.group_version().into(),
            kind: self.node.kind.into(),
            name: name.clone(),
            uid: uid.0.clone(),
            ..ObjectRef::default()
        };
        let message = format!("Node {name} event: Removing Node {name} from Controller");
        self.env.recorder.normal(&about, "RemovingNode", message);
    }

    /// Sets the conditions of a node without a sign of life to Unknown.
    pub(super) async fn silence(&self, node: &Item<NodeView>) -> Result<(), Status> {
        let now = write::now().to_string();
        let born = node.meta.created.map_or_else(|| now.clone(), |created| created.to_string());
        let written = write::update(&self.env.client, self.node, "status", &node.meta, |object| {
            let Some(status) = object.get_mut("status").and_then(Value::as_struct_mut) else { return };
            let mut conditions: Vec<Value> = status.get("conditions").map_or_else(Vec::new, |all| all.items().to_vec());
            for kind in REPORTED {
                let same = |one: &&mut Value| one.get("type").and_then(Value::as_str) == Some(kind);
                match conditions.iter_mut().find(same).and_then(Value::as_struct_mut) {
                    Some(one) if one.get("status").and_then(Value::as_str) == Some("Unknown") => {}
                    Some(one) => {
                        one.set_name("status", "Unknown");
                        one.set_name("reason", "NodeStatusUnknown");
                        one.set_name("message", "Kubelet stopped posting node status.");
                        one.set_name("lastTransitionTime", now.as_str());
                    }
                    None => conditions.push(Value::Struct(write::node(
                        core_v1::NodeCondition::TYPE,
                        [
                            ("type", kind.into()),
                            ("status", "Unknown".into()),
                            ("reason", "NodeStatusNeverUpdated".into()),
                            ("message", "Kubelet never posted node status.".into()),
                            ("lastHeartbeatTime", born.as_str().into()),
                            ("lastTransitionTime", now.as_str().into()),
                        ],
                    ))),
                }
            }
            status.set_name("conditions", Value::from_iter(conditions));
        })
        .await?;
        self.own.wrote(node.key(), &self.nodes, written.revision);
        tracing::warn!(node = node.meta.name(), "node gives no sign of life");
        if node.value.ready() {
            let message = format!("Node {} status is now: NodeNotReady", node.meta.name());
            self.env.recorder.normal(&write::about(self.node, &node.meta), "NodeNotReady", message);
        }
        Ok(())
    }

    /// Sets the pods of a node that is not ready to not ready, except pods whose kubelet has reported readiness since.
    pub(super) async fn unready(&self, node: &Item<NodeView>) -> Result<(), Status> {
        let now = write::now().to_string();
        let patch =
            json!({"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}]}});
        let patch = patch.to_string();
        let pods = self.pods.get(node.meta.name());
        let stale = plan::stale_pods(&node.value, &pods);
        let calls = stale.map(|pod| {
            let patch = (PatchType::Strategic, patch.clone());
            async move {
                let key = (pod.meta.namespace(), pod.meta.name());
                let about = write::about(self.pod, &pod.meta);
                self.env.recorder.warning(&about, "NodeNotReady", "Node is not ready");
                self.env.client.patch(self.pod, "status", key, patch, WriteOptions::default()).await
            }
        });
        for answer in write::all(calls).await {
            match answer {
                Err(status) if !status.is_not_found() => return Err(status),
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes a node's taints.
    pub(super) async fn taint(&self, node: &Item<NodeView>, wanted: &[Taint]) -> Result<(), Status> {
        let written = write::update(&self.env.client, self.node, "", &node.meta, |object| {
            let nodes = wanted.iter().map(|taint| {
                let mut fields = vec![("key", Value::from(taint.key.clone())), ("effect", taint.effect.clone().into())];
                if !taint.value.is_empty() {
                    fields.push(("value", taint.value.clone().into()));
                }
                if let Some(added) = taint.added {
                    fields.push(("timeAdded", added.to_string().into()));
                }
                write::node(core_v1::Taint::TYPE, fields)
            });
            object.set_at(&["spec", "taints"], Value::from_iter(nodes));
        })
        .await?;
        self.own.wrote(node.key(), &self.nodes, written.revision);
        Ok(())
    }
}
