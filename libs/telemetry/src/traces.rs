//! Traces of requests and of objects' lives (docs/adr/0007-traces.md).
//!
//! There are two ways in. Requests, and all work of an object's life, which outlives tasks and moves between processes, are [`Step`]s that are recorded when they have ended: in the process's
//! [`Ring`] and, when they are sampled, in the queue of the exporter. Work below a request, such as a call to etcd, is a `tracing` span of the target [`TARGET`], bound to its future by
//! `.instrument`. Such spans begin only below a span that is exported.
//!
//! Tracing is off until [`start`] is called: spans of the target are disabled, [`record()`] does not call its closure, and nothing is allocated.

mod begins;
mod bridge;
mod bytes;
mod change;
mod fields;
mod id;
pub mod limits;
mod links;
mod log;
mod metrics;
mod output;
mod provider;
mod queue;
mod ratio;
mod record;
mod recorders;
mod ring;
mod sampler;
mod step;
mod subject;
pub mod traceparent;
mod words;

use std::sync::{Arc, OnceLock};

use opentelemetry::context::FutureExt as _;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceState};
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

pub use bridge::adopt;
pub use change::Change;
pub use links::RELATION;
pub use metrics::{DropReason, OpenSpan};
pub use opentelemetry;
pub use opentelemetry_sdk;
pub use provider::Settings;
pub use queue::ExportQueue;
pub use ratio::Ratio;
pub use recorders::Recorder;
pub use ring::Ring;
pub use sampler::Sampler;
pub use step::Step;
pub use subject::Subject;

use metrics::Spans;
use provider::Traces;

/// Target of the `tracing` spans that are spans of a trace. Spans of other targets belong to the logs alone.
pub const TARGET: &str = "oarlock::trace";

static TRACES: OnceLock<Traces> = OnceLock::new();

/// Starts to trace. It is called before [`crate::init_logs`], which installs [`layer`], and changes nothing when it was called before: the first settings stay. Returns whether these settings hold.
pub fn start(settings: Settings) -> bool {
    let mut settings = Some(settings);
    TRACES.get_or_init(|| {
        crate::registry().declare(|registry| registry.register_collector(Box::new(Spans)));
        Traces::new(settings.take().unwrap_or_else(Settings::ring))
    });
    settings.is_none()
}

/// Whether spans are recorded.
#[must_use]
pub fn recording() -> bool {
    TRACES.get().is_some()
}

/// Whether spans are exported, and not only kept in the ring.
#[must_use]
pub fn exporting() -> bool {
    TRACES.get().is_some_and(|traces| traces.output.queue.is_some())
}

/// Records a step of a life. Nothing happens when tracing is off, not even the call of `step`, and with a step of an object without a UID.
pub fn record(step: impl FnOnce() -> Step) {
    if let Some(traces) = TRACES.get() {
        let step = step();
        debug_assert!(
            step.parent() == SpanId::INVALID || Recorder::of(step.name()).is_some(),
            "the step {:?} has no recorder",
            step.name()
        );
        if step.context().is_valid() {
            traces.output.life(step);
        }
    }
}

/// Records the span of a request, made by [`Step::request`]. Nothing happens when tracing is off, not even the call of `step`.
pub fn record_request(step: impl FnOnce() -> Step) {
    if let Some(traces) = TRACES.get() {
        traces.output.request(&step());
    }
}

/// Returns the context of a request that begins: in the trace of the client's span if that counts, else as the root of a trace of its own, whose id is derived from that of the trace. The sampler decides whether it is exported. `None` when tracing is off.
#[must_use]
pub fn request_context(client: Option<&SpanContext>) -> Option<SpanContext> {
    let traces = TRACES.get()?;
    let ids = RandomIdGenerator::default();
    let (trace, span) = match client {
        Some(client) => (client.trace_id(), ids.new_span_id()),
        None => {
            let trace = ids.new_trace_id();
            (trace, change::roots(trace)(0))
        }
    };
    let sampled = traces.sampler.samples(trace, client.map(|client| (true, client.is_sampled())));
    let flags = TraceFlags::default().with_sampled(sampled);
    Some(SpanContext::new(trace, span, flags, false, TraceState::NONE))
}

/// Returns the context of the span that runs; an invalid one outside every span and when tracing is off.
#[must_use]
pub fn current() -> SpanContext {
    opentelemetry::Context::map_current(|context| context.span().span_context().clone())
}

/// Runs `work` inside a span of another task or process: spans of the work are its children. `None` and an invalid context stand for no span.
pub fn within<F: Future>(span: Option<SpanContext>, work: F) -> impl Future<Output = F::Output> {
    let context = opentelemetry::Context::new();
    work.with_context(match span.filter(SpanContext::is_valid) {
        Some(span) => context.with_remote_span_context(span),
        None => context,
    })
}

/// Returns the process's spans; `None` when tracing is off.
#[must_use]
pub fn ring() -> Option<Ring> {
    TRACES.get().map(|traces| traces.output.ring.clone())
}

/// Returns the number of spans of work inside tasks that have begun and not ended. Steps of lives are never open.
#[must_use]
pub fn open() -> u64 {
    metrics::open()
}

/// Returns the queue of the exporter; `None` when spans are not exported.
#[must_use]
pub fn queue() -> Option<Arc<ExportQueue>> {
    TRACES.get()?.output.queue.clone()
}

/// The share of lives that are sampled.
fn ratio() -> Ratio {
    TRACES.get().map_or(Ratio::NONE, |traces| traces.sampler.ratio)
}

/// Returns the layer that makes spans of traces from the `tracing` spans of [`TARGET`]; `None` when no span is exported.
pub fn layer<S>() -> Option<impl Layer<S> + Send + Sync + use<S>>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    let layer = tracing_opentelemetry::layer()
        .with_tracer(TRACES.get().filter(|_| exporting())?.tracer())
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_level(false)
        .with_target(false);
    Some(layer.with_filter(filter_fn(|metadata| metadata.target() == TARGET)))
}

/// Keeps the spans of [`TARGET`] out of the logs.
pub(crate) fn without_traces<S>() -> impl tracing_subscriber::layer::Filter<S> {
    filter_fn(|metadata: &tracing::Metadata<'_>| metadata.target() == TARGET).not()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_spans_of_their_own() {
        start(Settings::ring());
        let client = traceparent::parse("00-00000000000000000000000000000e03-0000000000000012-01").unwrap();
        for client in [Some(&client), None] {
            let served = [(); 2].map(|()| request_context(client).unwrap());
            assert!(served.iter().all(SpanContext::is_valid));
            assert_ne!(served[0].span_id(), served[1].span_id());
            assert_eq!(served[0].trace_id() == served[1].trace_id(), client.is_some());
        }
    }

    #[test]
    fn a_process_that_exports_nothing_samples_nothing_and_keeps_its_spans() {
        start(Settings::ring());
        let life = Change::new("6d0a3c52-9e1f-4b7a-8c55-00000000e001", 1);
        record(|| Step::of(&life, "bind"));
        let client = traceparent::parse("00-00000000000000000000000000000e02-0000000000000012-01").unwrap();
        let served = request_context(Some(&client)).unwrap();
        record_request(|| Step::request(served.clone(), Some(&client), "GET /version"));
        for context in [life.context(), served, request_context(None).unwrap()] {
            let text = traceparent::text(&context).unwrap();
            assert!(text.ends_with("-00"), "{text}");
        }
        let kept = |trace| ring().unwrap().trace(trace).len();
        assert_eq!([kept(life.trace()), kept(client.trace_id())], [1, 1]);
    }
}
