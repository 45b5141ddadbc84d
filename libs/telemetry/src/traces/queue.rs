//! The queue between the code that ends spans and the exporter.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry_sdk::trace::SpanData;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::metrics::{self, DropReason};

/// A bounded queue of sampled spans. [`ExportQueue::push`] never waits: a span for which there is no room is dropped and counted.
#[derive(Debug)]
pub struct ExportQueue {
    spans: Mutex<VecDeque<Arc<SpanData>>>,
    capacity: usize,
    /// Number of waiting spans at which the exporter need not wait for more.
    batch: usize,
    arrived: Notify,
    full: Notify,
    exported: AtomicU64,
    dropped: [AtomicU64; 3],
}

impl ExportQueue {
    /// Creates a queue for so many spans, which are exported in batches of at most `batch`.
    #[must_use]
    pub fn new(capacity: usize, batch: usize) -> Self {
        Self {
            spans: Mutex::default(),
            capacity,
            batch: batch.clamp(1, capacity.max(1)),
            arrived: Notify::new(),
            full: Notify::new(),
            exported: AtomicU64::new(0),
            dropped: Default::default(),
        }
    }

    /// Queues a span; drops it when there is no room.
    pub fn push(&self, span: Arc<SpanData>) {
        let waiting = {
            let mut spans = self.spans.lock();
            if spans.len() >= self.capacity {
                drop(spans);
                return self.count_dropped(DropReason::QueueFull, 1);
            }
            spans.push_back(span);
            spans.len()
        };
        // `notify_one` keeps one permit, so a notice between two waits is not lost.
        if waiting == 1 {
            self.arrived.notify_one();
        }
        if waiting >= self.batch {
            self.full.notify_one();
        }
    }

    /// Takes the spans that arrived first, at most one batch.
    #[must_use]
    pub fn take(&self) -> Vec<Arc<SpanData>> {
        let mut spans = self.spans.lock();
        let count = spans.len().min(self.batch);
        spans.drain(..count).collect()
    }

    /// Returns the number of waiting spans.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.lock().len()
    }

    /// Whether no span waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts spans that a collector has accepted.
    pub fn count_exported(&self, spans: u64) {
        self.exported.fetch_add(spans, Ordering::Relaxed);
        metrics::count_exported(spans);
    }

    /// Counts sampled spans that are not exported.
    pub fn count_dropped(&self, reason: DropReason, spans: u64) {
        if let Some(count) = self.dropped.get(reason as usize) {
            count.fetch_add(spans, Ordering::Relaxed);
        }
        metrics::count_dropped(reason, spans);
    }

    /// Returns the number of spans that a collector has accepted.
    #[must_use]
    pub fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// Returns the number of spans that were dropped for a reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped.get(reason as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Waits until a span waits. Cancel safe.
    pub async fn arrival(&self) {
        while self.is_empty() {
            self.arrived.notified().await;
        }
    }

    /// Waits until a whole batch waits. Cancel safe.
    pub async fn batch(&self) {
        while self.len() < self.batch {
            self.full.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::super::change::Change;
    use super::super::step::Step;
    use super::*;

    fn span(id: u64) -> Arc<SpanData> {
        Arc::new(Step::of(&Change::new("test", 1), "test").named(id.into()).finish())
    }

    #[test]
    fn a_full_queue_drops_what_comes_and_counts_it() {
        let queue = ExportQueue::new(3, 2);
        for id in 1..=5 {
            queue.push(span(id));
        }
        assert_eq!((queue.dropped(DropReason::QueueFull), queue.dropped(DropReason::Failed)), (2, 0));
        let ids = |spans: &[Arc<SpanData>]| spans.iter().map(|span| span.span_context.span_id()).collect::<Vec<_>>();
        assert_eq!(ids(&queue.take()), [1.into(), 2.into()]);
        assert_eq!((ids(&queue.take()), queue.take().len()), (vec![3.into()], 0));
    }

    #[test]
    fn the_waits_end_with_the_first_span_and_the_whole_batch() {
        let queue = ExportQueue::new(8, 2);
        assert!(queue.arrival().now_or_never().is_none());
        queue.push(span(1));
        assert!(queue.arrival().now_or_never().is_some());
        assert!(queue.batch().now_or_never().is_none());
        queue.push(span(2));
        assert!(queue.batch().now_or_never().is_some());
        assert_eq!(queue.take().len(), 2);
        assert!(queue.arrival().now_or_never().is_none());
    }
}
