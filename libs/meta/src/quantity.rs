//! Quantities: exact decimal numbers with a suffix, such as `500m` or `1Gi` (upstream `resource.Quantity`).
//!
//! A quantity is a whole mantissa times a power of ten, never a float. The mantissa is an `i128`; a number outside its range becomes a big integer,
//! so arithmetic never overflows. The printed form is upstream's canonical one, which keeps some inputs as written (`1.500`, `1E3`), because stored bytes
//! depend on the exact text.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use compact_str::CompactString;
use num_bigint::BigInt;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod canonical;
mod parse;

/// The error for a text that is no quantity. The messages are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// The text is no number followed by a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number is malformed.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The suffix style in which a quantity prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `12e6`.
    DecimalExponent,
    /// `12Mi`: powers of 1024.
    BinarySi,
    /// `12M`: powers of 1000.
    #[default]
    DecimalSi,
}

/// A mantissa, nearly always small enough for an `i128`.
#[derive(Debug, Clone)]
enum Mantissa {
    Small(i128),
    Big(Box<BigInt>),
}

impl Mantissa {
    fn from_big(n: BigInt) -> Self {
        i128::try_from(&n).map_or_else(|_| Self::Big(Box::new(n)), Self::Small)
    }

    fn to_big(&self) -> BigInt {
        match self {
            Self::Small(n) => BigInt::from(*n),
            Self::Big(n) => (**n).clone(),
        }
    }

    fn signum(&self) -> i32 {
        match self {
            Self::Small(n) => i32::from(*n > 0) - i32::from(*n < 0),
            Self::Big(n) => match n.sign() {
                num_bigint::Sign::Minus => -1,
                num_bigint::Sign::NoSign => 0,
                num_bigint::Sign::Plus => 1,
            },
        }
    }
}

/// The largest distance of exponents at which two quantities are aligned. Beyond this distance the smaller addend is below anything a cluster can hold and
/// is dropped, so that a hostile `1e1000000000` cannot keep the server computing for minutes.
const MAX_ALIGN: u32 = 4096;

/// An exact amount of a resource. Quantities compare by value: `1Gi` equals `1024Mi`.
///
/// Invariant: the exponent is at least -9 (nano); finer input is rounded away from zero, as upstream does.
#[derive(Debug, Clone)]
pub struct Quantity {
    mantissa: Mantissa,
    exponent: i32,
    format: Format,
    /// The text as read, where printing must repeat the input; empty otherwise.
    text: CompactString,
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Quantity {
    /// The quantity zero.
    pub const ZERO: Self = Self::from_parts(0, 0, Format::DecimalSi);

    const fn from_parts(mantissa: i128, exponent: i32, format: Format) -> Self {
        Self { mantissa: Mantissa::Small(mantissa), exponent, format, text: CompactString::const_new("") }
    }

    /// Makes a quantity of a whole amount.
    #[must_use]
    pub const fn new(value: i64, format: Format) -> Self {
        Self::from_parts(value as i128, 0, format)
    }

    /// Makes a quantity of an amount in thousandths.
    #[must_use]
    pub const fn from_milli(value: i64, format: Format) -> Self {
        Self::from_parts(value as i128, -3, format)
    }

    /// Reads a quantity. Surrounding space is refused; JSON decoding trims the text first, as upstream does.
    ///
    /// # Errors
    /// [`ParseQuantityError`] with upstream's texts.
    pub fn parse(text: &str) -> Result<Self, ParseQuantityError> {
        parse::parse(text)
    }

    /// Returns the canonical form of a quantity in text, borrowed when `text` is already canonical. Upstream's decoding and encoding give the same text.
    ///
    /// # Errors
    /// As [`Quantity::parse`].
    pub fn canonicalize(text: &str) -> Result<Cow<'_, str>, ParseQuantityError> {
        if parse::plainly_canonical(text) {
            return Ok(Cow::Borrowed(text));
        }
        let quantity = Self::parse(text.trim())?;
        let canonical = quantity.canonical();
        Ok(if canonical == text { Cow::Borrowed(text) } else { Cow::Owned(canonical.into()) })
    }

    /// Returns the canonical text.
    #[must_use]
    pub fn canonical(&self) -> CompactString {
        if self.text.is_empty() { canonical::canonical(self) } else { self.text.clone() }
    }

