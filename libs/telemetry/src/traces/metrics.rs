//! Counts of spans.

use std::fmt;
use std::sync::LazyLock;

use oarlock_seeded_bug::seeded_bug;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// Why a sampled span was not exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The exporter's queue was full.
    QueueFull,
    /// The collector could not be reached, did not answer in time, or refused the batch.
    Failed,
    /// The process ended before the spans could be sent.
    Shutdown,
}

impl DropReason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Failed => "failed",
            Self::Shutdown => "shutdown",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    reason: &'static str,
}

struct Families {
    exported: Counter,
    dropped: Family<Labels, Counter>,
    open: Gauge,
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let families = Families { exported: Counter::default(), dropped: Family::default(), open: Gauge::default() };
    crate::registry().declare(|registry| {
        registry.register("oarlock_spans_exported", "Spans that a collector has accepted", families.exported.clone());
        registry.register(
            "oarlock_spans_dropped",
            "Sampled spans that were not exported, by reason",
            families.dropped.clone(),
        );
        registry.register(
            "oarlock_spans_open",
            "Spans of requests, and of work below requests, that have not ended",
            families.open.clone(),
        );
    });
    families
});

/// Counts a span as open until it is dropped.
#[derive(Debug)]
pub struct OpenSpan(());

impl OpenSpan {
    /// Counts a span that begins.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "to count is an effect")]
    pub fn new() -> Self {
        count_begun();
        Self(())
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        count_ended();
    }
}

/// Counts a span that begins.
pub(crate) fn count_begun() {
    FAMILIES.open.inc();
}

/// Counts a span that ends.
pub(crate) fn count_ended() {
    if !seeded_bug!("span_left_open") {
        FAMILIES.open.dec();
    }
}

/// Returns the number of spans that have begun and not ended.
pub(crate) fn open() -> u64 {
    u64::try_from(FAMILIES.open.get()).unwrap_or(0)
}

/// Counts spans that a collector has accepted.
pub(crate) fn count_exported(spans: u64) {
    FAMILIES.exported.inc_by(spans);
}

/// Counts sampled spans that are not exported.
pub(crate) fn count_dropped(reason: DropReason, spans: u64) {
    FAMILIES.dropped.get_or_create(&Labels { reason: reason.as_str() }).inc_by(spans);
}

/// Collector of what the process's [ring](super::Ring) of spans holds; empty when tracing is off.
#[derive(Debug)]
pub(crate) struct Spans;

impl Collector for Spans {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(ring) = super::ring() else { return Ok(()) };
        let (lives, requests) = ring.bytes();
        let help = "Estimated bytes of the spans in memory, by what they belong to";
        let mut family = encoder.encode_descriptor("oarlock_trace_ring_bytes", help, None, MetricType::Gauge)?;
        for (of, bytes) in [("lives", lives), ("requests", requests)] {
            family.encode_family(&[("of", of)])?.encode_gauge(&(bytes as u64))?;
        }
        let help = "Spans that newer ones have displaced from memory";
        encoder
            .encode_descriptor("oarlock_trace_ring_evicted", help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&ring.evicted(), None)
    }
}
