//! The time at which a table is made, from which ages are counted.

use oarlock_meta::time::{GoDuration, MicroTime, Time, human_duration};

/// The time at which a table is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now(pub MicroTime);

/// The cell of an unset time.
const UNKNOWN: &str = "<unknown>";

impl Now {
    /// Returns the age of a time (`Time` or `MicroTime`); `<unknown>` when unset.
    pub(super) fn since(self, text: &str) -> String {
        micros(text).map_or_else(|| UNKNOWN.to_owned(), |then| human(self.0.unix_micros() - then))
    }
}

/// Returns the time between two times; `<unknown>` when one is unset.
pub(super) fn between(from: &str, to: &str) -> String {
    match (micros(from), micros(to)) {
        (Some(from), Some(to)) => human(to - from),
        _ => UNKNOWN.to_owned(),
    }
}

/// Formats a number of seconds.
pub(super) fn seconds(seconds: i64) -> String {
    human(seconds.saturating_mul(1_000_000))
}

fn human(micros: i64) -> String {
    human_duration(GoDuration::from_nanos(micros.saturating_mul(1000)))
}

/// Returns the microseconds since 1970 of a set time.
pub(super) fn micros(text: &str) -> Option<i64> {
    let micros = match Time::parse(text) {
        Ok(time) if time.is_zero() => return None,
        Ok(time) if !text.contains('.') => return Some(time.unix().saturating_mul(1_000_000)),
        Ok(_) => MicroTime::parse(text).ok()?,
        Err(_) => return None,
    };
    Some(micros.unix_micros())
}
