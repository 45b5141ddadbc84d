//! The share of traces that are exported.

use opentelemetry::trace::TraceId;

/// Number of bits of a trace id that are random (OpenTelemetry, "TraceState: probability sampling"): the lowest 56. A random UUID has its fixed bits above these.
const RANDOM_BITS: u32 = 56;

const MILLION: u32 = 1_000_000;

/// The share of traces that are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    per_million: u32,
}

impl Ratio {
    /// No trace.
    pub const NONE: Self = Self { per_million: 0 };
    /// Every trace.
    pub const ALL: Self = Self { per_million: MILLION };

    /// Creates a ratio from the number of sampled traces per million; `None` above a million.
    #[must_use]
    pub const fn per_million(per_million: u32) -> Option<Self> {
        if per_million <= MILLION { Some(Self { per_million }) } else { None }
    }

    /// Creates a ratio from a fraction; `None` outside 0 to 1.
    #[must_use]
    pub fn fraction(fraction: f64) -> Option<Self> {
        let in_range = (0.0..=1.0).contains(&fraction);
        in_range.then(|| Self { per_million: (fraction * f64::from(MILLION)).round() as u32 })
    }

    /// Whether a trace is sampled. The decision depends on the id alone and is the one of OpenTelemetry's consistent probability sampling: a trace that is sampled at some ratio is
    /// sampled at every higher one. A trace without an id is not sampled.
    #[must_use]
    pub fn samples(self, trace: TraceId) -> bool {
        let id = u128::from_be_bytes(trace.to_bytes());
        let random = id as u64 & ((1 << RANDOM_BITS) - 1);
        let rejected = u128::from(MILLION - self.per_million) * (1 << RANDOM_BITS) / u128::from(MILLION);
        id != 0 && u128::from(random) >= rejected
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ends_of_the_range_sample_none_and_all() {
        for id in [1, u128::MAX, u128::MAX << RANDOM_BITS, (1 << RANDOM_BITS) - 1] {
            let trace = TraceId::from(id);
            assert_eq!((Ratio::NONE.samples(trace), Ratio::ALL.samples(trace)), (false, true), "{id:x}");
        }
        assert!(!Ratio::ALL.samples(TraceId::INVALID));
    }

    #[test]
    fn what_is_no_share_is_no_ratio() {
        assert_eq!((Ratio::per_million(1_000_001), Ratio::fraction(1.1), Ratio::fraction(-0.1)), (None, None, None));
        assert_eq!((Ratio::fraction(f64::NAN), Ratio::fraction(0.25)), (None, Ratio::per_million(250_000)));
    }

    proptest! {
        #[test]
        fn a_sampled_trace_is_sampled_at_every_higher_ratio(id in 1..=u128::MAX, low in 0..=MILLION, high in 0..=MILLION) {
            let samples = |ratio| Ratio::per_million(ratio).unwrap().samples(TraceId::from(id));
            prop_assert!(!samples(low.min(high)) || samples(low.max(high)));
        }
    }
}
