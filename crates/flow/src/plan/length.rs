//! [`Length`]: a number of samples or a duration, for windows, hops and lags.
//!
//! A parameter whose [`Unit`] is a length takes a number in that unit, or text with its own: `"125ms"`,
//! `"512 samples"`. Text is resolved once, at the rate of the first input.

use std::fmt;
use std::str::FromStr;

use isochrony_time::{Rate, SampleCount};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::parameter::{Param, Unit};
use crate::{Declaration, PlanError, PortType};

pub(super) const EXAMPLES: &str = r#"text such as "125ms" or "512 samples""#;

/// Powers of ten of a second, and whole seconds.
const UNITS: [(&str, i32, u64); 8] = [
    ("ns", -9, 1),
    ("us", -6, 1),
    ("µs", -6, 1),
    ("μs", -6, 1),
    ("ms", -3, 1),
    ("s", 0, 1),
    ("min", 0, 60),
    ("h", 0, 3600),
];

/// A number of samples or a duration. Reads and prints as text, `"512 samples"` or `"125ms"`; a plain number is
/// seconds.
///
/// ```
/// use isochrony_flow::Length;
/// use isochrony_time::Rate;
///
/// let length: Length = "125ms".parse().unwrap();
/// assert_eq!(length, Length::Seconds(0.125));
/// assert_eq!(length.samples(Rate::from_hz(2000)?), Some(250));
/// assert_eq!(length.samples(Rate::from_hz(44_100)?), Some(5513)); // of 5512.5, halves up
/// assert!("125".parse::<Length>().is_err());
/// # Ok::<(), isochrony_time::TimeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// Samples.
    Samples(u64),
    /// Seconds, as the shortest decimal that reads back as the number.
    Seconds(f64),
}

impl Length {
    /// Exact samples at a rate; None if below zero or beyond 1e38 s.
    #[must_use]
    pub fn count(self, rate: Rate) -> Option<SampleCount> {
        match self {
            Self::Samples(count) => Some(count.into()),
            Self::Seconds(seconds) => rate.samples_in_seconds(seconds).ok(),
        }
    }

    /// Samples at a rate, rounded, halves up; None if below zero or beyond 64 bits.
    #[must_use]
    pub fn samples(self, rate: Rate) -> Option<u64> {
        self.count(rate)?.round()
    }
}

impl Default for Length {
    fn default() -> Self {
        Self::Seconds(0.0)
    }
}

impl From<f64> for Length {
    fn from(seconds: f64) -> Self {
        Self::Seconds(seconds)
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Samples(count) => write!(f, "{count} samples"),
            Self::Seconds(seconds) => write!(f, "{seconds} s"),
        }
    }
}

/// Text that is no length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid length; write {EXAMPLES}")]
pub struct LengthError;

fn split(text: &str) -> (&str, &str) {
    let number = text.trim_end_matches(char::is_alphabetic);
    (number.trim_end(), &text[number.len()..])
}

pub(super) fn hint(value: &Value) -> &'static str {
    match value.as_str().map(|text| split(text.trim()).1) {
        Some("m") => "; for minutes write \"min\"",
        _ => "",
    }
}

impl FromStr for Length {
    type Err = LengthError;

    fn from_str(text: &str) -> Result<Self, LengthError> {
        let text = text.trim();
        let (number, unit) = split(text);
        if matches!(unit, "samples" | "sample") {
            let digits = number.bytes().all(|byte| byte.is_ascii_digit());
            let count = number.parse().ok().filter(|_| digits);
            return count.map(Self::Samples).ok_or(LengthError);
        }
        let known = UNITS.iter().find(|(name, ..)| *name == unit);
        let &(_, power, times) = known.ok_or(LengthError)?;
        let seconds = decimal(number, power, times).ok_or(LengthError)?;
        Ok(Self::Seconds(seconds))
    }
}

/// A decimal times a power of ten and a whole number, rounded once.
fn decimal(text: &str, power: i32, times: u64) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i16>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = 0u128;
    for digit in whole.bytes().chain(fraction.bytes()) {
        let digit = digit.is_ascii_digit().then(|| u128::from(digit - b'0'))?;
        digits = digits.checked_mul(10)?.checked_add(digit)?;
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let power = power + i32::from(exponent) - i32::try_from(fraction.len()).ok()?;
    let text = format!("{}e{power}", digits.checked_mul(times.into())?);
    text.parse()
        .ok()
        .filter(|seconds: &f64| seconds.is_finite())
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Samples(_) => serializer.collect_str(self),
            Self::Seconds(seconds) => serializer.serialize_f64(*seconds),
        }
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let length = match &value {
            Value::String(text) => text.parse().ok(),
            number => number.as_f64().map(Self::Seconds),
        };
        length.ok_or_else(|| serde::de::Error::custom(LengthError))
    }
}

