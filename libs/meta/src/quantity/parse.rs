//! Parses quantities: upstream's grammar, rounding and limits, with its laxness (`.`, `-` and `m` are zero).

use compact_str::CompactString;
use num_bigint::BigInt;
use oarlock_seeded_bug::seeded_bug;

use super::{Format, MAX_ALIGN, Mantissa, ParseQuantityError, Quantity};

/// The parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// Digits before the decimal point without leading zeros; `0` if none remain.
    whole: &'a str,
    /// Digits after the decimal point.
    fraction: &'a str,
    suffix: &'a str,
}

/// The most digits that a number may have between its first and its last non-zero digit. The time to read a number grows with the square of this count,
/// since big integers have another base. Upstream accepts any number of digits and is as slow; no real amount has more than 40.
const MAX_DIGITS: usize = 1000;

fn digits(bytes: &[u8], from: usize) -> usize {
    bytes.iter().skip(from).take_while(|b| b.is_ascii_digit()).count() + from
}

fn split(text: &str) -> Result<Parts<'_>, ParseQuantityError> {
    let bytes = text.as_bytes();
    let negative = bytes.first() == Some(&b'-');
    let start = usize::from(negative || bytes.first() == Some(&b'+'));
    let first = bytes.iter().skip(start).take_while(|b| **b == b'0').count() + start;
    let slice = |from: usize, to: usize| text.get(from..to).ok_or(ParseQuantityError::Format);
    let end = digits(bytes, first);
    let whole = slice(first, end)?;
    let whole = if whole.is_empty() { "0" } else { whole };
    let (fraction, at) = if bytes.get(end) == Some(&b'.') {
        let stop = digits(bytes, end + 1);
        (slice(end + 1, stop)?, stop)
    } else {
        ("", end)
    };
    let letters = bytes.iter().skip(at).take_while(|b| b"eEinumkKMGTP".contains(b)).count() + at;
    let sign = usize::from(matches!(bytes.get(letters), Some(b'+' | b'-')));
    if digits(bytes, letters + sign) != bytes.len() {
        return Err(ParseQuantityError::Format);
    }
    Ok(Parts { negative, whole, fraction, suffix: slice(at, bytes.len())? })
}

/// Returns the power of ten or of two that a suffix means.
fn interpret(suffix: &str) -> Option<(i32, Format)> {
    let known = match suffix {
        "" => (0, Format::DecimalSi),
        "n" => (-9, Format::DecimalSi),
        "u" => (-6, Format::DecimalSi),
        "m" => (-3, Format::DecimalSi),
        "k" => (3, Format::DecimalSi),
        "M" => (6, Format::DecimalSi),
        "G" => (9, Format::DecimalSi),
        "T" => (12, Format::DecimalSi),
        "P" => (15, Format::DecimalSi),
        "E" => (18, Format::DecimalSi),
        "Ki" => (10, Format::BinarySi),
        "Mi" => (20, Format::BinarySi),
        "Gi" => (30, Format::BinarySi),
        "Ti" => (40, Format::BinarySi),
        "Pi" => (50, Format::BinarySi),
        "Ei" => (60, Format::BinarySi),
        _ => {
            let power: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Upstream truncates to 32 bits; an exponent outside them is refused here, since the truncated exponent would mean another number than the one requested.
            return Some((i32::try_from(power).ok()?, Format::DecimalExponent));
        }
    };
    Some(known)
}

pub(super) fn parse(text: &str) -> Result<Quantity, ParseQuantityError> {
    if text.is_empty() {
        return Err(ParseQuantityError::Format);
    }
    let parts = split(text)?;
    let (power, format) = interpret(parts.suffix).ok_or(ParseQuantityError::Suffix)?;
    let Parts { whole, fraction, .. } = parts;
    let places = i32::try_from(fraction.len()).map_err(|_| ParseQuantityError::Numeric)?;
    let length = whole.len() + fraction.len();
    if format == Format::BinarySi {
        return binary(&parts, text, u32::try_from(power).unwrap_or_default(), places);
    }
    let (mantissa, zeros) = mantissa(&parts)?;
    let exponent = power.checked_sub(places).and_then(|n| n.checked_add(zeros)).ok_or(ParseQuantityError::Numeric)?;
    if length <= 18 && exponent >= -9 {
        let ends_in_thousand = if fraction.is_empty() {
            whole.ends_with("000")
        } else {
            fraction.ends_with("000")
                || (fraction.bytes().all(|b| b == b'0') && joined_ends_in_thousand(whole, fraction))
        };
        let keep = exponent % 3 == 0 && !ends_in_thousand && !whole.starts_with('0') && text != "0";
        let kept = if keep { CompactString::new(text) } else { CompactString::const_new("") };
        return Ok(Quantity { mantissa, exponent, format, text: kept });
    }
    Ok(round_to_nano(mantissa, exponent, format))
}

fn joined_ends_in_thousand(whole: &str, fraction: &str) -> bool {
    whole.bytes().chain(fraction.bytes()).rev().take(3).filter(|b| *b == b'0').count() == 3
}

