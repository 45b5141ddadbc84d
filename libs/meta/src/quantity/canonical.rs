//! Printing quantities in upstream's canonical form: the largest suffix that leaves a whole number.
//!
//! One difference to upstream is deliberate: from 10^21 on upstream finds no suffix and prints the bare mantissa (`1000E` becomes `1`), which changes the
//! user's amount. Oarlock prints `1000E`.

use std::fmt::Write as _;

use compact_str::CompactString;

use super::{Format, Mantissa, Quantity};

pub(super) fn canonical(quantity: &Quantity) -> CompactString {
    if quantity.is_zero() {
        return CompactString::const_new("0");
    }
    if quantity.format == Format::BinarySi
        && let Some((value, true)) = quantity.at_shift(i64::from(quantity.exponent))
    {
        let small = Quantity::new(1024, Format::BinarySi);
        if *quantity <= small.negated() || *quantity >= small {
            return binary(value);
        }
    }
    decimal(quantity)
}

fn binary(mut value: i128) -> CompactString {
    let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut suffix = suffixes.next().unwrap_or_default();
    while value % 1024 == 0
        && let Some(next) = suffixes.next()
    {
        value /= 1024;
        suffix = next;
    }
    compact_str::format_compact!("{value}{suffix}")
}

fn decimal(quantity: &Quantity) -> CompactString {
    let mut exponent = i64::from(quantity.exponent);
    let mut out = match &quantity.mantissa {
        Mantissa::Small(n) => {
            let mut n = *n;
            while n % 10 == 0 {
                n /= 10;
                exponent += 1;
            }
            compact_str::format_compact!("{n}")
        }
        Mantissa::Big(n) => {
            let text = n.to_string();
            let kept = text.trim_end_matches('0');
            exponent += i64::try_from(text.len() - kept.len()).unwrap_or_default();
            CompactString::from(kept)
        }
    };
    // The exponent must be a multiple of three, so zeros are written out until it is one. A fraction never gets finer than
    // nano, because -9 is such a multiple.
    while exponent % 3 != 0 || (quantity.format != Format::DecimalExponent && exponent > 18) {
        out.push('0');
        exponent -= 1;
    }
    let suffix = match (quantity.format, exponent) {
        (_, 0) => "",
        (Format::DecimalExponent, _) => {
            // Writing to a string cannot fail.
            let _ = write!(out, "e{exponent}");
            ""
        }
        (_, -9) => "n",
        (_, -6) => "u",
        (_, -3) => "m",
        (_, 3) => "k",
        (_, 6) => "M",
        (_, 9) => "G",
        (_, 12) => "T",
        (_, 15) => "P",
        _ => "E",
    };
    out.push_str(suffix);
    out
}
