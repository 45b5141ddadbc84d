//! Sends Events about pods within a rate limit. Upstream's kubelet sends at most 50 a second with bursts of 100, so a thousand pods that start together do not
//! cost three thousand Events.

use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::{EventType, Item, ObjectRef, Recorder};
use oarlock_runtime::{Instant, clock};
use oarlock_schema::Str;
use parking_lot::Mutex;

use crate::pod::model::PodEvent;
use crate::template::PodView;

/// Reason and message of a Warning event.
pub(crate) type WarningEvent = (&'static str, String);

/// Burst of the rate limit (upstream's `eventBurst`).
pub(crate) const BURST: u32 = 100;
/// Time per Event at the rate limit (upstream's `eventRecordQPS` of 50).
pub(crate) const TIME_PER_EVENT: Duration = Duration::from_millis(20);

/// Token bucket for Events, shared by the kubelets of a process.
#[derive(Debug)]
pub(crate) struct Budget {
    state: Mutex<(u32, Instant)>,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new((BURST, clock::now())) }
    }

    fn take(&self) -> bool {
        let mut state = self.state.lock();
        let (tokens, since) = &mut *state;
        while *tokens < BURST && since.elapsed() >= TIME_PER_EVENT {
            *tokens += 1;
            *since += TIME_PER_EVENT;
        }
        if *tokens == BURST {
            *since = clock::now();
        }
        tokens.checked_sub(1).map(|left| *tokens = left).is_some()
    }
}

/// Sender of Events about one node and its pods.
#[derive(Clone, Debug)]
pub(crate) struct EventSender {
    pub(crate) recorder: Recorder,
    pub(crate) budget: Arc<Budget>,
}

impl EventSender {
    /// Sends an Event about a change of the node's readiness.
    pub(crate) fn ready_changed(&self, node: &Str, reason: &str) {
        // Upstream's kubelet sets the Event's uid to the node's name as well, and kubectl searches for that value.
        let about = ObjectRef {
            api_version: "v1".into(),
            kind: "Node".into(),
            name: node.clone(),
            uid: node.clone(),
            ..ObjectRef::default()
        };
        self.recorder.normal(&about, reason, format!("Node {node} status is now: {reason}"));
    }

    /// Sends an Event about a pod, unless the rate limit is exceeded.
    pub(crate) fn send(&self, item: &Item<PodView>, event: PodEvent) {
        if !self.budget.take() {
            return;
        }
        let template = &item.value.template;
        let inits = template.init.len();
        let field_path = event.container.and_then(|at| {
            let spec = crate::pod::specs(template).nth(at)?;
            let list = if at < inits { "initContainers" } else { "containers" };
            Some(format!("spec.{list}{{{}}}", spec.name))
        });
        let about = ObjectRef {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: item.meta.key.namespace.clone(),
            name: item.meta.key.name.clone(),
            uid: item.meta.uid.0.clone(),
            resource_version: item.meta.revision.to_string().into(),
            field_path: field_path.unwrap_or_default().into(),
        };
        let kind = if event.warning { EventType::Warning } else { EventType::Normal };
        self.recorder.event(&about, kind, &event.reason, event.message);
    }
}
