//! A step as the ring keeps it.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::trace::SpanData;

use super::fields::{self, Fields};
use super::step::{Kind, Step};

/// A step in the ring.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    trace: TraceId,
    span: SpanId,
    parent: SpanId,
    sampled: bool,
    kind: Kind,
    /// Nanoseconds since the Unix epoch.
    began: u64,
    /// Nanoseconds.
    took: u64,
    name: Cow<'static, str>,
    fields: Box<[u8]>,
}

impl Record {
    /// Returns the trace's id.
    pub(crate) const fn trace(&self) -> TraceId {
        self.trace
    }

    /// Returns the bytes that the record takes outside itself.
    pub(crate) fn bytes(&self) -> usize {
        self.fields.len() + if let Cow::Owned(name) = &self.name { name.capacity() } else { 0 }
    }

    /// Returns the finished span.
    pub(crate) fn expand(&self) -> SpanData {
        let flags = TraceFlags::default().with_sampled(self.sampled);
        let began = SystemTime::UNIX_EPOCH + Duration::from_nanos(self.began);
        let context = SpanContext::new(self.trace, self.span, flags, false, TraceState::NONE);
        let step = Step::new(context, self.parent, self.kind, self.name.clone(), Fields::default());
        let mut span = step.began(began).ended(began + Duration::from_nanos(self.took)).finish();
        fields::expand(&self.fields, &mut span);
        span
    }
}

impl From<Step> for Record {
    fn from(step: Step) -> Self {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (began, ended) = step.times();
        Self {
            trace: step.context.trace_id(),
            span: step.context.span_id(),
            parent: step.parent,
            sampled: step.context.is_sampled(),
            kind: step.kind,
            began: nanos(began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()),
            took: nanos(ended.duration_since(began).unwrap_or_default()),
            name: step.name,
            fields: step.fields.into_bytes(),
        }
    }
}
