//! Steps of an object's life: spans that are recorded when they have ended.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::SystemTime;

use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator, SpanData, SpanEvents, SpanLinks};

use super::change::Change;
use super::limits::{self, MAX_ATTRIBUTES, MAX_LINKS};
use super::links::{self, RELATION};

/// Name of the step that the API server records for the write that began a change.
pub(crate) const COMMIT: &str = "commit";
/// Name of the code that made a span, as collectors show it.
pub(crate) const SCOPE: &str = "oarlock";

static INSTRUMENTATION: LazyLock<InstrumentationScope> = LazyLock::new(|| InstrumentationScope::builder(SCOPE).build());

/// A span of an object's life that has ended. [`super::record`] keeps and exports it.
///
/// Work that outlives a task, or moves to another process, holds no open span: it keeps the time at which it began in the state that exists anyway, and makes the step when it ends.
#[derive(Clone, Debug)]
pub struct Step {
    span: SpanData,
    began: Option<SystemTime>,
    ended: Option<SystemTime>,
}

impl Step {
    /// Creates a step below the root of a change, with a random id.
    #[must_use]
    pub fn of(change: &Change, name: &'static str) -> Self {
        let root = change.context();
        let id = RandomIdGenerator::default().new_span_id();
        let context = SpanContext::new(root.trace_id(), id, root.trace_flags(), false, TraceState::NONE);
        Self::new(context, root.span_id(), name)
    }

    /// Creates the root of a change, with its derived id. The name is the kind and the verb: `pod create`. A second record of a root has the same ids.
    #[must_use]
    pub fn root(change: &Change, name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(change.context(), SpanId::INVALID, name)
    }

    fn new(span_context: SpanContext, parent_span_id: SpanId, name: impl Into<Cow<'static, str>>) -> Self {
        let span = SpanData {
            span_context,
            parent_span_id,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time: SystemTime::UNIX_EPOCH,
            end_time: SystemTime::UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: INSTRUMENTATION.clone(),
        };
        Self { span, began: None, ended: None }
    }

    /// Sets the start. Without one the step takes no time.
    #[must_use]
    pub fn began(self, at: SystemTime) -> Self {
        Self { began: Some(at), ..self }
    }

    /// Sets the end; an end before the start counts as the start. Without one the step ends when it is recorded.
    #[must_use]
    pub fn ended(self, at: SystemTime) -> Self {
        Self { ended: Some(at), ..self }
    }

    /// Makes the step a child of another span of the same life. A span of another trace is linked as `cause`, because a parent is always in its child's trace.
    #[must_use]
    pub fn caused_by(mut self, parent: &SpanContext) -> Self {
        if parent.trace_id() != self.span.span_context.trace_id() {
            return self.linked("cause", parent);
        }
        self.span.parent_span_id = parent.span_id();
        self
    }

    /// Links another span, with its relation to the step. The link is repeated in the attribute `oarlock.link.<relation>`, as trace and span id, for viewers that show no links. An
    /// invalid context is not linked.
    #[must_use]
    pub fn linked(mut self, relation: &'static str, to: &SpanContext) -> Self {
        if !to.is_valid() {
            return self;
        }
        if self.span.links.links.len() >= MAX_LINKS {
            self.span.links.dropped_count = self.span.links.dropped_count.saturating_add(1);
            return self;
        }
        let attributes = vec![KeyValue::new(RELATION, relation)];
        self.span.links.links.push(Link::new(to.clone(), attributes, 0));
        links::repeat(&mut self.span.attributes, relation, to);
        self
    }

    /// Sets an attribute, named by OpenTelemetry's conventions for Kubernetes where they have a name; an attribute that is set already gets the new value. Texts are cut at
    /// [`limits::MAX_TEXT`] bytes. Never a secret, a body or a query.
    #[must_use]
    pub fn attribute(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        let mut attribute = KeyValue::new(key, value);
        limits::cut_attribute(&mut attribute);
        if let Some(known) = self.span.attributes.iter_mut().find(|known| known.key.as_str() == key) {
            *known = attribute;
        } else if self.span.attributes.len() < MAX_ATTRIBUTES {
            self.span.attributes.push(attribute);
        } else {
            self.span.dropped_attributes_count = self.span.dropped_attributes_count.saturating_add(1);
        }
        self
    }

    /// Marks the step as failed. The reason is cut at [`limits::MAX_TEXT`] bytes; it never holds an object's body.
    #[must_use]
    pub fn failed(mut self, why: &str) -> Self {
        self.span.status = Status::error(limits::cut(why).to_owned());
        self
    }

