//! ISO 8601 text to and from UTC nanoseconds since 1970.
//!
//! POSIX UTC, proleptic Gregorian calendar, years -9999 to 9999. Fractions are rounded to the nearest 2^-32 ns. A leap
//! second, `23:59:60` UTC at the end of June or December, is the first second of the next day, as in POSIX; other
//! minutes have no 61st second.

use std::borrow::Cow;

use crate::{Fixed, TimeError};

/// Nanoseconds per second.
pub const NS_PER_S: i64 = 1_000_000_000;
const S_PER_DAY: i64 = 86_400;

/// Days from 1970-01-01 to a date.
///
/// `None` for an impossible date or a year outside -9999..=9999.
pub fn days_from_ymd(year: i32, month: u32, day: u32) -> Option<i64> {
    if !(-9999..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    if day == 0 || day > days_in_month(year, month) {
        return None;
    }
    // Years start in March: the leap day comes last.
    let y = i64::from(year) - i64::from(month <= 2);
    let (era, yoe) = (y.div_euclid(400), y.rem_euclid(400));
    let doy = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    Some(era * 146_097 + doe - 719_468)
}

/// Days from 1970-01-01 to a day of the year.
///
/// `None` unless the year has it.
pub fn days_from_ordinal(year: i32, day_of_year: u32) -> Option<i64> {
    let length = if is_leap(year) { 366 } else { 365 };
    if day_of_year == 0 || day_of_year > length {
        return None;
    }
    Some(days_from_ymd(year, 1, 1)? + i64::from(day_of_year) - 1)
}

/// Date of a number of days since 1970-01-01.
pub fn ymd_from_days(days: i64) -> (i64, u32, u32) {
    let z = i128::from(days) + 719_468;
    let (era, doe) = (z.div_euclid(146_097) as i64, z.rem_euclid(146_097) as i64);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    (year, month as u32, (doy - (153 * mp + 2) / 5 + 1) as u32)
}

/// Year and day of the year (1 to 366) of a number of days since 1970-01-01.
pub fn ordinal_from_days(days: i64) -> (i64, u32) {
    let (year, month, day) = ymd_from_days(days);
    let before: u32 = (1..month).map(|m| days_in_month(year as i32, m)).sum();
    (year, before + day)
}

/// Nanoseconds since 1970 of a date (as days) and a time of day.
///
/// Parts are not range-checked: a 61st second or 25th hour carries over.
///
/// # Errors
/// [`TimeError::Overflow`].
pub fn from_parts(
    days: i64,
    hour: u32,
    minute: u32,
    second: u32,
    ns: Fixed,
) -> Result<Fixed, TimeError> {
    let seconds = i128::from(days) * i128::from(S_PER_DAY)
        + i128::from(hour) * 3600
        + i128::from(minute) * 60
        + i128::from(second);
    Fixed::from_i128(seconds * i128::from(NS_PER_S))
        .and_then(|t| t.checked_add(ns))
        .ok_or(TimeError::Overflow { what: "civil time" })
}

/// Nanoseconds since 1970 of an ISO 8601 time.
///
/// Accepts dates `2010-03-01`, `20100301`, `2010-060` (day of year), signed years, `T` or a space before the time,
/// times down to hours, with or without `:`, a fraction after `.` or `,`, and `Z`, `+01:00`, `+0100`, `+01` or nothing
/// (UTC) at the end. `2010` or `2010-03` stands for its first day.
///
/// ```
/// use isochrony_time::civil;
/// let t = civil::parse("2010-03-01T00:00:07.000128Z")?;
/// assert_eq!(t.floor(), 1_267_401_607_000_128_000);
/// assert_eq!(civil::format(t), "2010-03-01T00:00:07.000128Z");
/// # Ok::<(), isochrony_time::TimeError>(())
/// ```
///
/// # Errors
/// [`TimeError::BadCivil`].
pub fn parse(text: &str) -> Result<Fixed, TimeError> {
    parse_with_resolution(&complete_date(text)).map(|(time, _)| time)
}

/// Completes a year or month to its first day.
///
/// ```
/// use isochrony_time::civil::complete_date;
/// assert_eq!(complete_date("2010-03"), "2010-03-01");
/// assert_eq!(complete_date("2010-03-01T12"), "2010-03-01T12");
/// ```
#[must_use]
pub fn complete_date(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim();
    let unsigned = trimmed
        .strip_prefix(['+', '-', '\u{2212}'])
        .unwrap_or(trimmed);
    let is_number =
        |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    match unsigned.split_once('-') {
        None if is_number(unsigned, 4) => Cow::Owned(format!("{trimmed}-01-01")),
        Some((year, month)) if is_number(year, 4) && is_number(month, 2) => {
            Cow::Owned(format!("{trimmed}-01"))
        }
        _ => Cow::Borrowed(text),
    }
}

/// As [`parse`], with the resolution of the digits in ns: one second for `...:07`, one day for a date. A year or month
/// alone is an error: in a file it is likely another number.
///
/// # Errors
/// [`TimeError::BadCivil`].
pub fn parse_with_resolution(text: &str) -> Result<(Fixed, Fixed), TimeError> {
    let bad = |reason| TimeError::BadCivil {
        text: text.to_owned(),
        reason,
    };
    let mut cursor = Cursor { rest: text.trim() };
    let days = date(&mut cursor).map_err(bad)?;
    if cursor.rest.is_empty() {
        let time = from_parts(days, 0, 0, 0, Fixed::ZERO)?;
        return Ok((time, Fixed::from_int(S_PER_DAY * NS_PER_S)));
    }
    if !(cursor.consume('T') || cursor.consume('t') || cursor.consume(' ')) {
        return Err(bad("expected T between date and time"));
    }
    let hour = cursor.digits(2, 24).ok_or_else(|| bad("bad hour"))?;
    let (mut minute, mut second, mut ns) = (0, 0, Fixed::ZERO);
    let mut resolution = Fixed::from_int(3600 * NS_PER_S);
    let colons = cursor.consume(':');
    if colons || cursor.at_digit() {
        minute = cursor.digits(2, 59).ok_or_else(|| bad("bad minute"))?;
        resolution = Fixed::from_int(60 * NS_PER_S);
        if colons && cursor.consume(':') || !colons && cursor.at_digit() {
            second = cursor.digits(2, 60).ok_or_else(|| bad("bad second"))?;
            resolution = Fixed::from_int(NS_PER_S);
            if cursor.consume('.') || cursor.consume(',') {
                let digits = cursor.take_digits();
                if digits.is_empty() {
                    return Err(bad("no digits after the decimal point"));
                }
                (ns, resolution) = fraction_ns(digits);
            }
        }
    }
    if hour == 24 && (minute, second, ns) != (0, 0, Fixed::ZERO) {
        return Err(bad("hour 24 must be 24:00:00"));
    }
    let offset_s = offset(&mut cursor).map_err(bad)?;
    let time = from_parts(days, hour, minute, second, ns)?
        .checked_sub(Fixed::from_int(offset_s * NS_PER_S))
        .ok_or(TimeError::Overflow { what: "civil time" })?;
    if second == 60 && !follows_leap_second(time) {
        return Err(bad(
            "second 60 is a leap second, at 23:59:60 UTC on 30 June or 31 December only",
        ));
    }
    Ok((time, resolution))
}

/// Whether POSIX also assigns a time's second to a leap second: the first of January or July.
#[must_use]
pub fn follows_leap_second(time: Fixed) -> bool {
    let seconds = time.floor().div_euclid(NS_PER_S.into());
    let (days, of_day) = (
        seconds.div_euclid(S_PER_DAY.into()),
        seconds.rem_euclid(S_PER_DAY.into()),
    );
    let Ok(days) = i64::try_from(days) else {
        return false;
    };
    let (_, month, day) = ymd_from_days(days);
    of_day == 0 && day == 1 && matches!(month, 1 | 7)
}

/// Nanoseconds in the fraction `0.digits`, and its resolution.
pub fn fraction_ns(digits: &str) -> (Fixed, Fixed) {
    let (whole, frac) = digits.split_at(digits.len().min(9));
    let ns: i64 = whole.parse().unwrap_or(0);
    let scale = 10i64.pow(9 - whole.len() as u32);
    let below = Fixed::from_decimal_str(&format!("0.{}", &frac[..frac.len().min(64)]));
    let time = Fixed::from_int(ns * scale).checked_add(below.unwrap_or(Fixed::ZERO));
    let mut resolution = Fixed::from_int(scale).to_bits();
    for _ in 0..frac.len().min(64) {
        resolution /= 10;
    }
    (
        time.unwrap_or(Fixed::ZERO),
        Fixed::from_bits(resolution.max(1)),
    )
}

/// ISO 8601 with `Z` and the fewest of 0, 3, 6 or 9 fraction digits exact to a nanosecond; a fraction of a nanosecond
/// follows exactly.
pub fn format(time: Fixed) -> String {
    let (seconds, ns) = (
        time.floor().div_euclid(NS_PER_S.into()),
        time.floor().rem_euclid(NS_PER_S.into()),
    );
    let days = seconds.div_euclid(S_PER_DAY.into());
    let Ok(days64) = i64::try_from(days) else {
        return format!("{time} ns since 1970");
    };
    let of_day = seconds.rem_euclid(S_PER_DAY.into());
    let (year, month, day) = ymd_from_days(days64);
    let year = if (0..=9999).contains(&year) {
        format!("{year:04}")
    } else {
        format!("{year:+05}")
    };
    let mut text = format!(
        "{year}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    );
    if time.frac() != 0 {
        let frac = Fixed::from_parts(0, time.frac()).to_string();
        text.push_str(&format!(".{ns:09}{}", &frac[2..]));
    } else if ns % 1000 != 0 {
        text.push_str(&format!(".{ns:09}"));
    } else if ns % 1_000_000 != 0 {
        text.push_str(&format!(".{:06}", ns / 1000));
    } else if ns != 0 {
        text.push_str(&format!(".{:03}", ns / 1_000_000));
    }
    text.push('Z');
    text
}

fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn date(cursor: &mut Cursor<'_>) -> Result<i64, &'static str> {
    let negative = cursor.consume('-') || cursor.consume('\u{2212}');
    if !negative {
        cursor.consume('+');
    }
    let year = cursor
        .digits(4, 9999)
        .ok_or("expected a year of four digits")? as i32;
    let year = if negative { -year } else { year };
    let dashes = cursor.consume('-');
    let run = cursor.rest.bytes().take_while(u8::is_ascii_digit).count();
    if run == 3 {
        let day = cursor.digits(3, 366).ok_or("bad day of year")?;
        return days_from_ordinal(year, day).ok_or("no such day in that year");
    }
    let month = cursor.digits(2, 12).ok_or("bad month")?;
    if dashes && !cursor.consume('-') {
        return Err("expected - before the day");
    }
    let day = cursor.digits(2, 31).ok_or("bad day")?;
    days_from_ymd(year, month, day).ok_or("no such day in that month")
}

fn offset(cursor: &mut Cursor<'_>) -> Result<i64, &'static str> {
    if cursor.consume('Z') || cursor.consume('z') || cursor.rest.is_empty() {
        return if cursor.rest.is_empty() {
            Ok(0)
        } else {
            Err("text after the time")
        };
    }
    let sign = if cursor.consume('+') {
        1
    } else if cursor.consume('-') || cursor.consume('\u{2212}') {
        -1
    } else {
        return Err("text after the time");
    };
    let hours = cursor.digits(2, 23).ok_or("bad offset")?;
    let colon = cursor.consume(':');
    let minutes = if colon || cursor.at_digit() {
        cursor.digits(2, 59).ok_or("bad offset")?
    } else {
        0
    };
    if !cursor.rest.is_empty() {
        return Err("text after the offset");
    }
    Ok(sign * i64::from(hours * 3600 + minutes * 60))
}

struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn consume(&mut self, c: char) -> bool {
        let Some(rest) = self.rest.strip_prefix(c) else {
            return false;
        };
        self.rest = rest;
        true
    }

    fn at_digit(&self) -> bool {
        self.rest.as_bytes().first().is_some_and(u8::is_ascii_digit)
    }

    fn digits(&mut self, count: usize, max: u32) -> Option<u32> {
        let head = self.rest.as_bytes().get(..count)?;
        if !head.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let value = head.iter().fold(0, |v, b| v * 10 + u32::from(b - b'0'));
        self.rest = &self.rest[count..];
        (value <= max).then_some(value)
    }

    fn take_digits(&mut self) -> &'a str {
        let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        digits
    }
}
