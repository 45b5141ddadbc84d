//! How the SDK's spans are sampled.

use opentelemetry::trace::{Link, SpanKind, TraceContextExt as _, TraceId, TraceState};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SamplingDecision, SamplingResult, ShouldSample};

use super::ratio::Ratio;

/// Decides once at the root of a trace whether its spans are exported. Spans of work below a request begin only if they are; steps and requests are recorded without the SDK, also for the ring alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// Share of the traces that begin here.
    pub ratio: Ratio,
    /// Whether the sampled flag of a trusted remote parent decides for its trace; otherwise the ratio does.
    pub parent_based: bool,
}

impl Sampler {
    /// Samples the ratio of the traces that begin here, and follows trusted parents (upstream's components; OpenTelemetry's `parentbased_traceidratio`).
    #[must_use]
    pub const fn parent_based(ratio: Ratio) -> Self {
        Self { ratio, parent_based: true }
    }

    /// Decides for a trace with the given parent: `Some` of whether it is remote and sampled.
    pub(crate) fn samples(self, trace: TraceId, parent: Option<(bool, bool)>) -> bool {
        match parent {
            // A trace that began in this process has its decision.
            Some((false, sampled)) => sampled,
            Some((true, sampled)) if self.parent_based => sampled,
            _ => self.ratio.samples(trace),
        }
    }
}

impl ShouldSample for Sampler {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        _name: &str,
        _kind: &SpanKind,
        _attributes: &[KeyValue],
        _links: &[Link],
    ) -> SamplingResult {
        let parent = parent.filter(|parent| parent.span().span_context().is_valid()).map(|parent| {
            let span = parent.span();
            let context = span.span_context();
            (context.is_remote(), context.is_sampled())
        });
        let sampled = self.samples(trace, parent);
        let decision = if sampled { SamplingDecision::RecordAndSample } else { SamplingDecision::Drop };
        SamplingResult { decision, attributes: Vec::new(), trace_state: TraceState::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_decides_before_the_ratio() {
        let sampler = Sampler::parent_based(Ratio::NONE);
        let trace = TraceId::from(1);
        assert!(sampler.samples(trace, Some((true, true))));
        assert!(sampler.samples(trace, Some((false, true))));
        assert!(!sampler.samples(trace, None));
        assert!(!Sampler::parent_based(Ratio::ALL).samples(trace, Some((true, false))));
    }

    #[test]
    fn without_parents_a_remote_one_decides_nothing() {
        let sampler = |ratio| Sampler { ratio, parent_based: false };
        let trace = TraceId::from(1);
        assert!(!sampler(Ratio::NONE).samples(trace, Some((true, true))));
        assert!(sampler(Ratio::ALL).samples(trace, Some((true, false))));
        // The trace's decision was made at its root in this process.
        assert!(sampler(Ratio::NONE).samples(trace, Some((false, true))));
    }
}
