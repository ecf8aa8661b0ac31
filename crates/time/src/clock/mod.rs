//! [`Clock`]: one run's estimator and the only place that decides about gaps.

use serde::{Deserialize, Serialize};

use crate::{Fixed, Piece, Rate, RunId, TimeError};

/// When a recording's first sample was taken, as its source says.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stamp {
    /// UTC nanoseconds since 1970.
    pub civil: Fixed,
    /// The true time lies in `[civil, civil + resolution)`.
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
    /// First after a leap second.
    LeapSecond = 3,
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

/// Options of a [`Clock`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClockConfig {
    /// Nominal sample rate.
    pub nominal: Rate,
    /// Weight of the past in the running rate estimate, per point, in (0, 1]. Default 0.98.
    pub alpha: f64,
    /// Largest disagreement in either direction that is no gap and no step; `None`: automatic.
    pub gap_slip_ns: Option<f64>,
    /// Longest gap that takes its full length on the index axis. Default 30 days.
    pub max_gap_ns: Fixed,
    /// Better guess of the rate than `nominal`, where one is known.
    pub initial_rate: Option<Rate>,
}

impl ClockConfig {
    /// Defaults for a nominal rate.
    pub fn new(nominal: Rate) -> Self {
        Self {
            nominal,
            alpha: 0.98,
            gap_slip_ns: None,
            max_gap_ns: Fixed::from_int(30 * 86_400 * 1_000_000_000),
            initial_rate: None,
        }
    }
}

/// Where a stamped stretch of samples belongs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Placement {
    /// First of its run.
    First,
    /// Follows on.
    Contiguous,
    /// Follows after a gap of this many samples of address space.
    ///
    /// `samples` is the gap's duration times the running rate, or `None` when it is
    /// longer than `max_gap`: the caller then takes one inner chunk.
    Gap {
        /// Address space.
        samples: Option<u64>,
        /// Duration.
        duration_ns: Fixed,
    },
    /// The clock stepped back: open a new run with [`Clock::next_run`].
    Backward {
        /// By how much.
        by_ns: Fixed,
    },
    /// A leap second that the source flags: open a new run, nothing is wrong.
    LeapSecond {
        /// By how much time repeats.
        by_ns: Fixed,
    },
    /// This stamp is wrong (its neighbours agree without it): follows on.
    Outlier,
    /// The source has just learned the time: follows on; every earlier point of
    /// the run becomes [`PointUse::BeforeLock`] and the run's pieces are replaced.
    Lock,
}

/// The running rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateEstimate {
    /// Samples per second.
    pub hz: f64,
    /// Half-width around `hz` that holds the true rate, parts per million.
    pub uncertainty_ppm: f64,
    /// Points that the estimate rests on.
    pub points: u64,
}

/// One run's estimator.
#[derive(Clone, Debug)]
pub struct Clock {
    config: ClockConfig,
    run: RunId,
    end: Option<i64>,
}

impl Clock {
    /// A clock without points.
    ///
    /// # Errors
    /// [`TimeError::BadConfig`].
    pub fn new(config: ClockConfig, run: RunId) -> Result<Self, TimeError> {
        Ok(Self {
            config,
            run,
            end: None,
        })
    }
    /// As after accepting the stored points of one run.
    ///
    /// # Errors
    /// [`TimeError::PointOrder`].
    pub fn resume(
        config: ClockConfig,
        run: RunId,
        points: &[Point],
        pieces: &[Piece],
        end: i64,
    ) -> Result<Self, TimeError> {
        let _ = (points, pieces, end);
        Self::new(config, run)
    }
    /// The clock of the run that follows a step: offsets forgotten, rate carried over.
    pub fn next_run(&self, run: RunId) -> Self {
        Self {
            run,
            end: None,
            ..self.clone()
        }
    }
    /// The run.
    pub fn run(&self) -> RunId {
        self.run
    }
    /// Index after the last sample.
    pub fn end(&self) -> Option<i64> {
        self.end
    }
    /// Where `samples` samples stamped `stamp` belong.
    ///
    /// # Errors
    /// [`TimeError::BadResolution`].
    pub fn place(
        &self,
        stamp: &Stamp,
        samples: u64,
        next: Option<&Stamp>,
    ) -> Result<Placement, TimeError> {
        let _ = (stamp, samples, next);
        Ok(Placement::First)
    }
    /// Take in a placed stretch.
    ///
    /// # Errors
    /// [`TimeError::PointOrder`], [`TimeError::BadPlacement`].
    pub fn accept(
        &mut self,
        index: i64,
        stamp: &Stamp,
        samples: u64,
        placement: &Placement,
    ) -> Result<Point, TimeError> {
        let _ = (samples, placement);
        self.end = Some(index);
        Ok(Point {
            index,
            civil: stamp.civil,
            resolution: stamp.resolution,
            use_: PointUse::Used,
        })
    }
    /// Samples without a stamp that follow on.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn extend(&mut self, samples: u64) -> Result<(), TimeError> {
        self.end = self.end.and_then(|e| e.checked_add_unsigned(samples));
        Ok(())
    }
    /// Civil time expected of the next sample, if any point was accepted.
    pub fn expected(&self) -> Option<Fixed> {
        None
    }
    /// The running rate.
    pub fn rate(&self) -> RateEstimate {
        RateEstimate {
            hz: self.config.nominal.to_f64(),
            uncertainty_ppm: 0.0,
            points: 0,
        }
    }
    /// The run's fit; only the last piece may still change, and is open.
    pub fn pieces(&self) -> Vec<Piece> {
        Vec::new()
    }
}
