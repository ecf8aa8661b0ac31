//! Input of a session: options, specs, blocks of samples.

use std::time::Duration;

use isochrony_store::SampleFormat;
use isochrony_time::{Rate, Stamp};
use serde_json::{Map, Value};

use crate::IngestError;

/// Options of a [`Session`]. Clock options apply to new signals only.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionOptions {
    /// Largest deviation of a stamp that is neither gap nor step, in ns, not negative; `None`: derived from the stamps.
    pub gap_slip_ns: Option<i64>,
    /// Weight of the past in the rate estimate, in (0, 1]; `None`: the clock's default.
    pub alpha: Option<f64>,
    /// A better rate than the nominal one, from half to twice it; `None`: nominal.
    pub initial_rate: Option<Rate>,
    /// Gaps longer than this take one inner chunk of index, in ns, above 0; `None`: 30 days.
    pub max_gap_ns: Option<i64>,
    /// Least difference between consecutive values across blocks that gives a `value_jump` event, in the signal's unit,
    /// above 0; `None`: no such events.
    pub value_jump: Option<f64>,
    /// Bytes after which a commit is due.
    pub commit_bytes: u64,
    /// Time after which a commit is due.
    pub commit_every: Duration,
}

impl SessionOptions {
    pub(super) fn check(&self) -> Result<(), IngestError> {
        let refuse =
            |option, got: String, legal| Err(IngestError::InvalidOption { option, got, legal });
        match *self {
            Self {
                gap_slip_ns: Some(slip),
                ..
            } if slip < 0 => refuse("gap_slip", format!("{slip} ns"), "give 0 or more"),
            Self {
                alpha: Some(alpha), ..
            } if !(alpha > 0.0 && alpha <= 1.0) => refuse(
                "alpha",
                alpha.to_string(),
                "give a weight above 0 and at most 1",
            ),
            Self {
                max_gap_ns: Some(gap),
                ..
            } if gap <= 0 => refuse("max_gap", format!("{gap} ns"), "give a duration above 0"),
            Self {
                value_jump: Some(jump),
                ..
            } if jump.is_nan() || jump <= 0.0 => {
                refuse("value_jump", jump.to_string(), "give a difference above 0")
            }
            _ => Ok(()),
        }
    }
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            gap_slip_ns: None,
            alpha: None,
            initial_rate: None,
            max_gap_ns: None,
            value_jump: None,
            commit_bytes: 256 << 20,
            commit_every: Duration::from_secs(10),
        }
    }
}

/// Properties of a block's signal, new or existing.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Type of the samples.
    pub format: SampleFormat,
    /// Nominal rate; differences below a thousandth are ignored.
    pub rate: Rate,
    /// Unit of calibrated values, or empty.
    pub unit: String,
    /// Scale and offset: value = count * scale + offset.
    pub calibration: Option<(f64, f64)>,
    /// Attributes of a new signal.
    pub attributes: Map<String, Value>,
}

impl Spec {
    /// Uncalibrated samples.
    #[must_use]
    pub fn new(format: impl Into<SampleFormat>, rate: Rate) -> Self {
        Self {
            format: format.into(),
            rate,
            unit: String::new(),
            calibration: None,
            attributes: Map::new(),
        }
    }
}

/// Consecutive samples of one signal.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// Name of the signal.
    pub signal: &'a str,
    /// What the signal is.
    pub spec: &'a Spec,
    /// Whole samples in native order, at least one.
    pub bytes: &'a [u8],
    /// Time of the first sample; `None`: they follow the last block.
    pub stamp: Option<Stamp>,
    /// Their source.
    pub source: &'a str,
}

/// Consecutive recordings of one signal, each with a stamp.
#[derive(Debug, Clone, Copy)]
pub struct StampedBlocks<'a> {
    /// Name of the signal.
    pub signal: &'a str,
    /// What the signal is.
    pub spec: &'a Spec,
    /// Samples of all recordings, in native order.
    pub bytes: &'a [u8],
    /// Number of samples (positive) and stamp of each.
    pub recordings: &'a [(i64, Stamp)],
    /// Their source.
    pub source: &'a str,
}
