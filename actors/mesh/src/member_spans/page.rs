//! Selects the spans of a page: a process may keep more spans of a trace than fit into one message.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use oarlock_bus::Decline;
use oarlock_bus::proto::mesh::v1::{SpansAnswer, SpansQuestion};
use oarlock_telemetry::traces::Ring;
use oarlock_telemetry::traces::opentelemetry::trace::{SpanContext, TraceId};
use oarlock_telemetry::traces::opentelemetry_sdk::trace::SpanData;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use super::MAX_TRACES;

/// The most spans in one answer.
pub(super) const PAGE_SPANS: usize = 1000;
/// The most bytes of spans in one answer; a message carries a megabyte. One span alone may be larger.
const PAGE_BYTES: usize = 256 << 10;

/// Returns one page of the spans in a ring; without a ring, an answer that says so.
///
/// # Errors
/// [`Decline::Malformed`] for a question about too many traces, or with ids of a wrong length.
pub(crate) fn page(ring: Option<&Ring>, question: &SpansQuestion) -> Result<SpansAnswer, Decline> {
    if question.traces.len() > MAX_TRACES {
        return Err(Decline::Malformed(format!("more than {MAX_TRACES} traces")));
    }
    let id = |bytes: &Bytes| <[u8; 16]>::try_from(bytes.as_ref()).map(TraceId::from_bytes);
    let traces: Result<HashSet<TraceId>, _> = question.traces.iter().map(id).collect();
    let traces = traces.map_err(|_| Decline::Malformed("a trace id has 16 bytes".to_owned()))?;
    let Some(ring) = ring else { return Ok(SpansAnswer::default()) };
    let found = find(ring, &traces);
    let rest = found.iter().filter(|span| place(&span.span_context).as_slice() > question.after.as_ref());
    Ok(cut(rest.map(|span| Span::from((**span).clone()))))
}

/// Returns the spans of some traces in the order of their positions, each once: of two records with the same ids the one that ended first, because a later owner of the same work records the
/// end of that work again.
pub(super) fn find(ring: &Ring, traces: &HashSet<TraceId>) -> Vec<Arc<SpanData>> {
    let mut spans = ring.traces(traces);
    spans.sort_by_key(|span| (place(&span.span_context), span.end_time));
    spans.dedup_by_key(|span| place(&span.span_context));
    spans
}

/// Returns the place of a span in the order of pages: its trace id, then its span id.
fn place(span: &SpanContext) -> [u8; 24] {
    let mut place = [0; 24];
    let (trace, id) = place.split_at_mut(16);
    trace.copy_from_slice(&span.trace_id().to_bytes());
    id.copy_from_slice(&span.span_id().to_bytes());
    place
}

/// Returns the place of a received span in the order of pages.
pub(super) fn position(span: &Span) -> Vec<u8> {
    [span.trace_id.as_slice(), span.span_id.as_slice()].concat()
}

/// Returns the first page of spans; no more of them are encoded than fit.
fn cut(spans: impl Iterator<Item = Span>) -> SpansAnswer {
    let mut answer = SpansAnswer { recording: true, ..SpansAnswer::default() };
    let mut bytes = 0;
    for span in spans {
        let encoded = span.encode_to_vec();
        bytes += encoded.len();
        let fits = answer.spans.len() < PAGE_SPANS && bytes <= PAGE_BYTES;
        if !fits && !answer.spans.is_empty() {
            answer.more = true;
            break;
        }
        answer.spans.push(encoded.into());
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: u64, name: &str) -> Span {
        Span {
            trace_id: 7_u128.to_be_bytes().to_vec(),
            span_id: id.to_be_bytes().to_vec(),
            name: name.to_owned(),
            ..Span::default()
        }
    }

    /// The number of spans on each page of these.
    fn pages(spans: &[Span]) -> Vec<usize> {
        let (mut sizes, mut after, mut seen) = (Vec::new(), Vec::<u8>::new(), Vec::new());
        loop {
            let page = cut(spans.iter().filter(|span| position(span) > after).cloned());
            let decoded: Vec<Span> = page.spans.iter().map(|span| Span::decode(span.clone()).unwrap()).collect();
            sizes.push(decoded.len());
            after = decoded.last().map(position).unwrap_or_default();
            seen.extend(decoded);
            if !page.more {
                assert_eq!(seen, spans, "each span is on one page");
                return sizes;
            }
        }
    }

    #[test]
    fn a_page_is_bounded_by_spans_and_by_bytes() {
        assert_eq!(pages(&[]), [0]);
        let small: Vec<Span> = (0..2500).map(|id| span(id, "pull")).collect();
        assert_eq!(pages(&small), [1000, 1000, 500]);
        let hundred_kilobytes = "x".repeat(100 << 10);
        let large: Vec<Span> = (0..5).map(|id| span(id, &hundred_kilobytes)).collect();
        assert_eq!(pages(&large), [2, 2, 1]);
        let huge = [span(1, &"x".repeat(PAGE_BYTES + 1)), span(2, "pull")];
        assert_eq!(pages(&huge), [1, 1]);
    }

    #[test]
    fn a_question_that_cannot_be_meant_is_declined() {
        let ids = |length: usize, count: usize| SpansQuestion {
            traces: vec![vec![1; length].into(); count],
            ..SpansQuestion::default()
        };
        assert!(matches!(page(None, &ids(16, MAX_TRACES + 1)), Err(Decline::Malformed(_))));
        assert!(matches!(page(None, &ids(15, 1)), Err(Decline::Malformed(_))));
        assert_eq!(page(None, &ids(16, 1)).unwrap(), SpansAnswer::default(), "tracing is off");
    }
}
