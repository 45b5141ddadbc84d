//! Where ended spans go.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};

use super::begins::Begins;
use super::limits;
use super::links::{self, RELATION};
use super::metrics;
use super::queue::ExportQueue;
use super::ring::Ring;

/// The span processor of the process: each ended span is kept in the ring, each sampled one is queued for the exporter as well. It never waits.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) ring: Ring,
    pub(crate) queue: Option<Arc<ExportQueue>>,
    pub(crate) begins: Arc<Begins>,
}

impl Output {
    /// Takes a span of a life.
    pub(crate) fn life(&self, mut span: SpanData) {
        self.begins.correct(&mut span);
        let span = self.export(span);
        self.ring.push_life(span);
    }

    /// Takes a span of a request.
    fn request(&self, mut span: SpanData) {
        for attribute in &mut span.attributes {
            limits::cut_attribute(attribute);
        }
        for link in span.links.iter() {
            if let Some(relation) = link.attributes.iter().find(|known| known.key.as_str() == RELATION) {
                links::repeat(&mut span.attributes, &relation.value.as_str(), &link.span_context);
            }
        }
        let span = self.export(span);
        self.ring.push_request(span);
    }

    fn export(&self, span: SpanData) -> Arc<SpanData> {
        let span = Arc::new(span);
        if let Some(queue) = self.queue.as_ref().filter(|_| span.span_context.is_sampled()) {
            queue.push(Arc::clone(&span));
        }
        span
    }
}

impl SpanProcessor for Output {
    fn on_start(&self, _span: &mut Span, _context: &Context) {
        metrics::count_begun();
    }

    fn on_end(&self, span: SpanData) {
        metrics::count_ended();
        self.request(span);
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
