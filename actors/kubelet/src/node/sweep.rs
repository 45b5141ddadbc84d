//! Removes what earlier incarnations left of pods that no longer exist: sandboxes first, then host resources.

use std::collections::BTreeSet;
use std::time::Duration;

use super::host_resources::HostResources;
use super::steps::Tools;
use super::{Done, Node};
use crate::cri::{self, ContainerState, SandboxState};
use crate::pod_error::PodError;

/// Grace period of pods that the API no longer has, whose own is unknown (as upstream).
const ORPHAN_GRACE: Duration = Duration::from_secs(2);

impl Node {
    pub(super) fn sweep(&mut self) {
        let tools = self.tools.clone();
        let node = self.parts.config.name.clone();
        let known = self.pods.values().map(|entry| entry.pod.item.meta.uid.0.to_string());
        let known: BTreeSet<String> = known.chain(self.statics.uids()).collect();
        self.work.push(Box::pin(async move {
            if let Err(error) = sandboxes(&tools, &known).await {
                tracing::warn!(%node, %error, "orphaned sandboxes not removed");
            } else if let Some(host_resources) = &tools.host_resources
                && let Err(why) = leftovers(host_resources, &known).await
            {
                tracing::warn!(%node, %why, "what pods left is not removed");
            }
            Done::Swept
        }));
    }
}

/// Removes as many leftovers as possible; returns the first error.
async fn leftovers(host_resources: &HostResources, known: &BTreeSet<String>) -> Result<(), PodError> {
    let mut result = Ok(());
    for (uid, logs) in host_resources.leftovers().await? {
        if !known.contains(&uid) {
            result = result.and(host_resources.clear(&uid, logs.as_deref()).await);
        }
    }
    result
}

async fn sandboxes(tools: &Tools, known: &BTreeSet<String>) -> cri::Result<()> {
    let runtime = &tools.runtime;
    for sandbox in runtime.list_pod_sandbox(None).await? {
        if known.contains(sandbox.uid.as_str()) {
            continue;
        }
        if sandbox.state == SandboxState::Ready {
            let containers = runtime.list_containers(&sandbox.id).await?;
            let running = containers.iter().filter(|container| container.state == ContainerState::Running);
            let stops = running.map(|container| runtime.stop_container(&container.id, ORPHAN_GRACE));
            futures::future::join_all(stops).await.into_iter().collect::<cri::Result<()>>()?;
        }
        runtime.remove_pod_sandbox(&sandbox.id).await?;
    }
    Ok(())
}
