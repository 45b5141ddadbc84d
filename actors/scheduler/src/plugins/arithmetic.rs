//! Integer arithmetic of upstream's score formulas in floating point, so that loops over columns vectorise.
//!
//! All operands are whole numbers below 2^53 and so exact. A quotient that is no integer keeps a distance of
//! at least 1/divisor from the next one; with divisors below 2^46 and quotients up to 100 that is more than
//! half a unit in the last place, so rounding never lifts a quotient onto an integer and `floor` is exact.

use crate::framework::MAX_SCORE;

/// Addend that rounds a float of small magnitude to an integer in the low bits of the mantissa.
const SHIFT: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// Returns the largest integer not above a non-negative `value` of small magnitude, without a conversion.
#[inline(always)]
pub(crate) fn floor(value: f64) -> f64 {
    let rounded = (value + SHIFT) - SHIFT;
    if rounded > value { rounded - 1.0 } else { rounded }
}

/// Returns a small whole float as an integer.
#[inline(always)]
pub(crate) fn whole(value: f64) -> i32 {
    (value + SHIFT).to_bits() as i32
}

/// Returns the unused part of a capacity as a score of 0..=100 (upstream: `leastRequestedScore`); 0 without capacity.
#[inline(always)]
pub(crate) fn unused(capacity: f64, wanted: f64) -> f64 {
    let rest = capacity - wanted;
    let score = floor(rest * f64::from(MAX_SCORE) / capacity);
    if (capacity > 0.0) & (rest >= 0.0) { score } else { 0.0 }
}

/// Returns the used part of a capacity, at most 1.
#[inline(always)]
pub(crate) fn fraction(capacity: f64, used: f64) -> f64 {
    let part = used / capacity;
    if part > 1.0 { 1.0 } else { part }
}
