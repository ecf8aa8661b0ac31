//! Errors of time.

use thiserror::Error;

use crate::{Fixed, RunId, civil};

/// [`TimeError::code`] is stable, messages may change.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum TimeError {
    /// NaN or infinite float.
    #[error("{what} is {value}, expected a finite number; check the source for missing values")]
    NotFinite {
        /// Its meaning.
        what: &'static str,
        /// Value.
        value: f64,
    },
    /// No multiple of 2^-32 within 95 bits.
    #[error(
        "{value:e} has no exact value in units of 2^-32 within 95 bits; round it first or give it as decimal text"
    )]
    NotRepresentable {
        /// Value.
        value: f64,
    },
    /// A result out of the range of [`Fixed`] or a 64-bit index.
    #[error("{what} is out of the range of its type; check the index, time or rate that was given")]
    Overflow {
        /// What was computed.
        what: &'static str,
    },
    /// Not a decimal number.
    #[error("got {text:?}, expected a decimal number such as -12.5")]
    BadNumber {
        /// Text.
        text: String,
    },
    /// Not a sample rate.
    #[error(
        "got rate {text:?}: {reason}; expected samples per second such as 2000, 100.0000042, 44100000/1001 or 2 kHz"
    )]
    BadRate {
        /// Text.
        text: String,
        /// Reason.
        reason: &'static str,
    },
    /// Not a civil time.
    #[error(
        "got time {text:?}: {reason}; give ISO 8601 such as 2010-03-01T00:00:07.000128Z (times without offset are UTC)"
    )]
    BadCivil {
        /// Text.
        text: String,
        /// Reason.
        reason: &'static str,
    },
    /// A zero or negative slope.
    #[error("slope {num}/{den} of {what} is not usable; both parts must be non-zero")]
    ZeroSlope {
        /// Map or piece.
        what: String,
        /// Numerator.
        num: i128,
        /// Denominator.
        den: u128,
    },
    /// A range that ends before it starts.
    #[error("range ends at {end} before it starts at {start}; swap its ends")]
    ReversedRange {
        /// Start.
        start: Fixed,
        /// End.
        end: Fixed,
    },
    /// Times in different timebases.
    #[error("{what}: timebase {got} given where {expected} was expected; convert it first")]
    TimebaseMismatch {
        /// Operation.
        what: &'static str,
        /// Id given.
        got: u32,
        /// Id expected.
        expected: u32,
    },
    /// A timebase unknown to the graph.
    #[error("no timebase {name:?} in this graph; it has {known}")]
    UnknownTimebase {
        /// Name or id.
        name: String,
        /// Known names.
        known: String,
    },
    /// A name in use for another kind.
    #[error("timebase {name:?} exists already as {existing}; choose another name")]
    DuplicateTimebase {
        /// Name.
        name: String,
        /// Its kind.
        existing: String,
    },
    /// No path of metrics joins two timebases.
    #[error(
        "no path from timebase {from:?} to {to:?}: {from:?} reaches {{{from_island}}}, {to:?} reaches {{{to_island}}}; add a metric between the two"
    )]
    Unreachable {
        /// Start.
        from: String,
        /// Target.
        to: String,
        /// Timebases reachable from the start.
        from_island: String,
        /// Timebases reachable from the target.
        to_island: String,
    },
    /// A metric that contradicts existing ones.
    #[error(
        "metric contradicts the path {cycle}: {value} in {timebase:?} comes back as {back}, off by {off}; remove one metric of the cycle"
    )]
    ContradictoryCycle {
        /// Timebases of the cycle.
        cycle: String,
        /// Timebase of the probe.
        timebase: String,
        /// Probe value.
        value: Fixed,
        /// Value after the cycle.
        back: Fixed,
        /// Difference.
        off: Fixed,
    },
    /// A civil time that two runs cover.
    #[error(
        "{} is covered by run {} ({} to {}) and by run {} ({} to {}); say which with prefer=first, last or a run",
        civil::format(*time), first.0, civil::format(first_span.0), civil::format(first_span.1),
        second.0, civil::format(second_span.0), civil::format(second_span.1)
    )]
    Ambiguous {
        /// Civil time.
        time: Fixed,
        /// Run that starts first.
        first: RunId,
        /// Its civil span.
        first_span: (Fixed, Fixed),
        /// Run that starts last.
        second: RunId,
        /// Its civil span.
        second_span: (Fixed, Fixed),
    },
    /// With `Round::Exact`, a time that is not a sample's.
    #[error(
        "{} is not on a sample: {off_ns} ns after sample {index}; round to nearest, floor or ceil",
        civil::format(*time)
    )]
    NotOnSample {
        /// Civil time.
        time: Fixed,
        /// Sample before.
        index: i64,
        /// Distance to it.
        off_ns: Fixed,
    },
    /// With `Round::Exact`, a time in a gap.
    #[error("{} lies in a gap of run {}, so no sample has it; round to nearest, floor or ceil", civil::format(*time), run.0)]
    InGap {
        /// Civil time.
        time: Fixed,
        /// Run.
        run: RunId,
    },
    /// An empirical metric without pieces.
    #[error("the metric has no pieces yet; import or append samples with a time stamp first")]
    Empty,
    /// A run unknown to the metric.
    #[error("no run {} in this metric; it has runs {known}", run.0)]
    UnknownRun {
        /// Run.
        run: RunId,
        /// Known runs.
        known: String,
    },
    /// A piece against the rules of [`crate::Piece`].
    #[error("piece {position} (run {}, index {index}): {reason}; rebuild the metric from its points", run.0)]
    BadPiece {
        /// Position.
        position: usize,
        /// Run.
        run: RunId,
        /// First index.
        index: i64,
        /// Reason.
        reason: &'static str,
    },
    /// A repeated or earlier point.
    #[error(
        "point at index {index} does not follow the last one, which ends at {expected}; give points in index order, each once"
    )]
    PointOrder {
        /// Index given.
        index: i64,
        /// Least index allowed.
        expected: i64,
    },
    /// A negative resolution.
    #[error(
        "stamp resolution {resolution} ns is negative; give the width of the interval that holds the true time"
    )]
    BadResolution {
        /// Resolution.
        resolution: Fixed,
    },
    /// A clock parameter out of range.
    #[error("clock parameter {name}={value} must be {legal}; change {name}")]
    BadConfig {
        /// Parameter.
        name: &'static str,
        /// Value given.
        value: f64,
        /// Legal range.
        legal: &'static str,
    },
    /// A placement unacceptable now.
    #[error("placement {placement} at index {index}: {reason}")]
    BadPlacement {
        /// Kind.
        placement: &'static str,
        /// Index given.
        index: i64,
        /// Reason and remedy.
        reason: &'static str,
    },
    /// Too few points for a metric.
    #[error(
        "{got} points given, expected two or more: a metric needs two to have a rate; give more"
    )]
    TooFewPoints {
        /// Given points.
        got: usize,
    },
    /// A point not behind the previous one.
    #[error(
        "point {position} is at {from}, which is not after the point before it, at {before}; sort the points by their first value and keep one of equal ones"
    )]
    UnsortedPoints {
        /// Position, from 0.
        position: usize,
        /// First value.
        from: Fixed,
        /// That of the previous point.
        before: Fixed,
    },
    /// A negative uncertainty.
    #[error(
        "uncertainty {uncertainty} of point {position} is below zero; give the half-width that holds the true value, 0 for an exact point"
    )]
    NegativeUncertainty {
        /// Position, from 0.
        position: usize,
        /// Uncertainty.
        uncertainty: Fixed,
    },
    /// A point without uncertainty, among too few.
    #[error(
        "point {position} has no uncertainty, and {points} points are too few to estimate one from their scatter (at least {least} are needed); give uncertainty, 0 for exact points"
    )]
    UnknownUncertainty {
        /// Its position, from 0.
        position: usize,
        /// Given points.
        points: usize,
        /// Needed points.
        least: usize,
    },
    /// Points between which the second value does not advance.
    #[error(
        "the second value goes from {before_to} at point {before} to {after_to} at point {after}, where it {} elsewhere; correct or leave out one of the two, or state a larger uncertainty",
        if *falls { "falls" } else { "rises" }
    )]
    NotMonotone {
        /// Earlier point, from 0.
        before: usize,
        /// Later point, from 0.
        after: usize,
        /// Second value of the earlier.
        before_to: Fixed,
        /// Second value of the later.
        after_to: Fixed,
        /// Whether the second timebase falls overall.
        falls: bool,
    },
}

