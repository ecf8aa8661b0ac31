//! Modes of opening a store, and options of new signals.

use isochrony_segment::Calibration;
use isochrony_time::{ClockConfig, Fixed, Rate};
use serde_json::{Map, Value};

use crate::error::StoreError;
use crate::layout::zarr;
use crate::media::limits;
use crate::meta::{ClockSettings, SignalMeta};
use crate::sample_format::SampleFormat;

/// Mode of opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Reads, also beside a writer. Python's `"r"`.
    #[default]
    Read,
    /// Reads and writes an existing store. Python's `"r+"`.
    ReadWrite,
    /// Reads and writes; created if missing. Python's `"a"`.
    Append,
    /// Reads and writes; must not exist. Python's `"x"`.
    Create,
}

/// Options of a new signal; defaults: [`CreateOptions::new`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CreateOptions {
    /// Stored format of samples.
    pub format: SampleFormat,
    /// Nominal rate.
    pub rate: Rate,
    /// Unit of values; empty if unknown.
    pub unit: String,
    /// Scale (finite, not zero) and offset (finite): value = count * scale + offset.
    pub calibration: Option<(f64, f64)>,
    /// Civil time of the first sample, UTC ns since 1970.
    pub start: Option<Fixed>,
    /// Weight of the past in the running rate, in (0, 1].
    pub alpha: f64,
    /// Largest deviation of stamps from predicted time that is no gap, ns; `None`: from the stamps.
    pub gap_slip_ns: Option<i64>,
    /// Longest gap with all its indices, ns.
    pub max_gap_ns: i64,
    /// Actual rate of the clock, if known better than by `rate`, which other programs are shown; between half and twice
    /// `rate`. Used before the first stamps.
    pub initial_rate: Option<Rate>,
    /// User attributes.
    pub attributes: Map<String, Value>,
    /// Replace an existing signal.
    pub overwrite: bool,
}

const MAX_GAP_NS: i64 = 30 * 86_400 * 1_000_000_000;

impl CreateOptions {
    /// Samples of a format, or of a dtype stored unconverted, with `rate` per second; other options have defaults.
    #[must_use]
    pub fn new(format: impl Into<SampleFormat>, rate: Rate) -> Self {
        let clock = ClockConfig::new(rate);
        Self {
            format: format.into(),
            rate,
            unit: String::new(),
            calibration: None,
            start: None,
            alpha: clock.alpha,
            gap_slip_ns: None,
            max_gap_ns: MAX_GAP_NS,
            initial_rate: None,
            attributes: Map::new(),
            overwrite: false,
        }
    }

    pub(crate) fn meta(&self, signal: &str) -> Result<SignalMeta, StoreError> {
        let refuse = |option, got: String, legal| StoreError::InvalidOption {
            signal: signal.into(),
            option,
            got,
            legal,
        };
        if let Some((scale, offset)) = self.calibration {
            Calibration::new(scale, offset, self.unit.as_str())?;
        }
        if !(self.alpha > 0.0 && self.alpha <= 1.0) {
            let legal = "alpha must be above 0 and at most 1";
            return Err(refuse("alpha", self.alpha.to_string(), legal));
        }
        if let Some(slip) = self.gap_slip_ns.filter(|slip| *slip < 0) {
            return Err(refuse(
                "gap_slip",
                format!("{slip} ns"),
                "it must not be negative",
            ));
        }
        if self.max_gap_ns <= 0 {
            let legal = "it must be above zero";
            return Err(refuse("max_gap", format!("{} ns", self.max_gap_ns), legal));
        }
        if let Some(initial) = self.initial_rate.filter(|i| !is_near(*i, self.rate)) {
            let got = format!("{initial} Hz for a nominal rate of {} Hz", self.rate);
            let legal = "it must be at least half and at most twice the nominal rate";
            return Err(refuse("initial_rate", got, legal));
        }
        Ok(SignalMeta {
            format: self.format,
            rate: self.rate,
            unit: self.unit.clone(),
            calibration: self.calibration,
            chunk_samples: chunk_samples(self.format, self.rate),
            shard_chunks: SHARD_CHUNKS,
            codec: String::new(),
            clock: ClockSettings {
                alpha: self.alpha,
                gap_slip_ns: self.gap_slip_ns,
                max_gap_ns: self.max_gap_ns,
                initial_rate: self.initial_rate,
            },
            attributes: attributes_text(signal, &self.attributes)?,
        })
    }
}

/// A larger difference suggests another unit.
fn is_near(one: Rate, other: Rate) -> bool {
    let cross = |a: Rate, b: Rate| u128::from(a.num()) * u128::from(b.den());
    let (one, other) = (cross(one, other), cross(other, one));
    one <= other.saturating_mul(2) && other <= one.saturating_mul(2)
}

