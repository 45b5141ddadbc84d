//! The tracer of a process.

use std::sync::Arc;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, SpanLimits};

use super::limits::{MAX_ATTRIBUTES, MAX_LINKS};
use super::output::Output;
use super::queue::ExportQueue;
use super::ring::Ring;
use super::sampler::Sampler;
use super::step::SCOPE;

/// Bytes of the ring for spans of lives: some 20,000, more than a thousand pods with their owners have.
const LIVES: usize = 2 << 20;
/// Bytes of the ring for spans of requests: some 6,000.
const REQUESTS: usize = 384 << 10;

/// How a process traces.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which traces are exported.
    pub sampler: Sampler,
    /// Bytes of the ring for spans of lives.
    pub lives: usize,
    /// Bytes of the ring for spans of requests.
    pub requests: usize,
    /// The queue of the exporter; `None` if spans stay in the ring.
    pub queue: Option<Arc<ExportQueue>>,
}

impl Settings {
    /// Keeps spans in the ring and exports none. No trace is sampled, also none that a client samples: other processes hear that no collector gets the spans of this one.
    #[must_use]
    pub const fn ring() -> Self {
        let sampler = Sampler { ratio: super::ratio::Ratio::NONE, parent_based: false };
        Self { sampler, lives: LIVES, requests: REQUESTS, queue: None }
    }

    /// Keeps spans in the ring and queues sampled ones for the exporter.
    #[must_use]
    pub const fn exported(sampler: Sampler, queue: Arc<ExportQueue>) -> Self {
        Self { sampler, lives: LIVES, requests: REQUESTS, queue: Some(queue) }
    }
}

/// The sampler, the output and the provider that record the spans of a process.
#[derive(Debug)]
pub(crate) struct Traces {
    pub(crate) sampler: Sampler,
    pub(crate) output: Output,
    provider: SdkTracerProvider,
}

impl Traces {
    pub(crate) fn new(settings: Settings) -> Self {
        let output = Output {
            ring: Ring::new(settings.lives, settings.requests),
            queue: settings.queue,
            begins: Arc::default(),
        };
        let limits = SpanLimits {
            max_events_per_span: 0,
            max_attributes_per_span: MAX_ATTRIBUTES as u32,
            max_links_per_span: MAX_LINKS as u32,
            max_attributes_per_event: 0,
            max_attributes_per_link: 4,
        };
        let provider = SdkTracerProvider::builder()
            .with_sampler(settings.sampler)
            .with_span_limits(limits)
            // The exporter knows the resource; the provider's own would only be read from the environment once more.
            .with_resource(Resource::builder_empty().build())
            .with_span_processor(output.clone())
            .build();
        Self { sampler: settings.sampler, output, provider }
    }

    pub(crate) fn tracer(&self) -> SdkTracer {
        self.provider.tracer(SCOPE)
    }
}