/// Argument of a builder's method for a parameter of type `T`: convertible values, and a [`Length`] for samples.
pub trait IntoParameter<T> {
    /// JSON form.
    fn into_value(self) -> Value;
}

impl<T: Serialize, U: Into<T>> IntoParameter<T> for U {
    fn into_value(self) -> Value {
        json!(self.into())
    }
}

impl IntoParameter<u64> for Length {
    fn into_value(self) -> Value {
        Value::String(self.to_string())
    }
}

impl IntoParameter<Option<u64>> for Length {
    fn into_value(self) -> Value {
        Value::String(self.to_string())
    }
}

impl Declaration {
    /// Text becomes numbers in the parameters' units; samples for a parameter in seconds stay text.
    pub(super) fn resolve_lengths(
        &self,
        params: &mut Map<String, Value>,
        inputs: &[PortType],
    ) -> Result<(), PlanError> {
        for param in self.params.iter().filter(|param| param.unit.is_length()) {
            if let Some(value @ Value::String(_)) = params.get_mut(param.name) {
                *value = param.resolve(self.name, value, inputs)?;
            }
        }
        Ok(())
    }
}

impl Param {
    fn resolve(
        &self,
        operator: &'static str,
        value: &Value,
        inputs: &[PortType],
    ) -> Result<Value, PlanError> {
        let refuse = |got: String| PlanError::Parameter {
            operator,
            parameter: self.name,
            got,
            legal: self.legal(),
        };
        let length = value.as_str().and_then(|text| text.parse::<Length>().ok());
        let length = length.ok_or_else(|| refuse(value.to_string()))?;
        let resolved = match (self.unit, length) {
            (Unit::Seconds, Length::Samples(_)) => return Ok(json!(length)),
            (Unit::Seconds, Length::Seconds(seconds)) => json!(seconds),
            (Unit::Samples, Length::Samples(count)) => json!(count),
            _ => {
                let rate = inputs.first().and_then(PortType::rate);
                let rate = rate.ok_or_else(|| {
                    let kind = inputs.first().map_or("nothing", PortType::kind);
                    refuse(format!("{value}, but {kind} have no sample rate"))
                })?;
                let hop = match inputs.first() {
                    Some(PortType::Frames { hop, .. }) if self.unit == Unit::Items => *hop,
                    _ => 1,
                };
                let count = length.count(rate).and_then(|count| count.per(hop).round());
                let count = count.ok_or_else(|| refuse(value.to_string()))?;
                let what = if hop == 1 { "samples" } else { "windows" };
                let resolved = json!(count);
                return match self.check(operator, &resolved) {
                    Ok(()) => Ok(resolved),
                    Err(_) => Err(refuse(format!(
                        "{value}, which is {count} {what} at {rate} Hz,"
                    ))),
                };
            }
        };
        self.check(operator, &resolved).map(|()| resolved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_decimals_exactly_in_every_unit() {
        let seconds = |text: &str| match text.parse() {
            Ok(Length::Seconds(seconds)) => Some(seconds),
            _ => None,
        };
        for (text, expected) in [
            ("125ms", 0.125),
            ("0.07 s", 0.07),
            (" 3us ", 3e-6),
            ("3µs", 3e-6),
            ("7ns", 7e-9),
            ("1min", 60.0),
            ("1.5min", 90.0),
            ("0.1h", 360.0),
            ("1e-05s", 1e-5),
            ("2.s", 2.0),
            (".5s", 0.5),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        assert_eq!("512 samples".parse(), Ok(Length::Samples(512)));
        assert_eq!("1sample".parse(), Ok(Length::Samples(1)));
    }

    #[test]
    fn what_prints_reads_back() {
        for length in [
            Length::Samples(3),
            Length::Seconds(0.07),
            Length::Seconds(1e-9),
        ] {
            assert_eq!(length.to_string().parse(), Ok(length));
            let saved = serde_json::to_value(length).unwrap();
            assert_eq!(serde_json::from_value::<Length>(saved).unwrap(), length);
        }
    }

    #[test]
    fn refuses_what_is_no_length() {
        let many = format!("{}s", "9".repeat(50));
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1 parsec",
            "1.5m",
            "1e400s",
            "1.2.3s",
            "0x5s",
            "1.5 samples",
            "+1 samples",
            &many,
        ] {
            assert_eq!(text.parse::<Length>(), Err(LengthError), "{text}");
        }
    }
}
