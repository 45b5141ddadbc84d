//! Parsing of duration flags, as upstream's programs do.

use std::time::Duration;

use oarlock_meta::GoDuration;

/// Parses a non-negative duration in Go's notation, such as `1m30s`; for `value_parser` of a flag.
///
/// # Errors
/// Go's message for an invalid duration, or a message that the duration must not be negative.
pub fn duration(text: &str) -> std::result::Result<Duration, String> {
    let duration = GoDuration::parse(text).map_err(|error| error.to_string())?;
    duration.to_std().ok_or_else(|| "must not be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos_and_not_negative() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("-1s"), Err("must not be negative".to_owned()));
        assert!(duration("90").is_err());
    }
}
