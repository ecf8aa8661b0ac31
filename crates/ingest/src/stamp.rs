//! Time stamps in file names: civil time and its resolution.
//!
//! All arithmetic is in integers, never in f64 seconds.

use isochrony_time::{Fixed, civil};

/// The first sample was taken in `[ns, ns + resolution_ns)`, UTC ns since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CivilStamp {
    /// Nanoseconds since 1970-01-01T00:00:00Z.
    pub ns: i64,
    /// Width of the last digit in ns, positive.
    pub resolution_ns: i64,
}

pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const DAY: i64 = 86_400 * SECOND;

const RANGE: &str = "it lies outside 1677 to 2262";

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Calendar {
    pub(crate) year: i64,
    /// `None`: `day` counts within the year.
    pub(crate) month: Option<i64>,
    pub(crate) day: i64,
    pub(crate) hour: Option<i64>,
    pub(crate) minute: Option<i64>,
    pub(crate) second: Option<i64>,
    /// Digits after the point: value and number.
    pub(crate) fraction: Option<(i64, u32)>,
}

impl Calendar {
    pub(crate) fn stamp(&self) -> Result<CivilStamp, &'static str> {
        let leap = is_leap(self.year);
        let days = match self.month {
            Some(month) => {
                if !(1..=12).contains(&month) {
                    return Err("months go from 1 to 12");
                }
                if !(1..=days_in_month(leap, month)).contains(&self.day) {
                    return Err("the month has no such day");
                }
                days_from_civil(self.year, month, self.day)
            }
            None => {
                if !(1..=365 + i64::from(leap)).contains(&self.day) {
                    return Err("the year has no such day");
                }
                days_from_civil(self.year, 1, 1) + self.day - 1
            }
        };
        let mut seconds = days * 86_400;
        let mut resolution = DAY;
        if let Some(hour) = self.hour {
            if hour > 23 {
                return Err("hours go from 0 to 23");
            }
            seconds += hour * 3600;
            resolution = 3600 * SECOND;
        }
        if let Some(minute) = self.minute {
            if minute > 59 {
                return Err("minutes go from 0 to 59");
            }
            seconds += minute * 60;
            resolution = 60 * SECOND;
        }
        if let Some(second) = self.second {
            if second > 60 {
                return Err("seconds go from 0 to 60");
            }
            seconds += second;
            // 60 is a leap second; POSIX time counts it as the next day's first second.
            let after = Fixed::from_i128(i128::from(seconds) * i128::from(SECOND));
            if second == 60 && !after.is_some_and(civil::follows_leap_second) {
                return Err(
                    "second 60 is a leap second, at 23:59:60 on 30 June or 31 December only",
                );
            }
            resolution = SECOND;
        }
        let mut ns = seconds.checked_mul(SECOND).ok_or(RANGE)?;
        if let Some((value, digits)) = self.fraction {
            resolution = SECOND / 10_i64.pow(digits);
            ns = ns.checked_add(value * resolution).ok_or(RANGE)?;
        }
        Ok(CivilStamp {
            ns,
            resolution_ns: resolution,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EpochUnit {
    Seconds,
    Millis,
    Micros,
    Nanos,
}

impl EpochUnit {
    pub(crate) const ALL: [(&'static str, Self); 4] = [
        ("s", Self::Seconds),
        ("ms", Self::Millis),
        ("us", Self::Micros),
        ("ns", Self::Nanos),
    ];

    /// The unit in which a number of this many digits lies between 1970 and 2262: ten digits of seconds end in 2286, so
    /// eleven must be milliseconds, and so on.
    fn of_digits(digits: usize) -> Self {
        match digits {
            0..=10 => Self::Seconds,
            11..=13 => Self::Millis,
            14..=16 => Self::Micros,
            _ => Self::Nanos,
        }
    }

    fn ns(self) -> i64 {
        match self {
            Self::Seconds => SECOND,
            Self::Millis => 1_000_000,
            Self::Micros => 1000,
            Self::Nanos => 1,
        }
    }
}

/// `digits` or `digits.digits`; None: the number of digits implies the unit.
pub(crate) fn parse_epoch(text: &str, unit: Option<EpochUnit>) -> Result<CivilStamp, &'static str> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let unit_ns = unit
        .unwrap_or_else(|| EpochUnit::of_digits(whole.len()))
        .ns();
    let value: i64 = whole.parse().map_err(|_| RANGE)?;
    let mut ns = value.checked_mul(unit_ns).ok_or(RANGE)?;
    let mut resolution_ns = unit_ns;
    if !fraction.is_empty() {
        let scale = u32::try_from(fraction.len())
            .ok()
            .and_then(|digits| 10_i64.checked_pow(digits))
            .filter(|scale| *scale <= unit_ns)
            .ok_or("it is finer than a nanosecond")?;
        let digits: i64 = fraction.parse().map_err(|_| RANGE)?;
        resolution_ns = unit_ns / scale;
        ns = ns.checked_add(digits * resolution_ns).ok_or(RANGE)?;
    }
    Ok(CivilStamp { ns, resolution_ns })
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct IsoStamp {
    calendar: Calendar,
    offset: i64,
}

impl IsoStamp {
    pub(crate) fn refined(mut self, parts: &Calendar) -> Self {
        let calendar = &mut self.calendar;
        if calendar.hour.is_none() {
            calendar.hour = parts.hour;
        }
        if calendar.hour.is_some() && calendar.minute.is_none() {
            calendar.minute = parts.minute;
        }
        if calendar.minute.is_some() && calendar.second.is_none() {
            calendar.second = parts.second;
        }
        if calendar.second.is_some() && calendar.fraction.is_none() {
            calendar.fraction = parts.fraction;
        }
        self
    }

    pub(crate) fn stamp(&self) -> Result<CivilStamp, &'static str> {
        let stamp = self.calendar.stamp()?;
        let ns = stamp.ns.checked_sub(self.offset * SECOND).ok_or(RANGE)?;
        Ok(CivilStamp { ns, ..stamp })
    }
}

/// Parses ISO 8601, extended (`2010-03-01T00:30:05.25Z`) or compact (`20100301T003005`), possibly incomplete; `-` or
/// `_` may replace colons. `None` if it is no date.
///
/// `minus_zone`: whether `-0500` at the end may be a zone; before other text it may be a counter.
pub(crate) fn parse_iso(text: &str, minus_zone: bool) -> Option<IsoStamp> {
    let mut rest = Cursor { rest: text };
    let mut calendar = Calendar {
        year: rest.digits(4)?,
        ..Calendar::default()
    };
    let extended = rest.eat(&['-']).is_some();
    calendar.month = Some(rest.digits(2)?);
    if extended {
        rest.eat(&['-'])?;
    }
    calendar.day = rest.digits(2)?;
    let mut offset = 0;
    if !rest.rest.is_empty() {
        rest.eat(&['T', 't', ' ', '_'])?;
        calendar.hour = Some(rest.digits(2)?);
        let colon: &[char] = if extended { &[':', '-', '_'] } else { &[] };
        for part in [&mut calendar.minute, &mut calendar.second] {
            if rest.at_zone() {
                break;
            }
            if extended {
                rest.eat(colon)?;
            }
            *part = Some(rest.digits(2)?);
        }
        if calendar.second.is_some() && rest.eat(&['.', ',']).is_some() {
            let digits = rest.rest.bytes().take_while(u8::is_ascii_digit).count();
            if !(1..=9).contains(&digits) {
                return None;
            }
            calendar.fraction = Some((rest.digits(digits)?, u32::try_from(digits).ok()?));
        }
        if !minus_zone && rest.rest.starts_with('-') {
            return None;
        }
        offset = rest.zone()?;
    }
    rest.rest
        .is_empty()
        .then_some(IsoStamp { calendar, offset })
}

struct Cursor<'a> {
    rest: &'a str,
}

impl Cursor<'_> {
    fn digits(&mut self, count: usize) -> Option<i64> {
        let head = self.rest.get(..count)?;
        if !head.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        self.rest = &self.rest[count..];
        head.parse().ok()
    }

    fn eat(&mut self, any: &[char]) -> Option<char> {
        let next = self.rest.chars().next().filter(|c| any.contains(c))?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn at_zone(&self) -> bool {
        self.rest.is_empty() || self.rest.starts_with(['Z', 'z', '+'])
    }

    /// In seconds, 0 if none. A minus is a zone only after seconds.
    fn zone(&mut self) -> Option<i64> {
        if self.rest.is_empty() || self.eat(&['Z', 'z']).is_some() {
            return Some(0);
        }
        let sign = if self.eat(&['+', '-'])? == '-' { -1 } else { 1 };
        let hours = self.digits(2)?;
        let colon = self.eat(&[':']).is_some();
        let minutes = if colon || !self.rest.is_empty() {
            self.digits(2)?
        } else {
            0
        };
        // Zones are multiples of 15 minutes from -12 h to +14 h; other digits are a counter.
        let offset = sign * (hours * 60 + minutes);
        let is_zone = minutes < 60 && minutes % 15 == 0 && (-12 * 60..=14 * 60).contains(&offset);
        is_zone.then_some(offset * 60)
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(leap: bool, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Proleptic Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years from March put the leap day last.
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_an_epoch_determine_unit_and_resolution() {
        let base = 1_267_401_600 * SECOND;
        for (text, ns, resolution) in [
            ("1267401600", base, SECOND),
            ("1267401600123", base + 123_000_000, 1_000_000),
            ("1267401600123456", base + 123_456_000, 1000),
            ("1267401600123456789", base + 123_456_789, 1),
            ("1267401600.25", base + 250_000_000, 10_000_000),
            ("1267401600.250000", base + 250_000_000, 1000),
            ("1267401600123.4", base + 123_400_000, 100_000),
            ("0", 0, SECOND),
        ] {
            let stamp = parse_epoch(text, None).unwrap();
            assert_eq!((stamp.ns, stamp.resolution_ns), (ns, resolution), "{text}");
        }
        assert!(parse_epoch("9999999999", None).is_err());
        assert!(parse_epoch("1267401600.1234567891", None).is_err());
        assert_eq!(
            parse_epoch("5000000", Some(EpochUnit::Micros)).unwrap().ns,
            5 * SECOND
        );
    }

    #[test]
    fn iso_stamps_are_read_compact_and_extended() {
        let base = 1_267_403_405; // 2010-03-01T00:30:05Z, from date(1)
        for (text, seconds, resolution) in [
            ("2010-03-01T00:30:05Z", base, SECOND),
            ("2010-03-01T00-30-05", base, SECOND),
            ("2010-03-01 00:30:05", base, SECOND),
            ("20100301T003005", base, SECOND),
            ("20100301_003005Z", base, SECOND),
            ("2010-03-01T08:30:05+08:00", base, SECOND),
            ("20100228T193005-0500", base, SECOND),
            ("20100301T0030", base - 5, 60 * SECOND),
            ("20100301T00", base - 1805, 3600 * SECOND),
            ("20100301", base - 1805, DAY),
        ] {
            let stamp = parse_iso(text, true).unwrap().stamp().unwrap();
            assert_eq!(stamp.ns, seconds * SECOND, "{text}");
            assert_eq!(stamp.resolution_ns, resolution, "{text}");
        }
        let fine = parse_iso("20100301T003005.250", true)
            .unwrap()
            .stamp()
            .unwrap();
        assert_eq!(
            (fine.ns, fine.resolution_ns),
            (base * SECOND + 250_000_000, 1_000_000)
        );
        for text in [
            "2010",
            "2010-0301",
            "20100301T",
            "20100301T0030051",
            "2010-03-01T00:30:05X",
            "20100301T003005.",
        ] {
            assert!(parse_iso(text, true).is_none(), "{text}");
        }
        for text in ["20100229", "2010-13-01", "20100301T24", "20100301T006000"] {
            assert!(parse_iso(text, true).unwrap().stamp().is_err(), "{text}");
        }
    }

    #[test]
    fn digits_that_are_no_zone_are_not_parsed_as_one() {
        for text in [
            "20100301T003005-0040",
            "20100301T003005-1500",
            "20100301T003005+1430",
            "20100301T003005+9999",
            "20100301T003005-0160",
        ] {
            assert!(parse_iso(text, true).is_none(), "{text}");
        }
        for text in [
            "20100301T003005-1200",
            "20100301T003005+1400",
            "20100301T003005+0545",
        ] {
            assert!(parse_iso(text, true).is_some(), "{text}");
        }
        assert!(parse_iso("20100301T003005-0100", false).is_none());
        assert!(parse_iso("20100301T003005+0100", false).is_some());
    }

    #[test]
    fn a_date_takes_its_time_of_day_from_other_fields() {
        let parts = Calendar {
            hour: Some(7),
            minute: Some(40),
            ..Calendar::default()
        };
        let refined = |text| parse_iso(text, true).unwrap().refined(&parts).stamp();
        let base = 1_267_401_600 * SECOND;
        let stamp = refined("20100301").unwrap();
        assert_eq!(stamp.ns, base + (7 * 60 + 40) * 60 * SECOND);
        assert_eq!(stamp.resolution_ns, 60 * SECOND);
        assert_eq!(
            refined("20100301T0105").unwrap().ns,
            base + 65 * 60 * SECOND
        );
        assert_eq!(refined("20100301T01").unwrap().ns, base + 100 * 60 * SECOND);
    }

    #[test]
    fn every_day_of_eight_centuries_has_its_number() {
        // Oracle: counts days.
        let mut expected = days_from_civil(1700, 1, 1);
        assert_eq!(days_from_civil(1970, 1, 1), 0);
        for year in 1700..2500 {
            for month in 1..=12 {
                for day in 1..=days_in_month(is_leap(year), month) {
                    assert_eq!(days_from_civil(year, month, day), expected);
                    expected += 1;
                }
            }
        }
    }
}
