//! Checks and collects the pages of one member. Any node of the bus can send anything: the checks keep a member from filling this process's memory, and from sending spans of other
//! traces.

use std::collections::HashSet;

use bytes::Bytes;
use oarlock_bus::proto::mesh::v1::SpansAnswer;
use oarlock_bus::{AskError, Identity};
use oarlock_telemetry::traces::opentelemetry::trace::TraceId;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use super::authority::may_record;
use super::page::{PAGE_SPANS, position};
use super::{Kept, MAX_SPANS};

/// The most bytes of encoded spans that are accepted of one process.
const MAX_BYTES: usize = 4 << 20;

/// The spans received from one member.
pub(super) struct Received<'a> {
    member: &'a Identity,
    traces: &'a HashSet<TraceId>,
    kept: Kept,
    bytes: usize,
    /// Position of the last span; empty before the first.
    last: Vec<u8>,
}

impl<'a> Received<'a> {
    /// Returns no spans, for a member that is asked for `traces`.
    pub(super) fn new(member: &'a Identity, traces: &'a HashSet<TraceId>) -> Self {
        Self { member, traces, kept: Kept::default(), bytes: 0, last: Vec::new() }
    }

    /// Returns the position after which the next page begins; `None` before the first page.
    pub(super) fn after(&self) -> Option<Bytes> {
        (!self.last.is_empty()).then(|| self.last.clone().into())
    }

    /// Adds a page, without the spans that the member may not record. Returns whether the member is to be asked for the next one.
    ///
    /// # Errors
    /// [`AskError::Garbled`] for a page with too many spans, or none before the last page, and for a span that cannot be decoded, belongs to another trace, has no valid id, or does not come
    /// after the last one.
    pub(super) fn add(&mut self, page: &SpansAnswer) -> Result<bool, AskError> {
        if page.spans.len() > PAGE_SPANS {
            return Err(AskError::Garbled(format!("more than {PAGE_SPANS} spans in one answer")));
        }
        if page.more && page.spans.is_empty() {
            return Err(AskError::Garbled("an answer without spans before the last answer".to_owned()));
        }
        self.kept.recording = page.recording;
        for encoded in &page.spans {
            self.bytes = self.bytes.saturating_add(encoded.len());
            if self.is_full() || self.bytes > MAX_BYTES {
                self.kept.truncated = true;
                return Ok(false);
            }
            let span = Span::decode(encoded.clone()).map_err(|error| AskError::Garbled(error.to_string()))?;
            self.last = self.check(&span).map_err(|why| AskError::Garbled(why.to_owned()))?;
            if may_record(self.member, &span) {
                self.kept.spans.push(span);
            } else {
                self.kept.refused += 1;
            }
        }
        let full = self.is_full();
        self.kept.truncated = page.more && full;
        Ok(page.more && !full)
    }

    fn is_full(&self) -> bool {
        self.kept.spans.len() + self.kept.refused >= MAX_SPANS
    }

