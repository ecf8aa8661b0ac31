//! Inputs and outputs of a clock.

use serde::{Deserialize, Serialize};

use crate::{Fixed, TimeError};

/// Time of a recording's first sample.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stamp {
    /// UTC nanoseconds since 1970.
    pub civil: Fixed,
    /// The true time is in `[civil, civil + resolution)`; 0: exact.
    pub resolution: Fixed,
    /// A leap second since the previous stamp.
    pub leap: bool,
}

impl Stamp {
    /// A stamp without leap second.
    pub fn new(civil: Fixed, resolution: Fixed) -> Self {
        Self {
            civil,
            resolution,
            leap: false,
        }
    }

    pub(crate) fn centre(&self) -> Result<Fixed, TimeError> {
        if self.resolution < Fixed::ZERO {
            return Err(TimeError::BadResolution {
                resolution: self.resolution,
            });
        }
        let half = Fixed::from_bits(self.resolution.to_bits() / 2);
        self.civil
            .checked_add(half)
            .ok_or(TimeError::Overflow { what: "stamp" })
    }
}

/// How the metric uses a point.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum PointUse {
    /// Part of the fit.
    Used = 0,
    /// Disagrees with its neighbours; samples are contiguous.
    Outlier = 1,
    /// Stamped before the source knew the time.
    BeforeLock = 2,
    /// First after a leap second; used.
    LeapSecond = 3,
}

impl PointUse {
    /// From a stored number.
    pub fn from_u8(mark: u8) -> Option<Self> {
        [
            Self::Used,
            Self::Outlier,
            Self::BeforeLock,
            Self::LeapSecond,
        ]
        .get(mark as usize)
        .copied()
    }
}

/// A stored stamp; never deleted.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Index of the stamped sample.
    pub index: i64,
    /// UTC nanoseconds since 1970.
    pub civil: Fixed,
    /// The true time is in `[civil, civil + resolution)`.
    pub resolution: Fixed,
    /// Its use.
    pub use_: PointUse,
}

/// Placement of a stamped block of samples.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Placement {
    /// First of its run.
    First,
    /// Continues the last block.
    Contiguous,
    /// Follows after a gap.
    Gap {
        /// Indices to skip: the duration at the current rate, at least one. `None` beyond `max_gap`: skip one inner
        /// chunk.
        samples: Option<u64>,
        /// Duration.
        duration_ns: Fixed,
    },
    /// Stepped back: open a run with [`crate::Clock::next_run`].
    Backward {
        /// Size of the step.
        by_ns: Fixed,
    },
    /// A flagged leap second: open a run.
    LeapSecond {
        /// Time that repeats.
        by_ns: Fixed,
    },
    /// Its neighbours agree; contiguous.
    Outlier,
    /// The source has just learned the time; contiguous. Earlier points of the run become [`PointUse::BeforeLock`], and
    /// one piece from its start replaces its pieces.
    Lock,
}

impl Placement {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Contiguous => "contiguous",
            Self::Gap { .. } => "gap",
            Self::Backward { .. } => "backward",
            Self::LeapSecond { .. } => "leap second",
            Self::Outlier => "outlier",
            Self::Lock => "lock",
        }
    }
}

/// Current rate of a clock.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RateEstimate {
    /// Samples per second.
    pub hz: f64,
    /// Half-width around `hz`, ppm.
    pub uncertainty_ppm: f64,
    /// Stamps used.
    pub points: u64,
}