impl TimeError {
    /// Stable snake_case name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFinite { .. } => "not_finite",
            Self::NotRepresentable { .. } => "not_representable",
            Self::Overflow { .. } => "overflow",
            Self::BadNumber { .. } => "bad_number",
            Self::BadRate { .. } => "bad_rate",
            Self::BadCivil { .. } => "bad_civil",
            Self::ZeroSlope { .. } => "zero_slope",
            Self::ReversedRange { .. } => "reversed_range",
            Self::TimebaseMismatch { .. } => "timebase_mismatch",
            Self::UnknownTimebase { .. } => "unknown_timebase",
            Self::DuplicateTimebase { .. } => "duplicate_timebase",
            Self::Unreachable { .. } => "unreachable",
            Self::ContradictoryCycle { .. } => "contradictory_cycle",
            Self::Ambiguous { .. } => "ambiguous",
            Self::NotOnSample { .. } => "not_on_sample",
            Self::InGap { .. } => "in_gap",
            Self::Empty => "empty",
            Self::UnknownRun { .. } => "unknown_run",
            Self::BadPiece { .. } => "bad_piece",
            Self::PointOrder { .. } => "point_order",
            Self::BadResolution { .. } => "bad_resolution",
            Self::BadConfig { .. } => "bad_config",
            Self::BadPlacement { .. } => "bad_placement",
            Self::TooFewPoints { .. } => "too_few_points",
            Self::UnsortedPoints { .. } => "unsorted_points",
            Self::NegativeUncertainty { .. } => "negative_uncertainty",
            Self::UnknownUncertainty { .. } => "unknown_uncertainty",
            Self::NotMonotone { .. } => "not_monotone",
        }
    }
}

#[cfg(test)]
mod tests;
