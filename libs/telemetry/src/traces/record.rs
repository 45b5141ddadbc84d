//! A span as the ring keeps it: a string of bytes that is written when the span ends and read when somebody asks. Records near each other share a base, the time from which their own times are counted.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::trace::SpanData;

use super::bytes::{Reader, put_number, put_signed};
use super::fields::{self, Fields};
use super::id::Id;
use super::step::{Kind, Step};
use super::words::WORDS;

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
/// Flag of a span that is a root.
const ROOT: u8 = 16;
/// Flag of a span whose parent is a root.
const BELOW_ROOT: u8 = 32;

/// Returns about how many bytes the record of a step takes.
pub(crate) fn size(step: &Step) -> usize {
    AROUND + step.name.len() + step.fields.bytes().len()
}

/// Returns the base for records of which the step's is the first.
pub(crate) fn base(step: &Step) -> u64 {
    since_epoch(step.times().0)
}

/// Returns a time in nanoseconds since the epoch.
pub(crate) fn since_epoch(time: SystemTime) -> u64 {
    nanos(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Writes the record of a step.
pub(crate) fn write(step: &Step, base: u64, to: &mut Vec<u8>) {
    let (began, ended) = step.times();
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let trace = step.context.trace_id();
    let id = Id::of(trace, step.context.span_id());
    let parent = Some(step.parent).filter(|parent| *parent != SpanId::INVALID).map(|parent| Id::of(trace, parent));
    to.extend_from_slice(&trace.to_bytes());
    to.push(
        flag(step.context.is_sampled(), SAMPLED)
            | flag(step.kind == Kind::Request, REQUEST)
            | flag(parent.is_some(), CHILD)
            | flag(id.is_root(), ROOT)
            | flag(parent.is_some_and(Id::is_root), BELOW_ROOT),
    );
    id.put(to);
    if let Some(parent) = parent {
        parent.put(to);
    }
    put_signed(to, since_epoch(began).wrapping_sub(base).cast_signed());
    put_number(to, nanos(ended.duration_since(began).unwrap_or_default()));
    WORDS.put_name(&step.name, to);
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
pub(crate) fn expand(base: u64, record: &[u8]) -> Option<SpanData> {
    let mut reader = Reader(record);
    let trace = TraceId::from_bytes(reader.array()?);
    let [flags] = reader.array()?;
    let has = |flag: u8| flags & flag != 0;
    let span = Id::read(has(ROOT), trace, &mut reader)?;
    let parent = if has(CHILD) { Id::read(has(BELOW_ROOT), trace, &mut reader)? } else { SpanId::INVALID };
    let nanos = base.wrapping_add_signed(reader.signed()?);
    let began = SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(nanos))?;
    let ended = began.checked_add(Duration::from_nanos(reader.number()?))?;
    let name = WORDS.read(&mut reader)?;
    let flags = TraceFlags::default().with_sampled(has(SAMPLED));
    let context = SpanContext::new(trace, span, flags, false, TraceState::NONE);
    let kind = if has(REQUEST) { Kind::Request } else { Kind::Life };
    let step = Step::new(context, parent, kind, name, Fields::default());
    let mut span = step.began(began).ended(ended).finish();
    fields::expand(reader.0, &mut span);
    Some(span)
}

#[cfg(test)]
mod tests {
    use super::super::change::Change;
    use super::super::subject::Subject;
    use super::*;

    fn at(nanos: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos)
    }

    fn steps() -> Vec<Step> {
        let uid = "6d0a3c52-9e1f-4b7a-8c55-0123456789ab";
        let subject = Subject { kind: "Pod", namespace: "x", name: "y", uid, generation: 2 };
        let context = SpanContext::new(9.into(), 8.into(), TraceFlags::SAMPLED, false, TraceState::NONE);
        let (change, now) = (subject.change(), at(1_800_000_000_000_000_000));
        vec![
            subject.root("update").began(at(5)).ended(at(9)).failed("removed"),
            subject.step("commit").linked("request", &context).began(now).ended(now + Duration::from_micros(700)),
            Step::of(&change, "bind").caused_by(subject.step("decide").context()).began(at(0)).ended(at(1)),
            Step::of(&Change::new("mirror-7", 12), "queue").began(now).ended(now),
            Step::request(context.clone(), Some(&context), "GET /").began(now).ended(now).word("class", "masters"),
            Step::request(Change::new("a", 0).context(), None, "GET /").began(now).ended(now).attribute("n", -3),
        ]
    }

    #[test]
    fn a_record_is_read_as_it_was_written_whatever_its_base() {
        for step in steps() {
            for base in [0, base(&step), base(&step) + 5_000_000, u64::MAX] {
                let mut record = Vec::new();
                write(&step, base, &mut record);
                let span = expand(base, &record).map(|span| format!("{span:?}"));
                assert_eq!(span, Some(format!("{:?}", step.finish())), "base {base}");
                assert_eq!((trace(&record), work(&record)), (step.context.trace_id(), None));
            }
        }
    }

    #[test]
    fn a_damaged_record_is_no_span_or_another_one() {
        for step in steps() {
            let mut record = Vec::new();
            write(&step, 0, &mut record);
            let head = record.len() - step.fields.bytes().len();
            for end in 0..record.len() {
                assert_eq!(expand(0, &record[..end]).is_some(), end >= head, "{end} of {} bytes", record.len());
                for bit in 0..8 {
                    let mut damaged = record.clone();
                    damaged[end] ^= 1 << bit;
                    // Whatever is read is read within the bytes of the record.
                    let _span = expand(u64::MAX, &damaged);
                }
            }
        }
    }
}
