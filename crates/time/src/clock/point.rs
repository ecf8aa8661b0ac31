//! What goes into a clock ([`Stamp`]) and what comes out ([`Placement`], [`Point`]).

use serde::{Deserialize, Serialize};

use crate::{Fixed, TimeError};

/// When a recording's first sample was taken, as its source says.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stamp {
    /// UTC nanoseconds since 1970.
    pub civil: Fixed,
    /// The true time lies in `[civil, civil + resolution)`; 0: exact.
    pub resolution: Fixed,
    /// The source says that a leap second came since the previous stamp.
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

    /// The middle of the interval that holds the true time.
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

/// What the metric made of a point.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum PointUse {
    /// Part of the fit.
    Used = 0,
    /// Its stamp disagrees with those around it; its samples follow on.
    Outlier = 1,
    /// Stamped before the source knew the time; its samples are kept.
    BeforeLock = 2,
    /// First after a leap second; part of the fit.
    LeapSecond = 3,
}

impl PointUse {
    /// The mark of a stored number.
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

/// A raw correspondence of index and stamp, kept for ever, with its mark.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Index of the stamped sample.
    pub index: i64,
    /// Stamp, UTC nanoseconds since 1970.
    pub civil: Fixed,
    /// The true time lies in `[civil, civil + resolution)`, nanoseconds.
    pub resolution: Fixed,
    /// What the metric made of it.
    pub use_: PointUse,
}

/// Where a stamped stretch of samples belongs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Placement {
    /// First of its run.
    First,
    /// Follows on.
    Contiguous,
    /// Follows after a gap.
    Gap {
        /// Address space to leave: the duration times the running rate, at
        /// least one sample. `None` beyond `max_gap`: take one inner chunk.
        samples: Option<u64>,
        /// How long the gap lasted.
        duration_ns: Fixed,
    },
    /// The clock stepped back: open a run with [`crate::Clock::next_run`].
    Backward {
        /// By how much.
        by_ns: Fixed,
    },
    /// A leap second that the source flags: open a run; nothing is wrong.
    LeapSecond {
        /// By how much time repeats.
        by_ns: Fixed,
    },
    /// This stamp is wrong (its neighbours agree without it): follows on.
    Outlier,
    /// The source has just learned the time: follows on; every earlier point of
    /// the run becomes [`PointUse::BeforeLock`], and the run's pieces are
    /// replaced by one that reaches back to its start.
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

/// The running rate of a clock.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RateEstimate {
    /// Samples per second.
    pub hz: f64,
    /// Half-width around `hz` that holds the true rate, parts per million.
    pub uncertainty_ppm: f64,
    /// Stamps that the estimate rests on.
    pub points: u64,
}