/// Returns the digits as one number, and how many trailing zeros were left out.
fn mantissa(parts: &Parts<'_>) -> Result<(Mantissa, i32), ParseQuantityError> {
    /// The number of decimal digits that always fits an `i64`, with which nearly all amounts are read faster.
    const I64_DIGITS: usize = 18;
    /// The number of decimal digits that always fits an `i128`.
    const I128_DIGITS: usize = 38;
    let Parts { negative, whole, fraction, .. } = parts;
    let small = |digits: &mut dyn Iterator<Item = u8>| {
        let n = digits.fold(0_i128, |n, digit| n * 10 + i128::from(digit));
        Mantissa::Small(if *negative { -n } else { n })
    };
    let mut digits = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0');
    if whole.len() + fraction.len() <= I64_DIGITS {
        let n = digits.fold(0_i64, |n, digit| n * 10 + i64::from(digit));
        return Ok((Mantissa::Small(i128::from(if *negative { -n } else { n })), 0));
    }
    if whole.len() + fraction.len() <= I128_DIGITS {
        return Ok((small(&mut digits), 0));
    }
    let mut digits: Vec<u8> = digits.skip_while(|digit| *digit == 0).collect();
    let zeros = digits.iter().rev().take_while(|digit| **digit == 0).count();
    digits.truncate(digits.len() - zeros);
    let zeros = i32::try_from(zeros).map_err(|_| ParseQuantityError::Numeric)?;
    if digits.len() <= I128_DIGITS {
        return Ok((small(&mut digits.into_iter()), zeros));
    }
    if digits.len() > MAX_DIGITS && !seeded_bug!("digits_without_bound") {
        return Err(ParseQuantityError::Numeric);
    }
    let sign = if *negative { num_bigint::Sign::Minus } else { num_bigint::Sign::Plus };
    Ok((Mantissa::from_big(BigInt::from_radix_be(sign, &digits, 10).unwrap_or_default()), zeros))
}

/// Rounds a value finer than nano away from zero, as upstream does: a request above zero never becomes zero.
fn round_to_nano(mantissa: Mantissa, exponent: i32, format: Format) -> Quantity {
    let exact = Quantity { mantissa, exponent, format, text: CompactString::const_new("") };
    if exponent >= -9 {
        return exact;
    }
    let shift = i64::from(exponent) + 9;
    if let Some((n, _)) = exact.at_shift(shift) {
        return Quantity::from_parts(n, -9, format);
    }
    // No parsed number has this many digits, so less than one nano remains.
    let Some(power) = u32::try_from(-shift).ok().filter(|power| *power <= MAX_ALIGN) else {
        return Quantity::from_parts(i128::from(exact.signum()), -9, format);
    };
    let divisor = BigInt::from(10).pow(power);
    let big = exact.mantissa.to_big();
    let mut quotient = &big / &divisor;
    if &quotient * &divisor != big {
        quotient += exact.signum();
    }
    Quantity { mantissa: Mantissa::from_big(quotient), exponent: -9, format, text: CompactString::const_new("") }
}

fn binary(parts: &Parts<'_>, text: &str, power: u32, places: i32) -> Result<Quantity, ParseQuantityError> {
    let (mantissa, zeros) = mantissa(parts)?;
    // Upstream keeps short whole numbers as written unless they are a multiple of eight.
    let room = 14_i64 - i64::from(power) * 3 / 10 - parts.whole.len() as i64;
    if let Mantissa::Small(n) = mantissa
        && places == 0
        && room >= 0
    {
        let keep = n & 7 != 0;
        let kept = if keep { CompactString::new(text) } else { CompactString::const_new("") };
        let mantissa = Mantissa::Small(n << power);
        return Ok(Quantity { mantissa, exponent: 0, format: Format::BinarySi, text: kept });
    }
    let scaled = Mantissa::from_big(mantissa.to_big() << power);
    let mut quantity = round_to_nano(scaled, zeros - places, Format::BinarySi);
    let limit = Quantity::new(i64::MAX, Format::BinarySi);
    let size = if parts.negative { quantity.negated() } else { quantity.clone() };
    if size > limit {
        quantity = if parts.negative { limit.negated() } else { limit };
    }
    let below_one = size.signum() > 0 && size < Quantity::new(1, Format::BinarySi);
    quantity.format = if below_one { Format::DecimalSi } else { Format::BinarySi };
    Ok(quantity)
}

/// Whether a text is canonical by a cheap test that accepts most canonical texts in practice (`100m`, `2`, `128Mi`) without parsing.
pub(super) fn plainly_canonical(text: &str) -> bool {
    let bytes = text.as_bytes();
    let end = digits(bytes, 0);
    let (Some(number), Some(suffix)) = (bytes.get(..end), bytes.get(end..)) else { return false };
    if number.is_empty() || number.len() > 9 || number.first() == Some(&b'0') {
        return false;
    }
    match suffix {
        b"" | b"m" | b"k" | b"M" | b"G" | b"T" => !number.ends_with(b"000"),
        // Four digits may be a multiple of 1024; three may be below 1024 only for Ki, where they stay as they are.
        b"Ki" | b"Mi" | b"Gi" | b"Ti" => number.len() <= 3,
        _ => false,
    }
}
