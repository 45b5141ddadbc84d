//! A histogram that remembers a trace for each bucket.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::{MetricType, TypedMetric};

use super::exemplar::ExemplarLabels;
use super::exemplar_text::{self, Exemplar};
use super::histogram::Histogram;

/// A [`Histogram`] with the last exemplar of each bucket. An observation without an exemplar takes no lock. One with an exemplar waits for none: while another thread has the
/// exemplars, the observation counts and its exemplar is lost. (The histogram of `prometheus-client` takes two locks for each observation.) Clones are the same histogram.
#[derive(Clone, Debug)]
pub struct HistogramWithExemplars {
    counts: Histogram,
    /// By index of the bucket.
    exemplars: Arc<Mutex<BTreeMap<usize, Exemplar>>>,
}

impl HistogramWithExemplars {
    /// Creates a histogram with these upper bounds, which must rise.
    pub fn new(bounds: impl IntoIterator<Item = f64>) -> Self {
        Self { counts: Histogram::new(bounds), exemplars: Arc::default() }
    }

    /// Counts a value, with the trace of the observed work if a collector has it, and with the time of the observation.
    pub fn observe(&self, value: f64, labels: Option<ExemplarLabels>, time: Option<SystemTime>) {
        let bucket = self.counts.observe_and_bucket(value);
        if let Some(labels) = labels
            && let Some(mut exemplars) = self.exemplars.try_lock()
        {
            exemplars.insert(bucket, Exemplar { labels, value, time });
        }
    }
}

impl TypedMetric for HistogramWithExemplars {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for HistogramWithExemplars {
    fn encode(&self, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let exemplars = self.exemplars.lock().clone();
        exemplar_text::beside(&exemplars, || self.counts.encode(encoder))
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::super::{Format, encode};
    use super::*;

    fn trace(id: &str) -> Option<ExemplarLabels> {
        Some([("trace_id", id.to_owned())])
    }

    fn buckets(histogram: &HistogramWithExemplars) -> Vec<String> {
        let mut registry = Registry::default();
        registry.register("time", "Time", histogram.clone());
        let text = encode(Format::OpenMetrics, [&registry]);
        text.lines().filter_map(|line| line.strip_prefix("time_bucket")).map(str::to_owned).collect()
    }

    #[test]
    fn a_bucket_shows_its_last_exemplar() {
        let histogram = HistogramWithExemplars::new([0.1, 1.0]);
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_250);
        histogram.observe(0.05, None, None);
        histogram.observe(0.5, trace("aa"), None);
        histogram.observe(0.25, trace("bb"), Some(at));
        histogram.observe(7.0, trace("cc"), None);
        assert_eq!(
            buckets(&histogram),
            [
                "{le=\"0.1\"} 1",
                "{le=\"1.0\"} 3 # {trace_id=\"bb\"} 0.25 1700000000.25",
                "{le=\"+Inf\"} 4 # {trace_id=\"cc\"} 7.0"
            ]
        );
    }

    #[test]
    fn an_observation_waits_for_no_exemplars() {
        let histogram = HistogramWithExemplars::new([1.0]);
        {
            let _held = histogram.exemplars.lock();
            histogram.observe(0.5, None, None);
            histogram.observe(0.5, trace("aa"), None);
        }
        assert_eq!(buckets(&histogram), ["{le=\"1.0\"} 2", "{le=\"+Inf\"} 2"]);
    }
}
