//! Parses and prints RFC 3339 in exactly the form that Go accepts and writes; the calendar is jiff's.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::ParseTimeError;
use crate::quote::quote;

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const LAYOUT_MICRO: &str = "2006-01-02T15:04:05.000000Z07:00";

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

struct Cursor<'a> {
    whole: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl<'a> Cursor<'a> {
    /// Makes the error, which shows the remaining text and the layout element that the text does not match, as Go does.
    fn wrong(&self, element: &str) -> ParseTimeError {
        ParseTimeError(format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.whole),
            quote(self.layout),
            quote(self.rest),
            quote(element)
        ))
    }

    fn range(&self, what: &str) -> ParseTimeError {
        ParseTimeError(format!("parsing time {}: {what} out of range", quote(self.whole)))
    }

    fn number(&mut self, digits: usize, element: &str) -> Result<u32, ParseTimeError> {
        let head = self.rest.get(..digits).filter(|head| head.bytes().all(|b| b.is_ascii_digit()));
        let Some(number) = head.and_then(|head| head.parse().ok()) else { return Err(self.wrong(element)) };
        self.rest = self.rest.get(digits..).unwrap_or_default();
        Ok(number)
    }

    fn skip(&mut self, mark: &str) -> Result<(), ParseTimeError> {
        let Some(rest) = self.rest.strip_prefix(mark) else { return Err(self.wrong(mark)) };
        self.rest = rest;
        Ok(())
    }

    fn digits(&self) -> &'a str {
        let end = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        self.rest.get(..end).unwrap_or_default()
    }
}

/// Returns the seconds since 1970 and the microseconds of the fraction. With `micro` six decimals are required.
pub(super) fn parse(text: &str, micro: bool) -> Result<(i64, i64), ParseTimeError> {
    let mut at = Cursor { whole: text, rest: text, layout: if micro { LAYOUT_MICRO } else { LAYOUT } };
    let year = at.number(4, "2006")?;
    at.skip("-")?;
    let month = at.number(2, "01")?;
    if !(1..=12).contains(&month) {
        return Err(at.range("month"));
    }
    at.skip("-")?;
    let day = at.number(2, "02")?;
    at.skip("T")?;
    // Go also accepts an hour of one digit.
    let digits = if at.digits().len() == 1 { 1 } else { 2 };
    let hour = at.number(digits, "15")?;
    if hour > 23 {
        return Err(at.range("hour"));
    }
    at.skip(":")?;
    let minute = at.number(2, "04")?;
    if minute > 59 {
        return Err(at.range("minute"));
    }
    at.skip(":")?;
    let second = at.number(2, "05")?;
    if second > 59 {
        return Err(at.range("second"));
    }
    let micros = fraction(&mut at, micro)?;
    let offset = zone(&mut at)?;
    if !at.rest.is_empty() {
        let extra = quote(at.rest);
        return Err(ParseTimeError(format!("parsing time {}: extra text: {extra}", quote(text))));
    }
    let civil = DateTime::new(
        i16::try_from(year).unwrap_or(i16::MAX),
        small(month),
        small(day),
        small(hour),
        small(minute),
        small(second),
        0,
    )
    .map_err(|_| at.range("day"))?;
    // Not a jiff timestamp: its range ends a day before the end of the year 9999, so that any zone can show it.
    Ok((civil.duration_since(EPOCH).as_secs() - offset, micros))
}

fn small(n: u32) -> i8 {
    i8::try_from(n).unwrap_or(i8::MAX)
}

/// Returns the microseconds. With `micro` a point and six digits are required, and further digits are left unread, as with Go's layout.
fn fraction(at: &mut Cursor<'_>, micro: bool) -> Result<i64, ParseTimeError> {
    let started = at.rest.starts_with(['.', ',']);
    let digits = if started { Cursor { rest: at.rest.get(1..).unwrap_or_default(), ..*at }.digits() } else { "" };
    if micro && digits.len() < 6 {
        return Err(at.wrong(".000000"));
    }
    if digits.is_empty() {
        return Ok(0);
    }
    let kept = digits.get(..6).unwrap_or(digits);
    at.rest = at.rest.get(1 + if micro { 6 } else { digits.len() }..).unwrap_or_default();
    let missing = u32::try_from(6 - kept.len()).unwrap_or_default();
    Ok(kept.parse::<i64>().unwrap_or_default() * 10_i64.pow(missing))
}

/// Returns the seconds east of UTC.
fn zone(at: &mut Cursor<'_>) -> Result<i64, ParseTimeError> {
    if let Some(rest) = at.rest.strip_prefix('Z') {
        at.rest = rest;
        return Ok(0);
    }
    let sign = match at.rest.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Err(at.wrong("Z07:00")),
    };
    let before = at.rest;
    let mut inner = Cursor { rest: at.rest.get(1..).unwrap_or_default(), ..*at };
    let read = (|| {
        let hours = inner.number(2, "Z07:00").ok()?;
        inner.skip(":").ok()?;
        let minutes = inner.number(2, "Z07:00").ok()?;
        Some((hours, minutes))
    })();
    let Some((hours, minutes)) = read else {
        at.rest = before;
        return Err(at.wrong("Z07:00"));
    };
    at.rest = inner.rest;
    if hours > 24 {
        return Err(at.range("time zone offset hour"));
    }
    if minutes > 60 {
        return Err(at.range("time zone offset minute"));
    }
    Ok(sign * (i64::from(hours) * 3600 + i64::from(minutes) * 60))
}

/// Prints in UTC. A time beyond the calendar (after the year 9999) prints as the nearest representable time.
pub(super) fn write(f: &mut fmt::Formatter<'_>, seconds: i64, micros: Option<i64>) -> fmt::Result {
    let civil = match jiff::Timestamp::from_second(seconds) {
        Ok(time) => Offset::UTC.to_datetime(time),
        Err(_) => EPOCH.saturating_add(jiff::SignedDuration::from_secs(seconds)),
    };
    // One buffer and one write: every object carries several of these.
    let mut out = *b"0000-00-00T00:00:00.000000Z";
    put(&mut out, 0, 4, i64::from(civil.year().max(0)));
    put(&mut out, 5, 2, i64::from(civil.month()));
    put(&mut out, 8, 2, i64::from(civil.day()));
    put(&mut out, 11, 2, i64::from(civil.hour()));
    put(&mut out, 14, 2, i64::from(civil.minute()));
    put(&mut out, 17, 2, i64::from(civil.second()));
    let length = match micros {
        Some(micros) => {
            put(&mut out, 20, 6, micros);
            27
        }
        None => {
            if let Some(mark) = out.get_mut(19) {
                *mark = b'Z';
            }
            20
        }
    };
    f.write_str(out.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default())
}

fn put(out: &mut [u8], at: usize, digits: usize, mut n: i64) {
    for slot in out.iter_mut().skip(at).take(digits).rev() {
        *slot = b'0' + (n % 10) as u8;
        n /= 10;
    }
}
