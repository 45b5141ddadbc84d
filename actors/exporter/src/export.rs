//! The exporter's loop.

use std::sync::Arc;
use std::time::Duration;

use oarlock_runtime::{Failure, Instant, LoopCtx, clock};
use oarlock_telemetry::traces::{DropReason, ExportQueue};
use opentelemetry_sdk::trace::SpanData;

use crate::collector::Collector;

#[cfg(test)]
mod tests;

/// How long the exporter may work after it was asked to stop, with the batch in hand and with what waits together: a process with a hanging collector must end within two seconds.
const FLUSH_TIME: Duration = Duration::from_secs(1);
/// How much longer than a request's own deadline a batch may take: the library that sends it ends its attempts by itself.
const MARGIN: Duration = Duration::from_secs(1);

/// The queue, the collector and the time limits with which the export loop works.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) queue: Arc<ExportQueue>,
    pub(crate) collector: Arc<dyn Collector>,
    /// Deadline of a batch, with all attempts to send it.
    pub(crate) timeout: Duration,
    /// The longest time that a span waits for more spans.
    pub(crate) delay: Duration,
}

/// Sends queued spans until the process stops, then what is left, as far as the time permits.
pub(crate) async fn run(ctx: LoopCtx, parts: Parts) -> Result<(), Failure> {
    let mut outage = Outage::default();
    let mut end = None;
    loop {
        let more = async {
            parts.queue.arrival().await;
            // Late or not, what waits is sent.
            let _whole = clock::timeout(parts.delay, parts.queue.batch()).await;
        };
        if ctx.or_stop(more).await.is_none() {
            break;
        }
        let batch = InHand::take(&parts.queue);
        let sent = tokio::select! {
            biased;
            sent = ctx.protected(deliver(&parts, &batch)) => sent,
            () = stop(&ctx, &mut end) => {
                batch.lost(DropReason::Shutdown);
                break;
            }
        };
        outage.note(&sent);
        batch.settle(&sent);
    }
    flush(&parts, end.unwrap_or_else(|| clock::after(FLUSH_TIME))).await;
    Ok(())
}

/// Completes half of the time for the flush after the exporter was asked to stop: the batch in hand has this long. `end` becomes the end of the whole time.
async fn stop(ctx: &LoopCtx, end: &mut Option<Instant>) {
    ctx.cancelled().await;
    end.get_or_insert_with(|| clock::after(FLUSH_TIME));
    clock::sleep(FLUSH_TIME / 2).await;
}

/// Sends what is left, each batch once.
async fn flush(parts: &Parts, deadline: Instant) {
    loop {
        let batch = InHand::take(&parts.queue);
        if batch.spans.is_empty() {
            return;
        }
        match clock::timeout_at(deadline, parts.collector.send(batch.spans())).await {
            Ok(sent) => batch.settle(&sent),
            Err(_) => {
                batch.lost(DropReason::Shutdown);
                loop {
                    let left = InHand::take(&parts.queue);
                    if left.spans.is_empty() {
                        return;
                    }
                    left.lost(DropReason::Shutdown);
                }
            }
        }
    }
}

/// Sends a batch.
async fn deliver(parts: &Parts, batch: &InHand<'_>) -> Result<(), String> {
    let sent = clock::timeout(parts.timeout + MARGIN, parts.collector.send(batch.spans())).await;
    sent.unwrap_or_else(|_| Err(format!("no answer within {:?}", parts.timeout)))
}

/// A batch that was taken from the queue. Dropped unsettled, as by a panic, it counts as failed.
struct InHand<'a> {
    queue: &'a ExportQueue,
    spans: Vec<Arc<SpanData>>,
    settled: bool,
}

impl<'a> InHand<'a> {
    fn take(queue: &'a ExportQueue) -> Self {
        Self { queue, spans: queue.take(), settled: false }
    }

    /// Returns the spans. The ring keeps them too.
    fn spans(&self) -> Vec<SpanData> {
        self.spans.iter().map(|span| SpanData::clone(span)).collect()
    }

    /// Counts the spans of a batch by the collector's answer.
    fn settle(mut self, sent: &Result<(), String>) {
        self.settled = true;
        let spans = self.spans.len() as u64;
        match sent {
            Ok(()) => self.queue.count_exported(spans),
            Err(_) => self.queue.count_dropped(DropReason::Failed, spans),
        }
    }

    /// Counts the spans of a batch as lost.
    fn lost(mut self, reason: DropReason) {
        self.settled = true;
        self.queue.count_dropped(reason, self.spans.len() as u64);
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        if !self.settled && !self.spans.is_empty() {
            self.queue.count_dropped(DropReason::Failed, self.spans.len() as u64);
        }
    }
}

/// Whether the collector was out of reach, so that an outage is logged once.
#[derive(Default)]
struct Outage {
    lasts: bool,
}

impl Outage {
    fn note(&mut self, sent: &Result<(), String>) {
        match sent {
            Ok(_) if self.lasts => tracing::info!("the collector of traces accepts spans again"),
            Err(error) if !self.lasts => tracing::warn!(error, "spans are not exported"),
            _ => {}
        }
        self.lasts = sent.is_err();
    }
}
