//! Steps of an object's life: spans that are recorded when they have ended.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::SystemTime;

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceState};
use opentelemetry::{InstrumentationScope, Value};
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator, SpanData, SpanEvents, SpanLinks};

use super::change::Change;
use super::fields::Fields;
use super::subject::Subject;

/// Name of the code that made a span, as collectors show it.
pub(crate) const SCOPE: &str = "oarlock";

/// Name of the step that an API server records of a commit.
pub(crate) const COMMIT: &str = "commit";
/// Name of the step that a controller records.
pub(crate) const RECONCILE: &str = "reconcile";

static INSTRUMENTATION: LazyLock<InstrumentationScope> = LazyLock::new(|| InstrumentationScope::builder(SCOPE).build());

/// A span that has ended: of an object's life, or of a request. [`super::record()`] and [`super::record_request`] keep and export it.
///
/// Work that outlives a task, or moves to another process, holds no open span: it keeps the time at which it began in the state that exists anyway, and makes the step when it ends.
#[derive(Clone, Debug)]
pub struct Step {
    pub(super) context: SpanContext,
    pub(super) parent: SpanId,
    /// Whether the step is a request that the process serves, and whether another process made the parent.
    pub(super) kind: Kind,
    pub(super) name: Cow<'static, str>,
    began: Option<SystemTime>,
    ended: Option<SystemTime>,
    pub(super) fields: Fields,
}

/// The kind of a span: work of an object's life, or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Work of an object's life.
    Life,
    /// A request; its parent, if it has one, is a span of the client.
    Request,
}

impl Step {
    /// Creates a step below the root of a change, with a random id.
    #[must_use]
    pub fn of(change: &Change, name: &'static str) -> Self {
        let root = change.context();
        let id = RandomIdGenerator::default().new_span_id();
        let context = SpanContext::new(root.trace_id(), id, root.trace_flags(), false, TraceState::NONE);
        Self::new(context, root.span_id(), Kind::Life, name.into(), Fields::new())
    }

    /// Creates the root of a change, with its derived id. The name is the kind and the verb: `pod create`; the ring keeps each name once and never drops one. A second record of a root has the same ids.
    #[must_use]
    pub fn root(change: &Change, name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(change.context(), SpanId::INVALID, Kind::Life, name.into(), Fields::new())
    }

    /// Creates the span of a request that the process served, with the context of [`super::request_context`], below the client's span if that counts. The name holds nothing that a client chose: the ring keeps each
    /// name once and never drops one.
    #[must_use]
    pub fn request(context: SpanContext, client: Option<&SpanContext>, name: impl Into<Cow<'static, str>>) -> Self {
        let parent = client.map_or(SpanId::INVALID, SpanContext::span_id);
        Self::new(context, parent, Kind::Request, name.into(), Fields::new())
    }

    pub(super) fn new(
        context: SpanContext,
        parent: SpanId,
        kind: Kind,
        name: Cow<'static, str>,
        fields: Fields,
    ) -> Self {
        Self { context, parent, kind, name, began: None, ended: None, fields }
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
        if parent.trace_id() != self.context.trace_id() {
            return self.linked("cause", parent);
        }
        self.parent = parent.span_id();
        self
    }

    /// Links another span, with its relation to the step. The link is repeated in the attribute `oarlock.link.<relation>`, as trace and span id, for viewers that show no links. An
    /// invalid context is not linked.
    #[must_use]
    pub fn linked(mut self, relation: &'static str, to: &SpanContext) -> Self {
        if to.is_valid() {
            self.fields.link(relation, to);
        }
        self
    }

    /// Names the object that the step is about.
    #[must_use]
    pub fn about(mut self, subject: &Subject<'_>) -> Self {
        self.fields.subject(subject, self.context.trace_id());
        self
    }

    /// Sets an attribute to a number or a flag, as [`Self::text`] does.
    #[must_use]
    pub fn attribute(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.fields.attribute(key, &value.into());
        self
    }

