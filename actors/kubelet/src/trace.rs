//! The spans that a kubelet records in the trace of a pod's life: `admit`, `volumes`, `sandbox`, `pull`, `start`, `ready`, and the root of the pod's change (docs/adr/0007-traces.md).
//!
//! Each is recorded when that part of the pod's start has ended or was interrupted. Probes, syncs without work and status writes that change nothing record nothing. When tracing is off, a pod
//! has no [`Life`] and nothing is allocated.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use oarlock_informer::Item;
use oarlock_runtime::{Instant, clock};
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces::opentelemetry::Context;
use oarlock_telemetry::traces::opentelemetry::context::FutureExt;
use oarlock_telemetry::traces::opentelemetry::trace::TraceContextExt;
use oarlock_telemetry::traces::{self, Change, Step, Subject};

use crate::event_sender::WarningEvent;
use crate::pod::{Pod, StartError};
use crate::template::PodView;

mod clean;

pub(crate) use clean::{image_name, without_queries};

/// The change of a pod to which spans belong, and what they say about the pod.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    change: Change,
    generation: i64,
    item: Arc<Item<PodView>>,
    node: Arc<str>,
}

impl Life {
    /// Returns the present change of a pod on this node; `None` when tracing is off. A static pod's spans belong to its mirror, once there is one.
    pub(crate) fn of(pod: &Pod, node: &Arc<str>) -> Option<Self> {
        traces::recording().then(|| {
            let (uid, generation) = pod.api_identity();
            Self { change: Change::new(uid, generation), generation, item: pod.item.clone(), node: node.clone() }
        })
    }

    /// Records a part of the pod's start that lasted from `began` until now.
    pub(crate) fn record(
        &self,
        name: &'static str,
        attributes: impl IntoIterator<Item = Attribute>,
        began: Instant,
        why_failed: Option<&str>,
    ) {
        let step = attributes.into_iter().fold(self.describe(Step::of(&self.change, name)), attribute);
        self.end(step, clock::wall_at(began), why_failed);
    }

    /// Records the root of the pod's change, which ends now. The creation began at `metadata.creationTimestamp`, which has whole seconds; a later change began when the kubelet saw it, at
    /// `began`.
    pub(crate) fn record_root(&self, began: Instant, why_failed: Option<&str>) {
        let creation = self.generation <= 1;
        let created = self.item.meta.created.filter(|_| creation).and_then(|created| {
            let seconds = std::time::Duration::from_secs(u64::try_from(created.unix()).ok()?);
            SystemTime::UNIX_EPOCH.checked_add(seconds)
        });
        let root = Step::root(&self.change, if creation { "pod create" } else { "pod update" });
        self.end(self.describe(root), created.unwrap_or_else(|| clock::wall_at(began)), why_failed);
    }

    fn end(&self, step: Step, began: SystemTime, why_failed: Option<&str>) {
        let step = step.began(began).ended(clock::wall().into());
        traces::record(|| match why_failed {
            Some(why) => step.failed(&without_queries(why)),
            None => step,
        });
    }

    fn describe(&self, step: Step) -> Step {
        let meta = &self.item.meta;
        let subject = Subject {
            kind: "Pod",
            namespace: meta.namespace(),
            name: meta.name(),
            uid: meta.uid.as_str(),
            generation: self.generation,
        };
        step.about(&subject).text("k8s.node.name", &self.node)
    }
}

/// The error of a part that was dropped before its end.
const INTERRUPTED: &str = "interrupted";

/// Key and value of a span's attribute.
pub(crate) type Attribute = (&'static str, String);

fn attribute(step: Step, (key, value): Attribute) -> Step {
    step.text(key, &value)
}

/// Part of a pod's start that is under way. The end of the value records the part: as interrupted, unless the outcome is known by then.
struct Part<'a> {
    life: &'a Life,
    /// The span; `None` once it is recorded.
    step: Option<Step>,
    began: Instant,
    why_failed: Option<Cow<'static, str>>,
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        let was_interrupted = self.why_failed.as_deref() == Some(INTERRUPTED);
        if was_interrupted && seeded_bug!("interrupted_step_left_open") {
            return;
        }
        if let Some(step) = self.step.take() {
            self.life.end(step, clock::wall_at(self.began), self.why_failed.as_deref());
        }
    }
}

/// Performs a part of a pod's start and records it, also when the future is dropped before its end, as a deletion does with a pull. Calls of `work` to the container
/// runtime carry the context of the recorded span. Without a life `attributes` is not called.
pub(crate) async fn step<T, E: Failure>(
    life: Option<&Life>,
    name: &'static str,
    attributes: impl FnOnce() -> Vec<Attribute>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Some(life) = life else { return work.await };
    let step = attributes().into_iter().fold(life.describe(Step::of(&life.change, name)), attribute);
    let context = Context::new().with_remote_span_context(step.context().clone());
    let mut part = Part { life, step: Some(step), began: clock::now(), why_failed: Some(INTERRUPTED.into()) };
    let done = work.with_context(context).await;
    part.why_failed = done.as_ref().err().map(|error| error.text().into());
    done
}

/// An error with a text for the span of the work that failed.
pub(crate) trait Failure {
    /// Returns the text.
    fn text(&self) -> String;
}

impl Failure for StartError {
    fn text(&self) -> String {
        match self {
            Self::Image(reason, message) => format!("{reason}: {message}"),
            Self::Config(message) => format!("CreateContainerConfigError: {message}"),
            Self::Create(message) => format!("CreateContainerError: {message}"),
            Self::Start(_, message) => format!("StartError: {message}"),
        }
    }
}

impl Failure for Vec<WarningEvent> {
    fn text(&self) -> String {
        self.iter().map(|(_, message)| message.as_str()).collect::<Vec<_>>().join("; ")
    }
}
