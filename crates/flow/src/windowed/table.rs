//! Statistics by name, and the table that they are collected into.

use std::fmt;
use std::str::FromStr;

use isochrony_dsp::stats::{Extreme, Summary};
use isochrony_segment::Calibration;

use super::FlowError;

/// A statistic of the finite samples of a window, in the signal's unit; of magnitudes if complex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stat {
    /// Smallest sample.
    Min,
    /// Largest sample.
    Max,
    /// Number of finite samples.
    Count,
    /// Arithmetic mean.
    Mean,
    /// Population standard deviation, as NumPy's `std`.
    Std,
    /// Population variance.
    Var,
    /// Root of the mean square.
    Rms,
}

impl Stat {
    /// Every statistic.
    pub const ALL: [Self; 7] = [
        Self::Min,
        Self::Max,
        Self::Count,
        Self::Mean,
        Self::Std,
        Self::Var,
        Self::Rms,
    ];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 7] = ["min", "max", "count", "mean", "std", "var", "rms"];

    /// The name, as [`FromStr`] reads it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Stat {
    type Err = FlowError;

    fn from_str(text: &str) -> Result<Self, FlowError> {
        let known = Self::ALL.into_iter().find(|stat| stat.name() == text);
        known.ok_or_else(|| FlowError::UnknownStat { text: text.into() })
    }
}

/// Values of one column: integers where they are exact, else f64 with NaN where a window has
/// no finite sample.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// Counts, and extremes of uncalibrated bool and integer signals.
    I64(Vec<i64>),
    /// Everything else.
    F64(Vec<f64>),
}

impl Column {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::I64(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values as f64, integers rounded to nearest.
    #[must_use]
    pub fn to_f64(&self) -> Vec<f64> {
        match self {
            Self::I64(values) => values.iter().map(|&value| value as f64).collect(),
            Self::F64(values) => values.clone(),
        }
    }
}

/// One row a window, in the order of the scan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WindowTable {
    /// Index of each window's first sample.
    pub start: Vec<i64>,
    /// Index after each window's last sample.
    pub end: Vec<i64>,
    /// The statistics, in the order in which they were asked for; all as long as `start`.
    pub columns: Vec<(Stat, Column)>,
}

impl WindowTable {
    /// The column of a statistic that was asked for.
    #[must_use]
    pub fn column(&self, stat: Stat) -> Option<&Column> {
        let found = self.columns.iter().find(|(have, _)| *have == stat);
        found.map(|(_, column)| column)
    }

    /// Number of windows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there are no windows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }
}

/// Turns summaries of counts into rows in physical units.
pub(crate) struct Rows<'a> {
    table: WindowTable,
    /// None where counts are values.
    calibration: Option<&'a Calibration>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(stats: &[Stat], integers: bool, calibration: &'a Calibration) -> Self {
        let calibration = Some(calibration).filter(|c| !c.is_identity());
        let columns = stats.iter().map(|&stat| {
            let exact = match stat {
                Stat::Count => true,
                Stat::Min | Stat::Max => integers && calibration.is_none(),
                _ => false,
            };
            let column = if exact {
                Column::I64(Vec::new())
            } else {
                Column::F64(Vec::new())
            };
            (stat, column)
        });
        Self {
            table: WindowTable {
                columns: columns.collect(),
                ..WindowTable::default()
            },
            calibration,
        }
    }

    /// Adds a window. Rounding keeps order, so that calibrating the extremes of counts gives
    /// exactly the extremes of calibrated counts.
    pub(crate) fn push<E: Extreme + Exact>(&mut self, start: i64, end: i64, counts: &Summary<E>) {
        self.table.start.push(start);
        self.table.end.push(end);
        let (mut low, mut high) = (counts.min.to_f64(), counts.max.to_f64());
        if counts.count == 0 {
            (low, high) = (f64::NAN, f64::NAN);
        }
        let (mut mean, mut variance) = (counts.mean, counts.variance());
        if let Some(calibration) = self.calibration {
            let (scale, offset) = (calibration.scale(), calibration.offset());
            (low, high) = (low * scale + offset, high * scale + offset);
            if scale < 0.0 {
                (low, high) = (high, low);
            }
            mean = mean * scale + offset;
            variance *= scale * scale;
        }
        for (stat, column) in &mut self.table.columns {
            match column {
                Column::I64(values) => values.push(match stat {
                    Stat::Min => counts.min.to_i64(),
                    Stat::Max => counts.max.to_i64(),
                    _ => counts.count as i64,
                }),
                Column::F64(values) => values.push(match stat {
                    Stat::Min => low,
                    Stat::Max => high,
                    Stat::Count => counts.count as f64,
                    Stat::Mean => mean,
                    Stat::Std => variance.sqrt(),
                    Stat::Var => variance,
                    Stat::Rms => (mean * mean + variance).sqrt(),
                }),
            }
        }
    }

    pub(crate) fn finish(self) -> WindowTable {
        self.table
    }
}

/// An extreme as exact integer, where it is one.
pub(crate) trait Exact {
    fn to_i64(self) -> i64;
}

macro_rules! exact {
    ($($type:ty)*) => {$(
        impl Exact for $type {
            #[allow(clippy::cast_lossless)]
            fn to_i64(self) -> i64 {
                self as i64
            }
        }
    )*};
}

exact!(i8 i16 i32 i64 u8 u16 f32 f64);