    /// Returns the suffix style in which the quantity prints.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Whether the quantity is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.signum() == 0
    }

    /// Returns the sign: -1, 0 or 1.
    #[must_use]
    pub fn signum(&self) -> i32 {
        self.mantissa.signum()
    }

    /// Returns the whole value, rounded away from zero; saturates at the limits of `i64`.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// Returns the value in thousandths, rounded away from zero; saturates at the limits of `i64`.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.scaled(-3)
    }

    /// Returns the value in units of 10^`exponent`, rounded away from zero; saturates at the limits of `i64`.
    #[must_use]
    pub fn scaled(&self, exponent: i32) -> i64 {
        let end = if self.signum() < 0 { i64::MIN } else { i64::MAX };
        let shift = i64::from(self.exponent) - i64::from(exponent);
        match self.at_shift(shift) {
            Some((n, _)) => i64::try_from(n).unwrap_or(end),
            None => end,
        }
    }

    /// Returns mantissa × 10^`shift` rounded away from zero, and whether the result is exact; `None` outside the range of `i128`.
    fn at_shift(&self, shift: i64) -> Option<(i128, bool)> {
        match &self.mantissa {
            Mantissa::Small(0) => Some((0, true)),
            Mantissa::Small(n) if shift >= 0 => {
                let factor = pow10(u32::try_from(shift).ok()?)?;
                Some((n.checked_mul(factor)?, true))
            }
            Mantissa::Small(n) => {
                let Some(divisor) = u32::try_from(-shift).ok().and_then(pow10) else {
                    return Some((n.signum(), false));
                };
                let exact = n % divisor == 0;
                Some((n / divisor + if exact { 0 } else { n.signum() }, exact))
            }
            Mantissa::Big(_) if shift >= 0 => None,
            Mantissa::Big(n) => {
                let shift = u32::try_from(-shift).ok().filter(|shift| *shift <= MAX_ALIGN)?;
                let divisor = BigInt::from(10).pow(shift);
                let quotient = i128::try_from(&(&**n / &divisor)).ok()?;
                let exact = &divisor * quotient == **n;
                Some((quotient + if exact { 0 } else { i128::from(self.signum()) }, exact))
            }
        }
    }

    /// Returns the nearest float, for display and metrics only.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "the nearest float is what is asked for")]
    pub fn as_f64(&self) -> f64 {
        let base = match &self.mantissa {
            Mantissa::Small(n) => *n as f64,
            Mantissa::Big(n) => n.to_string().parse().unwrap_or(f64::INFINITY),
        };
        if self.exponent == 0 { base } else { base * 10_f64.powi(self.exponent) }
    }

    /// Returns `self + other` in the format of `self`, or of `other` when `self` is zero, as upstream.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.combine(other, false)
    }

    /// Returns `self - other` in the format of `self`, or of `other` when `self` is zero, as upstream.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.combine(other, true)
    }

    /// Returns `-self`.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self::ZERO.combine(self, true)
    }

    /// Returns `self * factor`.
    #[must_use]
    pub fn times(&self, factor: i64) -> Self {
        let mantissa = match &self.mantissa {
            Mantissa::Small(n) => n.checked_mul(i128::from(factor)).map(Mantissa::Small),
            Mantissa::Big(_) => None,
        }
        .unwrap_or_else(|| Mantissa::from_big(self.mantissa.to_big() * factor));
        Self { mantissa, exponent: self.exponent, format: self.format, text: CompactString::const_new("") }
    }

    fn combine(&self, other: &Self, subtract: bool) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let (mantissa, exponent) = self
            .aligned(other, |a, b| if subtract { a.checked_sub(b) } else { a.checked_add(b) })
            .unwrap_or_else(|| self.combine_big(other, subtract));
        Self { mantissa, exponent, format, text: CompactString::const_new("") }
    }

    /// Applies `op` to both mantissas at the smaller exponent; `None` when an intermediate value overflows.
    fn aligned(&self, other: &Self, op: impl Fn(i128, i128) -> Option<i128>) -> Option<(Mantissa, i32)> {
        let (Mantissa::Small(a), Mantissa::Small(b)) = (&self.mantissa, &other.mantissa) else { return None };
        let exponent = if *a == 0 {
            other.exponent
        } else if *b == 0 {
            self.exponent
        } else {
            self.exponent.min(other.exponent)
        };
        let (a, _) = self.at_shift(i64::from(self.exponent) - i64::from(exponent))?;
        let (b, _) = other.at_shift(i64::from(other.exponent) - i64::from(exponent))?;
        Some((Mantissa::Small(op(a, b)?), exponent))
    }

    fn combine_big(&self, other: &Self, subtract: bool) -> (Mantissa, i32) {
        let exponent = self.exponent.min(other.exponent);
        let lift = |q: &Self| {
            let shift = q.exponent.abs_diff(exponent);
            (shift <= MAX_ALIGN).then(|| q.mantissa.to_big() * BigInt::from(10).pow(shift))
        };
        match (lift(self), lift(other)) {
            (Some(a), Some(b)) => (Mantissa::from_big(if subtract { a - b } else { a + b }), exponent),
            (None, _) => (self.mantissa.clone(), self.exponent),
            (_, None) if subtract => (Mantissa::from_big(-other.mantissa.to_big()), other.exponent),
            (_, None) => (other.mantissa.clone(), other.exponent),
        }
    }
}

/// Returns 10^n, or `None` outside the range of `i128`.
fn pow10(n: u32) -> Option<i128> {
    10_i128.checked_pow(n)
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.exponent == other.exponent
            && let (Mantissa::Small(a), Mantissa::Small(b)) = (&self.mantissa, &other.mantissa)
        {
            return a.cmp(b);
        }
        let by_sign = self.signum().cmp(&other.signum());
        if by_sign != Ordering::Equal || self.is_zero() {
            return by_sign;
        }
        self.minus(other).signum().cmp(&0)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl std::ops::AddAssign<&Quantity> for Quantity {
    fn add_assign(&mut self, other: &Quantity) {
        *self = self.plus(other);
    }
}

impl std::ops::SubAssign<&Quantity> for Quantity {
    fn sub_assign(&mut self, other: &Quantity) {
        *self = self.minus(other);
    }
}

/// Prints the canonical text.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.canonical())
    }
}

impl std::str::FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.canonical())
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                Quantity::parse(text.trim()).map_err(E::custom)
            }

            fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<Quantity, E> {
                Quantity::parse(&n.to_string()).map_err(E::custom)
            }

            fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<Quantity, E> {
                Quantity::parse(&n.to_string()).map_err(E::custom)
            }

            fn visit_f64<E: serde::de::Error>(self, n: f64) -> Result<Quantity, E> {
                Quantity::parse(&n.to_string()).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
