//! Bounds of histograms, as upstream computes them.

/// Returns `count` bounds, each `factor` times the one before (`prometheus.ExponentialBuckets`). Every bound is rounded like upstream's, which multiplies step by step, so that the
/// texts of both are equal.
pub fn exponential(start: f64, factor: f64, count: usize) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(start), move |last| Some(last * factor)).take(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_multiplied_step_by_step() {
        assert_eq!(exponential(1.0, 2.0, 5).collect::<Vec<_>>(), [1.0, 2.0, 4.0, 8.0, 16.0]);
        // Ten powers of ten from 10 ns, as `workqueue_queue_duration_seconds` has them.
        let bounds: Vec<f64> = exponential(10e-9, 10.0, 10).collect();
        assert_eq!(bounds.first(), Some(&1e-8));
        assert!(bounds.last().is_some_and(|last| (last - 10.0).abs() < 1e-9), "{bounds:?}");
    }
}
