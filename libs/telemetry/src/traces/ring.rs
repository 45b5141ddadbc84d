//! The ring of ended spans: memory of the process for `oarlock trace`.

use std::collections::VecDeque;
use std::sync::Arc;

use opentelemetry::trace::TraceId;
use opentelemetry_sdk::trace::SpanData;
use parking_lot::Mutex;

use super::limits;

/// A bounded store of ended spans; clones are the same store. Spans of lives and spans of requests have a bound each, so that no number of requests displaces the life of an object. When a bound
/// is reached, the spans that ended first are evicted.
#[derive(Clone, Debug)]
pub struct Ring(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    lives: Mutex<Part>,
    requests: Mutex<Part>,
}

#[derive(Debug)]
struct Part {
    spans: VecDeque<(Arc<SpanData>, usize)>,
    bytes: usize,
    limit: usize,
    evicted: u64,
}

impl Ring {
    /// Creates a ring with so many bytes for the spans of lives and of requests.
    #[must_use]
    pub fn new(lives: usize, requests: usize) -> Self {
        let part = |limit| Mutex::new(Part { spans: VecDeque::new(), bytes: 0, limit, evicted: 0 });
        Self(Arc::new(Parts { lives: part(lives), requests: part(requests) }))
    }

    /// Keeps a span of a life.
    pub(crate) fn push_life(&self, span: Arc<SpanData>) {
        self.0.lives.lock().push(span);
    }

    /// Keeps a span of a request.
    pub(crate) fn push_request(&self, span: Arc<SpanData>) {
        self.0.requests.lock().push(span);
    }

    /// Returns the spans of a trace: those of a life by their end, then those of requests by theirs.
    #[must_use]
    pub fn trace(&self, trace: TraceId) -> Vec<Arc<SpanData>> {
        self.find(|span| span.span_context.trace_id() == trace)
    }

    /// Returns the spans that fit a condition: those of lives by their end, then those of requests by theirs.
    pub fn find(&self, fits: impl Fn(&SpanData) -> bool) -> Vec<Arc<SpanData>> {
        let mut found = Vec::new();
        for part in [&self.0.lives, &self.0.requests] {
            found.extend(part.lock().spans.iter().filter(|(span, _)| fits(span)).map(|(span, _)| Arc::clone(span)));
        }
        found
    }

    /// Returns the estimated bytes of the spans of lives and of requests.
    #[must_use]
    pub fn bytes(&self) -> (usize, usize) {
        (self.0.lives.lock().bytes, self.0.requests.lock().bytes)
    }

    /// Returns the number of spans that were evicted.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.0.lives.lock().evicted + self.0.requests.lock().evicted
    }
}

impl Part {
    fn push(&mut self, span: Arc<SpanData>) {
        let bytes = limits::bytes(&span);
        self.bytes += bytes;
        self.spans.push_back((span, bytes));
        while self.bytes > self.limit
            && let Some((_, bytes)) = self.spans.pop_front()
        {
            self.bytes -= bytes;
            self.evicted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::Change;
    use super::super::step::Step;
    use super::*;

    /// A span of a trace with an id of its own.
    fn span(trace: u128, id: u64) -> Arc<SpanData> {
        Arc::new(Step::of(&Change::new(&format!("{trace:032x}"), 1), "test").named(id.into()).finish())
    }

    fn ids(spans: &[Arc<SpanData>]) -> Vec<u64> {
        spans.iter().map(|span| u64::from_be_bytes(span.span_context.span_id().to_bytes())).collect()
    }

    #[test]
    fn the_spans_that_ended_first_go_when_the_bytes_are_used_up() {
        let one = limits::bytes(&span(1, 1));
        let ring = Ring::new(0, 10 * one);
        for id in 1..=25 {
            ring.push_request(span(1, id));
        }
        assert_eq!(ids(&ring.trace(1.into())), (16..=25).collect::<Vec<_>>());
        assert_eq!((ring.bytes(), ring.evicted()), ((0, 10 * one), 15));
    }

    #[test]
    fn no_number_of_requests_displaces_a_life() {
        let ring = Ring::new(1 << 20, 10_000);
        ring.push_life(span(7, 1));
        for id in 1..10_000 {
            ring.push_request(span(8, id));
        }
        assert_eq!(ids(&ring.trace(7.into())), [1]);
        assert!(ring.bytes().1 <= 10_000);
    }

    #[test]
    fn a_span_larger_than_the_ring_is_not_kept() {
        let ring = Ring::new(10, 10);
        ring.push_request(span(1, 1));
        assert_eq!((ring.bytes(), ring.evicted()), ((0, 0), 1));
    }
}