    /// Returns the position of a span that may follow the last one.
    fn check(&self, span: &Span) -> Result<Vec<u8>, &'static str> {
        let trace = <[u8; 16]>::try_from(span.trace_id.as_slice()).map(TraceId::from_bytes);
        if !trace.is_ok_and(|trace| self.traces.contains(&trace)) {
            return Err("a span of a trace that was not asked for");
        }
        if span.span_id.len() != 8 {
            return Err("a span id has 8 bytes");
        }
        let position = position(span);
        if position <= self.last { Err("spans out of order") } else { Ok(position) }
    }

    /// Returns the spans; `cut_off` says that the member has more.
    pub(super) fn finish(mut self, cut_off: bool) -> Kept {
        self.kept.truncated |= cut_off;
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use oarlock_bus::Role;

    use super::*;

    fn span(trace: u128, id: u64) -> Span {
        Span {
            trace_id: trace.to_be_bytes().to_vec(),
            span_id: id.to_be_bytes().to_vec(),
            name: "pull".to_owned(),
            ..Span::default()
        }
    }

    fn page(spans: impl IntoIterator<Item = Span>, more: bool) -> SpansAnswer {
        let spans = spans.into_iter().map(|span| span.encode_to_vec().into()).collect();
        SpansAnswer { spans, more, recording: true }
    }

    /// A member that may record every span.
    fn server() -> Identity {
        Identity::new(Role::ApiServer, "a").unwrap()
    }

    fn traces() -> HashSet<TraceId> {
        [7_u128, 8].map(|trace| TraceId::from_bytes(trace.to_be_bytes())).into()
    }

    #[test]
    fn pages_of_a_trace_are_collected_in_their_order() {
        let (traces, server) = (traces(), server());
        let mut received = Received::new(&server, &traces);
        assert_eq!(received.after(), None);
        assert_eq!(received.add(&page([span(7, 1), span(7, 2)], true)), Ok(true));
        assert_eq!(received.after().unwrap(), position(&span(7, 2)));
        assert_eq!(received.add(&page([span(8, 1)], false)), Ok(false));
        let spans = vec![span(7, 1), span(7, 2), span(8, 1)];
        assert_eq!(received.finish(false), Kept { recording: true, spans, ..Kept::default() });
    }

    #[test]
    fn spans_of_other_traces_and_false_positions_are_garbled() {
        let (traces, server) = (traces(), server());
        let short = Span { span_id: vec![1; 7], ..span(7, 1) };
        let no_trace = Span { trace_id: vec![7], ..span(7, 1) };
        let second = [
            (page([span(9, 9)], false), "not asked for"),
            (page([no_trace], false), "not asked for"),
            (page([short], false), "8 bytes"),
            (page([span(7, 5)], false), "out of order"),
            (page([span(7, 4)], false), "out of order"),
            (page([span(8, 2), span(8, 1)], false), "out of order"),
            (page([], true), "without spans"),
            (page((6..=6 + PAGE_SPANS as u64).map(|id| span(7, id)), false), "more than 1000"),
            (SpansAnswer { spans: vec![Bytes::from_static(&[0xff])], ..SpansAnswer::default() }, ""),
        ];
        for (page, why) in second {
            let mut received = Received::new(&server, &traces);
            assert_eq!(received.add(&self::page([span(7, 5)], true)), Ok(true));
            let error = received.add(&page).unwrap_err();
            assert!(matches!(&error, AskError::Garbled(text) if text.contains(why)), "{why}: {error}");
        }
    }

    #[test]
    fn the_spans_and_bytes_of_traces_are_bounded() {
        let (traces, server) = (traces(), server());
        let node = Identity::new(Role::Node, "n1").unwrap();
        // Spans that are refused count too.
        let mut refused = Received::new(&node, &traces);
        for first in (0..MAX_SPANS as u64).step_by(PAGE_SPANS) {
            let more = refused.add(&page((first..first + PAGE_SPANS as u64).map(|id| span(7, id)), true)).unwrap();
            assert_eq!(more, first + (PAGE_SPANS as u64) < MAX_SPANS as u64);
        }
        let kept = refused.finish(false);
        assert_eq!((kept.spans.len(), kept.refused, kept.truncated), (0, MAX_SPANS, true));
        let mut many = Received::new(&server, &traces);
        let pages = (0_u64..).step_by(PAGE_SPANS).map(|first| first..first + PAGE_SPANS as u64);
        let asked = pages.take_while(|ids| many.add(&page(ids.clone().map(|id| span(7, id)), true)).unwrap()).count();
        assert_eq!(asked + 1, MAX_SPANS / PAGE_SPANS);
        let kept = many.finish(false);
        assert_eq!((kept.spans.len(), kept.truncated), (MAX_SPANS, true));

        let mut large = Received::new(&server, &traces);
        let megabyte = "x".repeat(1 << 20);
        let one = |id| page([Span { name: megabyte.clone(), ..span(7, id) }], true);
        let asked = (0..).take_while(|id| large.add(&one(*id)).unwrap()).count();
        let kept = large.finish(false);
        assert_eq!((asked, kept.spans.len(), kept.truncated), (3, 3, true), "a span is larger than its name");
    }
}
