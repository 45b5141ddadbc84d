//! Events about pods, within a budget: upstream's kubelet writes at most 50 a second with bursts of 100, and so a thousand pods that start
//! together do not cost three thousand Events.

use std::sync::Arc;
use std::time::Duration;

use oarlock_informer::{EventType, Item, ObjectRef, Recorder};
use oarlock_runtime::{Instant, clock};
use oarlock_schema::Str;
use parking_lot::Mutex;

use crate::pod::model::PodEvent;
use crate::template::PodView;

/// Something that goes wrong: reason and message of a Warning.
pub(crate) type Trouble = (&'static str, String);

/// Upstream's `eventBurst`.
pub(crate) const BURST: u32 = 100;
/// The time in which one more may be written: upstream's `eventRecordQPS` of 50.
pub(crate) const REFILL: Duration = Duration::from_millis(20);

/// A token bucket, shared by the kubelets of a process.
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
        while *tokens < BURST && since.elapsed() >= REFILL {
            *tokens += 1;
            *since += REFILL;
        }
        if *tokens == BURST {
            *since = clock::now();
        }
        tokens.checked_sub(1).map(|left| *tokens = left).is_some()
    }
}

/// Tells users about the pods of one node.
#[derive(Clone, Debug)]
pub(crate) struct Teller {
    pub(crate) recorder: Recorder,
    pub(crate) budget: Arc<Budget>,
}

impl Teller {
    /// Tells of a node that is ready, or is not any more.
    pub(crate) fn turned(&self, node: &Str, reason: &str) {
        // Upstream's kubelet names its node by its name in place of the uid too, and kubectl looks for that.
        let about = ObjectRef {
            api_version: "v1".into(),
            kind: "Node".into(),
            name: node.clone(),
            uid: node.clone(),
            ..ObjectRef::default()
        };
        self.recorder.normal(&about, reason, format!("Node {node} status is now: {reason}"));
    }

    pub(crate) fn tell(&self, item: &Item<PodView>, tell: PodEvent) {
        if !self.budget.take() {
            return;
        }
        let template = &item.value.template;
        let inits = template.init.len();
        let field_path = tell.container.and_then(|at| {
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
        let kind = if tell.warning { EventType::Warning } else { EventType::Normal };
        self.recorder.event(&about, kind, &tell.reason, tell.message);
    }
}
