//! Floating-point numbers as Go's JSON encoder prints them.

use oarlock_schema::{Str, Value};

/// Returns the value of a float: whole numbers in range become [`Value::Int`], others keep Go's shortest text.
pub(crate) fn float(n: f64) -> Value {
    let text = go_float(n);
    match text.parse::<i64>() {
        Ok(whole) if text != "-0" => Value::Int(whole),
        _ => Value::Number(Str::from(text)),
    }
}

/// Formats a float as Go does: plain digits, but with an exponent below 1e-6 and from 1e21 on.
pub(crate) fn go_float(n: f64) -> String {
    let size = n.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{n:e}");
        return match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
            _ => text,
        };
    }
    format!("{n}")
}

#[cfg(test)]
mod tests {
    use super::go_float;

    #[test]
    fn prints_as_go() {
        for (n, want) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.5, "1.5"),
            (0.1, "0.1"),
            (100_000_000_000_000_000_000.0, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.25e-7, "1.25e-7"),
            (0.000_001, "0.000001"),
            (-3.5e300, "-3.5e+300"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(go_float(n), want);
        }
    }
}