/// Index and header fit one block.
const SHARD_CHUNKS: u64 = crate::layout::flat::SHORT_INDEX_CHUNKS;

/// The largest power of two between 64 KiB and 1 MiB that arrives within 64 s: slow signals stay small, fast ones have
/// few chunks.
fn chunk_samples(format: SampleFormat, rate: Rate) -> u64 {
    let size = format.size() as u64;
    let (least, most) = ((64 << 10) / size, (1 << 20) / size);
    let mut samples = least;
    while samples < most
        && u128::from(samples * 2) * u128::from(rate.den()) <= 64 * u128::from(rate.num())
    {
        samples *= 2;
    }
    samples
}

pub(crate) fn attributes_text(
    owner: &str,
    attributes: &Map<String, Value>,
) -> Result<String, StoreError> {
    if attributes.contains_key("isochrony") {
        return Err(StoreError::InvalidAttributes {
            owner: owner.into(),
            reason: "the key \"isochrony\" is reserved".into(),
        });
    }
    let refuse = |reason: String| StoreError::InvalidAttributes {
        owner: owner.into(),
        reason,
    };
    // The size of a `zarr.json` is limited.
    let described = zarr::to_bytes(&zarr::group(attributes.clone()));
    let (have, most) = (described.len() as u64, limits::METADATA - OWN_METADATA);
    if have > most {
        return Err(refuse(format!(
            "they take {have} bytes as JSON, and at most {most} are read; store them as a signal, or as a file"
        )));
    }
    serde_json::to_string(attributes).map_err(|error| refuse(error.to_string()))
}

/// Bytes of a `zarr.json` for other than user attributes.
const OWN_METADATA: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use isochrony_segment::DType;

    use super::*;

    #[test]
    fn rejects_attributes_that_exceed_the_read_limit() {
        let mut attributes = Map::new();
        attributes.insert("a".into(), "x".repeat(1 << 20).into());
        assert!(attributes_text("s", &attributes).is_ok());
        attributes.insert("b".into(), "x".repeat(64 << 20).into());
        let error = attributes_text("s", &attributes).unwrap_err();
        assert_eq!(error.code(), "invalid_attributes");
        assert!(error.to_string().contains("at most"), "{error}");
    }

    #[test]
    fn chunks_follow_the_rate_between_64_kib_and_1_mib() {
        let hz = |hz| Rate::from_hz(hz).unwrap();
        for (dtype, rate, bytes) in [
            (DType::I16, hz(1), 64 << 10),
            (DType::I16, hz(100), 64 << 10),
            (DType::I16, hz(2_000), 128 << 10),
            (DType::F64, hz(2_000), 512 << 10),
            (DType::I16, hz(1_000_000), 1 << 20),
            (DType::C128, hz(1), 64 << 10),
        ] {
            let samples = chunk_samples(dtype.into(), rate);
            assert!(samples.is_power_of_two());
            let longest = 64 * rate.num();
            assert_eq!(samples * dtype.size() as u64, bytes, "{dtype} at {rate}");
            assert!(samples <= longest || samples * dtype.size() as u64 == 64 << 10);
        }
    }

    #[test]
    fn rejects_options_that_make_no_sense() {
        let good = CreateOptions::new(DType::I16, Rate::from_hz(10).unwrap());
        good.meta("x").unwrap();
        let refused = |change: &dyn Fn(&mut CreateOptions)| {
            let mut options = good.clone();
            change(&mut options);
            options.meta("x").unwrap_err().code()
        };
        assert_eq!(refused(&|o| o.alpha = 0.0), "invalid_option");
        assert_eq!(refused(&|o| o.alpha = f64::NAN), "invalid_option");
        assert_eq!(refused(&|o| o.gap_slip_ns = Some(-1)), "invalid_option");
        assert_eq!(refused(&|o| o.max_gap_ns = 0), "invalid_option");
        let initial = |o: &mut CreateOptions| o.initial_rate = Some(Rate::new(201, 10).unwrap());
        assert_eq!(refused(&initial), "invalid_option");
        let initial = |o: &mut CreateOptions| o.initial_rate = Some(Rate::new(49, 10).unwrap());
        assert_eq!(refused(&initial), "invalid_option");
        assert_eq!(
            refused(&|o| o.calibration = Some((0.0, 1.0))),
            "invalid_calibration"
        );
        let reserved = |o: &mut CreateOptions| {
            o.attributes.insert("isochrony".into(), Value::Null);
        };
        assert_eq!(refused(&reserved), "invalid_attributes");
    }
}
