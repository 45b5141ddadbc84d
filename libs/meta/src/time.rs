//! Times as the API writes them: `Time` in whole seconds, `MicroTime` in microseconds, Go durations, and ages.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod duration;
mod rfc3339;

pub use duration::{GoDuration, ParseDurationError, human_duration};

/// The error for a text that is no time; the message is that of Go's `time.Parse`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseTimeError(pub(crate) String);

/// A moment in whole seconds (upstream `metav1.Time`). Prints as RFC 3339 in UTC: `2026-01-02T03:04:05Z`.
///
/// A parsed time lies between the years 0 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

/// A moment in microseconds (upstream `metav1.MicroTime`). Prints as `2026-01-02T03:04:05.000006Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroTime(i64);

/// The first second of year 1: Go's zero time, which the API writes as null.
const GO_ZERO: i64 = -62_135_596_800;

impl Time {
    /// Makes a time from seconds since 1970.
    #[must_use]
    pub const fn from_unix(seconds: i64) -> Self {
        Self(seconds)
    }

    /// Returns the seconds since 1970.
    #[must_use]
    pub const fn unix(self) -> i64 {
        self.0
    }

    /// Reads RFC 3339 with any zone; a fraction of a second is dropped.
    ///
    /// # Errors
    /// [`ParseTimeError`].
    pub fn parse(text: &str) -> Result<Self, ParseTimeError> {
        rfc3339::parse(text, false).map(|(seconds, _)| Self(seconds))
    }

    /// Whether this is Go's zero time, which means "not set".
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == GO_ZERO
    }
}

impl MicroTime {
    /// Makes a time from microseconds since 1970.
    #[must_use]
    pub const fn from_unix_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since 1970.
    #[must_use]
    pub const fn unix_micros(self) -> i64 {
        self.0
    }

    /// Returns the time without the fraction of a second.
    #[must_use]
    pub const fn to_time(self) -> Time {
        Time(self.0.div_euclid(1_000_000))
    }

    /// Reads RFC 3339 with any zone and, as upstream demands, exactly six decimals.
    ///
    /// # Errors
    /// [`ParseTimeError`].
    pub fn parse(text: &str) -> Result<Self, ParseTimeError> {
        rfc3339::parse(text, true).map(|(seconds, micros)| Self(seconds * 1_000_000 + micros))
    }

    /// Whether this is Go's zero time, which means "not set".
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == GO_ZERO * 1_000_000
    }
}

impl From<Time> for SystemTime {
    /// A time before 1970 counts as 1970.
    fn from(time: Time) -> Self {
        let seconds = Duration::from_secs(u64::try_from(time.0).unwrap_or(0));
        Self::UNIX_EPOCH.checked_add(seconds).unwrap_or(Self::UNIX_EPOCH)
    }
}

impl From<Time> for MicroTime {
    fn from(time: Time) -> Self {
        Self(time.0.saturating_mul(1_000_000))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        rfc3339::write(f, self.0, None)
    }
}

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        rfc3339::write(f, self.0.div_euclid(1_000_000), Some(self.0.rem_euclid(1_000_000)))
    }
}

macro_rules! texty {
    ($t:ty, $err:ty) => {
        impl std::str::FromStr for $t {
            type Err = $err;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl Serialize for $t {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $t {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}
texty!(Time, ParseTimeError);
texty!(MicroTime, ParseTimeError);
texty!(GoDuration, ParseDurationError);
