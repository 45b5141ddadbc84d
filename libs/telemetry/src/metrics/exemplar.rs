//! Exemplars: the trace of one observation, beside the bucket that counts the observation (OpenMetrics alone).

use oarlock_seeded_bug::seeded_bug;
use opentelemetry::trace::SpanContext;

/// Labels of an exemplar. Grafana and Prometheus look for a trace under the name `trace_id`.
pub type ExemplarLabels = [(&'static str, String); 1];

/// Returns the exemplar of work in a span; `None` unless the span is sampled, because no collector has the others.
#[must_use]
pub fn exemplar(span: &SpanContext) -> Option<ExemplarLabels> {
    let sampled = span.is_sampled() || seeded_bug!("exemplar_without_a_trace");
    (span.is_valid() && sampled).then(|| [("trace_id", span.trace_id().to_string())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::{Change, Ratio};

    #[test]
    fn only_a_sampled_span_is_an_exemplar() {
        let change = Change::new("3f2a9c1e-0000-4000-8000-00000000abcd", 1);
        let all = Ratio::per_million(1_000_000).unwrap();
        assert_eq!(exemplar(&change.sampled(all)), Some([("trace_id", "3f2a9c1e00004000800000000000abcd".to_owned())]));
        assert_eq!(exemplar(&change.sampled(Ratio::NONE)), None);
        assert_eq!(exemplar(&SpanContext::NONE), None);
    }
}
