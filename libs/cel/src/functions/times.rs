//! Functions of timestamps and durations.

use jiff::civil::{DateTime, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use oarlock_meta::GoDuration;

use super::{Cost, Row, row, unfit};
use crate::error::EvalError;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    row("timestamp(timestamp): timestamp", Cost::One, |_, args| args.first().cloned().map_or_else(unfit, Ok)),
    row("timestamp(int): timestamp", Cost::One, |_, args| match args {
        [Value::Int(seconds)] => from_unix(*seconds, 0).map_or_else(overflow, |time| Ok(Value::Timestamp(time))),
        _ => unfit(),
    }),
    row("timestamp(string): timestamp", Cost::Scan, |_, args| match args {
        [Value::String(text)] => parse(text).map(Value::Timestamp).ok_or_else(|| conversion("timestamp")),
        _ => unfit(),
    }),
    row("duration(duration): duration", Cost::One, |_, args| args.first().cloned().map_or_else(unfit, Ok)),
    row("duration(int): duration", Cost::One, |_, args| match args {
        [Value::Int(nanos)] => Ok(Value::Duration(GoDuration::from_nanos(*nanos))),
        _ => unfit(),
    }),
    row("duration(string): duration", Cost::Scan, |_, args| match args {
        [Value::String(text)] => {
            GoDuration::parse(text).map(Value::Duration).map_err(|_| conversion("google.protobuf.Duration"))
        }
        _ => unfit(),
    }),
    row("_+_(timestamp, duration): timestamp", Cost::One, |_, args| match args {
        [Value::Timestamp(time), Value::Duration(span)] => shifted(*time, span.nanos()),
        _ => unfit(),
    }),
    row("_+_(duration, timestamp): timestamp", Cost::One, |_, args| match args {
        [Value::Duration(span), Value::Timestamp(time)] => shifted(*time, span.nanos()),
        _ => unfit(),
    }),
    row("_-_(timestamp, duration): timestamp", Cost::One, |_, args| match args {
        [Value::Timestamp(time), Value::Duration(span)] => {
            span.nanos().checked_neg().map_or_else(overflow, |nanos| shifted(*time, nanos))
        }
        _ => unfit(),
    }),
    row("_-_(timestamp, timestamp): duration", Cost::One, |_, args| {
        let [Value::Timestamp(a), Value::Timestamp(b)] = args else { return unfit() };
        let nanos = i64::try_from(a.duration_since(*b).as_nanos());
        nanos.map(|n| Value::Duration(GoDuration::from_nanos(n))).map_err(|_| EvalError::failed("integer overflow"))
    }),
    row("timestamp.getFullYear(): int", Cost::One, |_, args| part(args, |t| t.year().into())),
    row("timestamp.getFullYear(string): int", Cost::One, |_, args| part(args, |t| t.year().into())),
    row("timestamp.getMonth(): int", Cost::One, |_, args| part(args, |t| i64::from(t.month()) - 1)),
    row("timestamp.getMonth(string): int", Cost::One, |_, args| part(args, |t| i64::from(t.month()) - 1)),
    row("timestamp.getDate(): int", Cost::One, |_, args| part(args, |t| t.day().into())),
    row("timestamp.getDate(string): int", Cost::One, |_, args| part(args, |t| t.day().into())),
    row("timestamp.getDayOfMonth(): int", Cost::One, |_, args| part(args, |t| i64::from(t.day()) - 1)),
    row("timestamp.getDayOfMonth(string): int", Cost::One, |_, args| part(args, |t| i64::from(t.day()) - 1)),
    row("timestamp.getDayOfWeek(): int", Cost::One, |_, args| part(args, weekday)),
    row("timestamp.getDayOfWeek(string): int", Cost::One, |_, args| part(args, weekday)),
    row("timestamp.getDayOfYear(): int", Cost::One, |_, args| part(args, |t| i64::from(t.day_of_year()) - 1)),
    row("timestamp.getDayOfYear(string): int", Cost::One, |_, args| part(args, |t| i64::from(t.day_of_year()) - 1)),
    row("timestamp.getHours(): int", Cost::One, |_, args| part(args, |t| t.hour().into())),
    row("timestamp.getHours(string): int", Cost::One, |_, args| part(args, |t| t.hour().into())),
    row("timestamp.getMinutes(): int", Cost::One, |_, args| part(args, |t| t.minute().into())),
    row("timestamp.getMinutes(string): int", Cost::One, |_, args| part(args, |t| t.minute().into())),
    row("timestamp.getSeconds(): int", Cost::One, |_, args| part(args, |t| t.second().into())),
    row("timestamp.getSeconds(string): int", Cost::One, |_, args| part(args, |t| t.second().into())),
    row("timestamp.getMilliseconds(): int", Cost::One, |_, args| part(args, |t| t.millisecond().into())),
    row("timestamp.getMilliseconds(string): int", Cost::One, |_, args| part(args, |t| t.millisecond().into())),
    // For a duration these return the whole duration in the unit, not a component.
    row("duration.getHours(): int", Cost::One, |_, args| whole(args, 3_600_000_000_000)),
    row("duration.getMinutes(): int", Cost::One, |_, args| whole(args, 60_000_000_000)),
    row("duration.getSeconds(): int", Cost::One, |_, args| whole(args, 1_000_000_000)),
    row("duration.getMilliseconds(): int", Cost::One, |_, args| whole(args, 1_000_000)),
];