    /// Gives the step an id of its own, for another span that refers to it.
    #[must_use]
    pub fn named(mut self, span: SpanId) -> Self {
        let context = &self.span.span_context;
        let (trace, flags) = (context.trace_id(), context.trace_flags());
        self.span.span_context = SpanContext::new(trace, span, flags, false, TraceState::NONE);
        self
    }

    /// Returns the step's own context, which a later step can name as its cause.
    #[must_use]
    pub fn context(&self) -> &SpanContext {
        &self.span.span_context
    }

    /// Returns the finished span.
    #[must_use]
    pub fn finish(self) -> SpanData {
        let ended = self.ended.unwrap_or_else(opentelemetry::time::now);
        let began = self.began.unwrap_or(ended);
        SpanData { start_time: began, end_time: ended.max(began), ..self.span }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const UID: &str = "6d0a3c52-9e1f-4b7a-8c55-0123456789ab";

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn other(trace: u128) -> SpanContext {
        SpanContext::new(trace.into(), 7.into(), Default::default(), true, TraceState::NONE)
    }

    #[test]
    fn a_step_is_a_child_of_the_root_of_its_change() {
        let change = Change::new(UID, 2);
        let (step, root) = (Step::of(&change, "bind").finish(), Step::root(&change, "pod create").finish());
        assert_eq!(step.parent_span_id, root.span_context.span_id());
        assert_eq!((root.span_context, root.parent_span_id), (change.context(), SpanId::INVALID));
        assert_ne!(Step::of(&change, "bind").context(), Step::of(&change, "bind").context());
    }

    #[test]
    fn a_step_ends_when_it_is_recorded_and_never_before_it_began() {
        let change = Change::new(UID, 1);
        let span = Step::of(&change, "pull").began(at(5)).ended(at(9)).finish();
        assert_eq!((span.start_time, span.end_time), (at(5), at(9)));
        let span = Step::of(&change, "pull").began(at(5)).ended(at(4)).finish();
        assert_eq!((span.start_time, span.end_time), (at(5), at(5)));
        let span = Step::of(&change, "pull").began(at(5)).finish();
        assert!(span.end_time > at(1_700_000_000), "{span:?}");
    }

    #[test]
    fn a_cause_of_the_same_life_is_the_parent_and_another_one_a_link() {
        let change = Change::new(UID, 1);
        let decide = Step::of(&change, "decide");
        let bind = Step::of(&change, "bind").caused_by(decide.context()).finish();
        assert_eq!(bind.parent_span_id, decide.context().span_id());
        let bind = Step::of(&change, "bind").caused_by(&other(9)).finish();
        assert_eq!(bind.parent_span_id, change.context().span_id());
        assert_eq!(bind.links[0].span_context, other(9));
    }

    #[test]
    fn links_are_attributes_too() {
        let span = Step::of(&Change::new(UID, 1), "commit").linked("owner", &other(1)).linked("owner", &other(2));
        let span = span.linked("request", &other(3)).linked("request", &SpanContext::NONE).finish();
        assert_eq!(span.links.len(), 3);
        let attribute = |key: &str| span.attributes.iter().find(|known| known.key.as_str() == key).unwrap();
        let owners = attribute("oarlock.link.owner").value.to_string();
        let id = |trace: u128| format!("\"{trace:032x}-{:016x}\"", 7);
        assert_eq!(owners, format!("[{},{}]", id(1), id(2)));
        assert_eq!(attribute("oarlock.link.request").value.to_string(), format!("[{}]", id(3)));
    }

    #[test]
    fn what_a_span_holds_is_bounded() {
        let keys: Vec<&'static str> = (0..40).map(|n| &*Box::leak(format!("key{n}").into_boxed_str())).collect();
        let step =
            keys.iter().fold(Step::of(&Change::new(UID, 1), "bind"), |step, key| step.attribute(key, "ä".repeat(200)));
        let step = (1..50).fold(step, |step, trace| step.linked("owner", &other(trace))).failed(&"x".repeat(1000));
        let span = step.attribute("key0", 7).finish();
        // The links' attribute is one more.
        assert_eq!((span.attributes.len(), span.dropped_attributes_count), (MAX_ATTRIBUTES + 1, 8));
        assert_eq!((span.links.len(), span.links.dropped_count), (MAX_LINKS, 49 - MAX_LINKS as u32));
        assert_eq!(span.attributes[0].value, Value::I64(7));
        assert_eq!(span.attributes[1].value.as_str().len(), limits::MAX_TEXT);
        assert_eq!(span.status, Status::error("x".repeat(limits::MAX_TEXT)));
    }

    #[test]
    fn a_named_step_keeps_its_trace() {
        let change = Change::new(UID, 1);
        let step = Step::of(&change, "propose").named(5.into());
        assert_eq!((step.context().trace_id(), step.context().span_id()), (change.trace(), 5.into()));
    }
}
