//! The ring of ended spans: memory of the process for `oarlock trace`.

use std::collections::VecDeque;
use std::sync::Arc;

use opentelemetry::trace::TraceId;
use opentelemetry_sdk::trace::SpanData;
use parking_lot::Mutex;

use super::limits;

/// The most spans that are looked at under one hold of the lock.
const CHUNK: usize = 1024;

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

    /// Returns the spans that fit a condition: those of lives by their end, then those of requests by theirs. The condition is checked outside the ring's lock, which is held for [`CHUNK`] spans
    /// at a time: work that ends spans is not held up by a search. Spans that end during the search are not looked at.
    pub fn find(&self, fits: impl Fn(&SpanData) -> bool) -> Vec<Arc<SpanData>> {
        let mut found = Vec::new();
        for part in [&self.0.lives, &self.0.requests] {
            let (mut next, end) = (0, part.lock().end());
            while next < end {
                let (first, mut spans) = part.lock().chunk(next);
                next = first + spans.len().max(1) as u64;
                spans.truncate(usize::try_from(end.saturating_sub(first)).unwrap_or(usize::MAX));
                found.extend(spans.into_iter().filter(|span| fits(span)));
            }
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
    /// Returns the number of spans that were ever kept, which is the number of the next one.
    fn end(&self) -> u64 {
        self.evicted + self.spans.len() as u64
    }

    /// Returns at most [`CHUNK`] spans, from the one with this number on, or from the first that is not evicted yet; and the number of the first.
    fn chunk(&self, from: u64) -> (u64, Vec<Arc<SpanData>>) {
        let first = from.max(self.evicted);
        let skip = usize::try_from(first - self.evicted).unwrap_or(usize::MAX).min(self.spans.len());
        let end = skip.saturating_add(CHUNK).min(self.spans.len());
        (first, self.spans.range(skip..end).map(|(span, _)| Arc::clone(span)).collect())
    }

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
    fn a_search_holds_no_lock_while_it_looks_at_a_span_and_finds_what_was_there_when_it_began() {
        let ring = Ring::new(1 << 24, 1 << 24);
        let count = 2 * CHUNK as u64 + 5;
        for id in 1..=count {
            ring.push_request(span(1, id));
        }
        let found = ring.find(|seen| {
            // Both parts are free: under a lock this would hang.
            ring.push_request(span(2, 1));
            ring.push_life(span(2, 2));
            seen.span_context.trace_id() == 1.into()
        });
        assert_eq!(ids(&found), (1..=count).collect::<Vec<_>>());
    }

    #[test]
    fn a_search_goes_on_behind_spans_that_are_evicted_meanwhile() {
        let one = limits::bytes(&span(1, 1));
        let count = 3 * CHUNK as u64;
        let ring = Ring::new(0, usize::try_from(count).unwrap() * one);
        for id in 1..=count {
            ring.push_request(span(1, id));
        }
        let fresh = std::cell::Cell::new(count);
        // Two spans are evicted for each that is looked at.
        let found = ring.find(|_| {
            for _ in 0..2 {
                fresh.set(fresh.get() + 1);
                ring.push_request(span(2, fresh.get()));
            }
            true
        });
        let found = ids(&found);
        assert_eq!(found[..CHUNK], (1..=CHUNK as u64).collect::<Vec<_>>());
        assert!(
            found.len() < usize::try_from(count).unwrap() && found.iter().all(|id| *id <= count),
            "{}",
            found.len()
        );
    }

    #[test]
    fn a_span_larger_than_the_ring_is_not_kept() {
        let ring = Ring::new(10, 10);
        ring.push_request(span(1, 1));
        assert_eq!((ring.bytes(), ring.evicted()), ((0, 0), 1));
    }
}
