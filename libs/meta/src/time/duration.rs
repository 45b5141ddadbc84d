//! Durations as Go writes them (`1h0m0s`), and ages as kubectl shows them (`5m30s`, `2d`).

use std::fmt;

const MICRO: i64 = 1_000;
const MILLI: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// The error for a text that is no duration. The messages are those of Go's `time.ParseDuration`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// The shape is wrong or the amount too large.
    #[error("time: invalid duration {}", quote(.0))]
    Invalid(String),
    /// A number has no unit.
    #[error("time: missing unit in duration {}", quote(.0))]
    MissingUnit(String),
    /// A unit is none of ns, us, ms, s, m, h.
    #[error("time: unknown unit {} in duration {}", quote(.0), quote(.1))]
    UnknownUnit(String, String),
}

/// A span in nanoseconds (Go `time.Duration`, upstream `metav1.Duration`). Prints as `1h0m0s` or `1.5ms`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

impl GoDuration {
    /// Makes a duration from nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Makes a duration from whole seconds; saturates at about ±292 years.
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND))
    }

    /// Returns the nanoseconds.
    #[must_use]
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Converts to a standard duration; `None` when negative.
    #[must_use]
    pub fn to_std(self) -> Option<std::time::Duration> {
        u64::try_from(self.0).ok().map(std::time::Duration::from_nanos)
    }

    /// Reads a duration as Go does: `1h30m`, `300ms`, `-1.5h`, `0`.
    ///
    /// # Errors
    /// [`ParseDurationError`].
    pub fn parse(text: &str) -> Result<Self, ParseDurationError> {
        let invalid = || ParseDurationError::Invalid(text.to_owned());
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..).unwrap_or_default()),
            Some(b'+') => (false, text.get(1..).unwrap_or_default()),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let whole = take(&mut rest, |b| b.is_ascii_digit());
            let fraction = match rest.strip_prefix('.') {
                Some(after) => {
                    rest = after;
                    take(&mut rest, |b| b.is_ascii_digit())
                }
                None => "",
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(invalid());
            }
            let unit = take(&mut rest, |b| *b != b'.' && !b.is_ascii_digit());
            if unit.is_empty() {
                return Err(ParseDurationError::MissingUnit(text.to_owned()));
            }
            let size = i128::from(match unit {
                "ns" => 1,
                "us" | "µs" | "μs" => MICRO,
                "ms" => MILLI,
                "s" => SECOND,
                "m" => MINUTE,
                "h" => HOUR,
                _ => return Err(ParseDurationError::UnknownUnit(unit.to_owned(), text.to_owned())),
            });
            let amount: i128 = if whole.is_empty() { 0 } else { whole.parse::<i64>().map_err(|_| invalid())?.into() };
            total += amount * size + fraction_of(size, fraction);
            if total > i128::from(i64::MAX) + i128::from(negative) {
                return Err(invalid());
            }
        }
        let signed = if negative { -total } else { total };
        i64::try_from(signed).map(Self).map_err(|_| invalid())
    }
}

/// Returns the nanoseconds of the decimals of a unit of `size` nanoseconds. Goes through a float, as Go does.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "the rounding is part of the rule")]
fn fraction_of(size: i128, decimals: &str) -> i128 {
    let (mut digits, mut scale) = (0_i64, 1.0_f64);
    for digit in decimals.bytes().map(|b| i64::from(b - b'0')) {
        let Some(more) = digits.checked_mul(10).and_then(|n| n.checked_add(digit)) else { break };
        digits = more;
        scale *= 10.0;
    }
    (digits as f64 * (size as f64 / scale)) as i128
}

/// Quotes a text as Go's `time` package does: bytes outside printable ASCII one by one.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for b in text.bytes() {
        match b {
            b'"' | b'\\' => out.extend(['\\', char::from(b)]),
            b' '..=b'~' => out.push(char::from(b)),
            _ => out.push_str(&format!("\\x{b:02x}")),
        }
    }
    out.push('"');
    out
}

fn take<'a>(rest: &mut &'a str, mut wanted: impl FnMut(&u8) -> bool) -> &'a str {
    let mut end = rest.bytes().take_while(|b| wanted(b)).count();
    while !rest.is_char_boundary(end) {
        end += 1;
    }
    let (head, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
    *rest = tail;
    head
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if nanos == 0 {
            return f.write_str("0s");
        }
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let unit = |n: i64| n.unsigned_abs();
        if nanos < unit(MICRO) {
            return write!(f, "{nanos}ns");
        }
        if nanos < unit(MILLI) {
            return decimal(f, nanos, unit(MICRO), "µs");
        }
        if nanos < unit(SECOND) {
            return decimal(f, nanos, unit(MILLI), "ms");
        }
        if nanos >= unit(HOUR) {
            write!(f, "{}h", nanos / unit(HOUR))?;
        }
        if nanos >= unit(MINUTE) {
            write!(f, "{}m", nanos / unit(MINUTE) % 60)?;
        }
        decimal(f, nanos % unit(MINUTE), unit(SECOND), "s")
    }
}

fn decimal(f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str) -> fmt::Result {
    write!(f, "{}", nanos / unit)?;
    let fraction = nanos % unit;
    if fraction > 0 {
        let places = unit.ilog10() as usize;
        let digits = format!("{fraction:0places$}");
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    f.write_str(name)
}

/// Formats an age as kubectl's tables show ages (upstream `duration.HumanDuration`): at most two units, fewer for long ages.
///
/// A span of less than -1 s is `<invalid>`; one of the last two seconds before zero is clock drift and prints `0s`.
#[must_use]
pub fn human_duration(span: GoDuration) -> String {
    let seconds = span.0 / SECOND;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let pair = |large: i64, large_unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit}{small}{small_unit}") }
    };
    if seconds < -1 {
        "<invalid>".to_owned()
    } else if seconds < 0 {
        "0s".to_owned()
    } else if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        pair(minutes, "m", seconds % 60, "s")
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        pair(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 24 * 8 {
        pair(days, "d", hours % 24, "h")
    } else if hours < 24 * 365 * 2 {
        format!("{days}d")
    } else if hours < 24 * 365 * 8 {
        pair(years, "y", days % 365, "d")
    } else {
        format!("{years}y")
    }
}
