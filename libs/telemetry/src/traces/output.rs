//! Where ended spans go.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};

use super::begins::Begins;
use super::limits;
use super::metrics;
use super::queue::ExportQueue;
use super::ring::Ring;
use super::step::Step;

/// The span processor of the process: each ended span is kept in the ring, each sampled one is queued for the exporter as well. It never waits.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) ring: Ring,
    pub(crate) queue: Option<Arc<ExportQueue>>,
    pub(crate) begins: Arc<Begins>,
}

impl Output {
    /// Takes a step of a life.
    pub(crate) fn life(&self, step: Step) {
        let step = self.begins.correct(step);
        self.export(&step);
        self.ring.push_life(&step);
    }

    /// Takes the span of a request.
    pub(crate) fn request(&self, step: &Step) {
        self.export(step);
        self.ring.push_request(step);
    }

    fn export(&self, step: &Step) {
        if let Some(queue) = self.queue.as_ref().filter(|_| step.context().is_sampled()) {
            queue.push(Arc::new(step.finish()));
        }
    }

    /// Takes a span of the SDK: of work below a request. The sampler lets none begin that is not exported.
    fn work(&self, mut span: SpanData) {
        for attribute in &mut span.attributes {
            limits::cut_attribute(attribute);
        }
        let span = Arc::new(span);
        if let Some(queue) = &self.queue {
            queue.push(Arc::clone(&span));
        }
        self.ring.push_work(span);
    }
}

impl SpanProcessor for Output {
    fn on_start(&self, _span: &mut Span, _context: &Context) {
        metrics::count_begun();
    }

    fn on_end(&self, span: SpanData) {
        metrics::count_ended();
        self.work(span);
    }

    /// Does nothing: the exporter drives itself, and nobody waits for it.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    /// Does nothing: the exporter ends with the actors of the process.
    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}