    /// Sets an attribute to a text. Attributes are named by OpenTelemetry's conventions for Kubernetes where they have a name; an attribute that is set already gets the new value. Texts are cut at
    /// [`limits::MAX_TEXT`](super::limits::MAX_TEXT) bytes. Never a secret, a body or a query.
    #[must_use]
    pub fn text(mut self, key: &'static str, value: &str) -> Self {
        self.fields.attribute_text(key, value);
        self
    }

    /// Sets an attribute to a word of the program, as [`Self::text`] does. The ring keeps each word once, so words take less memory than texts.
    #[must_use]
    pub fn word(mut self, key: &'static str, value: &'static str) -> Self {
        self.fields.attribute_word(key, value);
        self
    }

    /// Marks the step as failed. The reason is cut at [`limits::MAX_TEXT`](super::limits::MAX_TEXT) bytes; it never holds an object's body.
    #[must_use]
    pub fn failed(mut self, why: &str) -> Self {
        self.fields.failure(why);
        self
    }

    /// Gives the step an id of its own, for another span that refers to it.
    #[must_use]
    pub fn named(mut self, span: SpanId) -> Self {
        let (trace, flags) = (self.context.trace_id(), self.context.trace_flags());
        self.context = SpanContext::new(trace, span, flags, false, TraceState::NONE);
        self
    }

    /// Returns the step's own context, which a later step can name as its cause.
    #[must_use]
    pub const fn context(&self) -> &SpanContext {
        &self.context
    }

    /// Returns the parent's id; an invalid one of a root.
    pub(crate) const fn parent(&self) -> SpanId {
        self.parent
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns begin and end of a step that ends now unless it ended before.
    pub(crate) fn times(&self) -> (SystemTime, SystemTime) {
        let ended = self.ended.unwrap_or_else(opentelemetry::time::now);
        let began = self.began.unwrap_or(ended);
        (began, ended.max(began))
    }

    /// Returns the finished span.
    #[must_use]
    pub fn finish(&self) -> SpanData {
        let (start_time, end_time) = self.times();
        let mut span = SpanData {
            span_context: self.context.clone(),
            parent_span_id: self.parent,
            parent_span_is_remote: self.kind == Kind::Request && self.parent != SpanId::INVALID,
            span_kind: if self.kind == Kind::Request { SpanKind::Server } else { SpanKind::Internal },
            name: self.name.clone(),
            start_time,
            end_time,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: INSTRUMENTATION.clone(),
        };
        self.fields.expand(&mut span);
        span
    }
}

impl Subject<'_> {
    /// Returns the change that led to the generation.
    #[must_use]
    pub fn change(&self) -> Change {
        Change::new(self.uid, self.generation)
    }

    /// Begins a step of the change.
    #[must_use]
    pub fn step(&self, name: &'static str) -> Step {
        Step::of(&self.change(), name).about(self)
    }

    /// Begins the root of the change, named by kind and verb (`deployment update`). The root of a later change is linked with that of the change before.
    #[must_use]
    pub fn root(&self, verb: &str) -> Step {
        let root = Step::root(&self.change(), format!("{} {verb}", self.kind.to_lowercase())).about(self);
        if self.generation > 1 {
            root.linked("before", &Change::new(self.uid, self.generation - 1).context())
        } else {
            root
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::limits::{self, MAX_ATTRIBUTES, MAX_LINKS};
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
            keys.iter().fold(Step::of(&Change::new(UID, 1), "bind"), |step, key| step.text(key, &"ä".repeat(200)));
        let step = (1..50).fold(step, |step, trace| step.linked("owner", &other(trace))).failed(&"x".repeat(1000));
        let span = step.finish();
        // The links' attribute is one more.
        assert_eq!((span.attributes.len(), span.dropped_attributes_count), (MAX_ATTRIBUTES + 1, 8));
        assert_eq!((span.links.len(), span.links.dropped_count), (MAX_LINKS, 49 - MAX_LINKS as u32));
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
