//! A histogram for work that happens with every request.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// A histogram whose observations take no lock and allocate nothing. (That of `prometheus-client` has a mutex, which all requests would share.) Clones are the same histogram.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    /// Upper bounds in rising order, each with the number of observations above the bound before; the last is infinite.
    buckets: Box<[(f64, AtomicU64)]>,
    /// Sum of the observations, as the bits of a floating-point number.
    sum: AtomicU64,
}

impl Histogram {
    /// Creates a histogram with these upper bounds, which must rise.
    pub fn new(bounds: impl IntoIterator<Item = f64>) -> Self {
        let bounds = bounds.into_iter().chain([f64::INFINITY]);
        let buckets = bounds.map(|bound| (bound, AtomicU64::new(0))).collect();
        Self(Arc::new(Parts { buckets, sum: AtomicU64::new(0) }))
    }

    /// Counts a value.
    pub fn observe(&self, value: f64) {
        self.observe_and_bucket(value);
    }

    /// Counts a value; returns the index of its bucket.
    pub(super) fn observe_and_bucket(&self, value: f64) -> usize {
        let Parts { buckets, sum } = &*self.0;
        let at = buckets.partition_point(|(bound, _)| *bound < value);
        if let Some((_, count)) = buckets.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        // The update never declines, so it succeeds in the end.
        let _ = sum
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bits| Some((f64::from_bits(bits) + value).to_bits()));
        at
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let buckets: Vec<(f64, u64)> =
            self.0.buckets.iter().map(|(bound, count)| (*bound, count.load(Ordering::Relaxed))).collect();
        // The total is computed from the buckets, so that both agree while values are being observed.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = f64::from_bits(self.0.sum.load(Ordering::Relaxed));
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
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

    #[test]
    fn a_value_counts_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new([0.1, 1.0]);
        for value in [0.05, 0.1, 0.5, 7.0] {
            histogram.observe(value);
        }
        let mut registry = Registry::default();
        registry.register("time", "Time", histogram);
        let text = encode(Format::Plain, [&registry]);
        for line in [
            "time_sum 7.65",
            "time_count 4",
            "time_bucket{le=\"0.1\"} 2",
            "time_bucket{le=\"1\"} 3",
            "time_bucket{le=\"+Inf\"} 4",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }

    #[test]
    fn no_observation_of_several_threads_is_lost() {
        let histogram = Histogram::new([1.0]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| histogram.observe(0.5)));
            }
        });
        let counts: u64 = histogram.0.buckets.iter().map(|(_, count)| count.load(Ordering::Relaxed)).sum();
        assert_eq!((counts, f64::from_bits(histogram.0.sum.load(Ordering::Relaxed))), (4000, 2000.0));
    }
}
