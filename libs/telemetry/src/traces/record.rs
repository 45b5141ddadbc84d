//! A span as the ring keeps it: a string of bytes that is written when the span ends and read when somebody asks.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::trace::SpanData;

use super::bytes::{Reader, put_number, put_text};
use super::fields::{self, Fields};
use super::step::{Kind, Step};

/// Bytes of a record besides its name and its fields, about.
const AROUND: usize = 64;

/// Flag of a sampled span.
const SAMPLED: u8 = 1;
/// Flag of a request.
const REQUEST: u8 = 2;
/// Flag of a span with a parent.
const CHILD: u8 = 4;
/// Flag of work below a request.
const WORK: u8 = 8;

/// Returns about how many bytes the record of a step takes.
pub(crate) fn size(step: &Step) -> usize {
    AROUND + step.name.len() + step.fields.bytes().len()
}

/// Writes the record of a step.
pub(crate) fn write(step: &Step, to: &mut Vec<u8>) {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (began, ended) = step.times();
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let has_parent = step.parent != SpanId::INVALID;
    to.extend_from_slice(&step.context.trace_id().to_bytes());
    to.push(
        flag(step.context.is_sampled(), SAMPLED) | flag(step.kind == Kind::Request, REQUEST) | flag(has_parent, CHILD),
    );
    to.extend_from_slice(&step.context.span_id().to_bytes());
    if has_parent {
        to.extend_from_slice(&step.parent.to_bytes());
    }
    to.extend_from_slice(&nanos(began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()).to_le_bytes());
    put_number(to, nanos(ended.duration_since(began).unwrap_or_default()));
    put_text(to, &step.name);
    to.extend_from_slice(step.fields.bytes());
}

/// Bytes of the record of work below a request.
pub(crate) const WORK_BYTES: usize = 25;

/// Writes the record of work below a request, whose span is kept elsewhere under a number.
pub(crate) fn write_work(trace: TraceId, number: u64, to: &mut Vec<u8>) {
    to.extend_from_slice(&trace.to_bytes());
    to.push(WORK);
    to.extend_from_slice(&number.to_le_bytes());
}

/// Returns the trace of a record.
pub(crate) fn trace(record: &[u8]) -> TraceId {
    TraceId::from_bytes(Reader(record).array().unwrap_or_default())
}

/// Returns the number of the span of work below a request; `None` of a step.
pub(crate) fn work(record: &[u8]) -> Option<u64> {
    let mut reader = Reader(record);
    let ([_, ..], [flags]): ([u8; 16], [u8; 1]) = (reader.array()?, reader.array()?);
    if flags == WORK { reader.array().map(u64::from_le_bytes) } else { None }
}

/// Returns the finished span of a step; `None` for bytes that are no record of a step.
pub(crate) fn expand(record: &[u8]) -> Option<SpanData> {
    let mut reader = Reader(record);
    let trace = TraceId::from_bytes(reader.array()?);
    let [flags] = reader.array()?;
    let has = |flag: u8| flags & flag != 0;
    let span = SpanId::from_bytes(reader.array()?);
    let parent = if has(CHILD) { SpanId::from_bytes(reader.array()?) } else { SpanId::INVALID };
    let began = SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::from_le_bytes(reader.array()?));
    let took = Duration::from_nanos(reader.number()?);
    let name = Cow::Owned(reader.text()?.to_owned());
    let flags = TraceFlags::default().with_sampled(has(SAMPLED));
    let context = SpanContext::new(trace, span, flags, false, TraceState::NONE);
    let kind = if has(REQUEST) { Kind::Request } else { Kind::Life };
    let step = Step::new(context, parent, kind, name, Fields::default());
    let mut span = step.began(began).ended(began + took).finish();
    fields::expand(reader.0, &mut span);
    Some(span)
}