fn conversion(to: &str) -> EvalError {
    EvalError::Failed(format!("type conversion error from 'string' to '{to}'"))
}

fn overflow<'a>() -> Result<Value<'a>, EvalError> {
    Err(EvalError::failed("timestamp overflow"))
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Returns the time at the given seconds since 1970, if between the years 1 and 9999.
fn from_unix(seconds: i64, nanos: i32) -> Option<DateTime> {
    later(EPOCH, SignedDuration::new(seconds, 0)).and_then(|time| later(time, SignedDuration::new(0, nanos)))
}

fn later(time: DateTime, span: SignedDuration) -> Option<DateTime> {
    time.checked_add(span).ok().filter(|time| time.year() >= 1)
}

/// Returns the seconds since 1970, rounded towards the past.
pub(super) fn unix(time: DateTime) -> i64 {
    time.duration_since(EPOCH).as_nanos().div_euclid(1_000_000_000).try_into().unwrap_or(i64::MAX)
}

fn shifted<'a>(time: DateTime, nanos: i64) -> Result<Value<'a>, EvalError> {
    later(time, SignedDuration::from_nanos(nanos)).map_or_else(overflow, |time| Ok(Value::Timestamp(time)))
}

/// Parses RFC 3339.
pub(crate) fn parse(text: &str) -> Option<DateTime> {
    // The strict parser checks the form but drops the fraction.
    let seconds = oarlock_meta::Time::parse(text).ok()?.unix();
    let digits = text.split_once('.').map_or("", |(_, rest)| rest);
    let digits = digits.bytes().take_while(u8::is_ascii_digit).take(9);
    let (nanos, len) = digits.fold((0, 0), |(n, len), digit| (n * 10 + i32::from(digit - b'0'), len + 1));
    from_unix(seconds, nanos * 10_i32.pow(9 - len))
}

/// Formats a time as RFC 3339 in UTC, with as many digits of the second as are set.
pub(super) fn show(time: DateTime) -> String {
    format!("{time}Z")
}

/// Formats a duration as protobuf's JSON does: seconds with a fraction and `s`.
pub(super) fn show_span(span: GoDuration) -> String {
    let nanos = span.nanos().unsigned_abs();
    let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let sign = if span.nanos() < 0 { "-" } else { "" };
    let fraction = format!("{rest:09}");
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{seconds}s"),
        fraction => format!("{sign}{seconds}.{fraction}s"),
    }
}

fn weekday(time: &DateTime) -> i64 {
    i64::from(Weekday::to_sunday_zero_offset(time.weekday()))
}

fn part<'a>(args: &[Value<'a>], read: fn(&DateTime) -> i64) -> Result<Value<'a>, EvalError> {
    let (time, zone) = match args {
        [Value::Timestamp(time)] => return Ok(Value::Int(read(time))),
        [Value::Timestamp(time), Value::String(name)] => (time, zone(name)?),
        _ => return unfit(),
    };
    // The last hours of the year 9999 are beyond the range of the time zone database; the last known offset is used.
    let known = Timestamp::from_second(unix(*time)).unwrap_or(Timestamp::MAX);
    let local = time.checked_add(SignedDuration::from_secs(zone.to_offset(known).seconds().into()));
    local.map(|local| Value::Int(read(&local))).or_else(|_| overflow())
}

/// Parses a time zone: a name, or an offset from UTC (`+02:00`, `-02:30`, `02:00`).
fn zone(name: &str) -> Result<TimeZone, EvalError> {
    let Some((hours, minutes)) = name.split_once(':') else {
        return TimeZone::get(name).map_err(|_| EvalError::Failed(format!("unknown time zone {name}")));
    };
    let seconds = || {
        let hours: i32 = hours.parse().ok()?;
        let minutes: i32 = minutes.parse().ok().filter(|m| (0..60).contains(m))?;
        let minutes = if hours.is_negative() || name.starts_with('-') { -minutes } else { minutes };
        Offset::from_seconds(hours.checked_mul(3600)?.checked_add(minutes * 60)?).ok()
    };
    seconds().map(TimeZone::fixed).ok_or_else(|| EvalError::Failed(format!("unknown time zone {name}")))
}

fn whole<'a>(args: &[Value<'a>], unit: i64) -> Result<Value<'a>, EvalError> {
    let [Value::Duration(span)] = args else { return unfit() };
    Ok(Value::Int(span.nanos() / unit))
}
