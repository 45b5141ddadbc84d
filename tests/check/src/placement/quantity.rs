//! Quantities, in billionths.

/// Returns the value of `1`, `100m`, `1.5Gi`, `1e3`, …, in billionths; `None` for a text that is no quantity.
pub(super) fn billionths(text: &str) -> Option<i128> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '+' || c == '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(split)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{part}").parse().ok()?;
    let scale = 9 - i32::try_from(part.len()).ok()?;
    let decimal = |exponent: i32| shift(digits, scale + exponent);
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => decimal(0)?.checked_mul(1 << 10),
        "Mi" => decimal(0)?.checked_mul(1 << 20),
        "Gi" => decimal(0)?.checked_mul(1 << 30),
        "Ti" => decimal(0)?.checked_mul(1 << 40),
        "Pi" => decimal(0)?.checked_mul(1 << 50),
        "Ei" => decimal(0)?.checked_mul(1 << 60),
        exponent => decimal(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    }
}

/// Multiplies by a power of ten; fractions of a billionth are rounded up.
fn shift(digits: i128, exponent: i32) -> Option<i128> {
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    if exponent >= 0 { digits.checked_mul(power) } else { Some((digits + power - 1).div_euclid(power)) }
}

#[cfg(test)]
mod tests {
    use super::billionths;

    #[test]
    fn quantities_are_what_they_say() {
        for (text, value) in [
            ("1", 1_000_000_000),
            ("100m", 100_000_000),
            ("1.5", 1_500_000_000),
            (".5", 500_000_000),
            ("2k", 2_000_000_000_000),
            ("1Ki", 1_024_000_000_000),
            ("0.5Ki", 512_000_000_000),
            ("1e3", 1_000_000_000_000),
            ("1E3", 1_000_000_000_000),
            ("5n", 5),
            ("1e-10", 1),
            ("1E", 1_000_000_000_000_000_000_000_000_000),
        ] {
            assert_eq!(billionths(text), Some(value), "{text}");
        }
        for text in ["", "x", "1x", "1ee3", "1.2.3"] {
            assert_eq!(billionths(text), None, "{text}");
        }
    }
}
