//! [`Timebase`], [`Time`] and [`Range`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Exact, Fixed, TimeError};

/// A run: one clock between two clock steps.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct RunId(pub u32);

/// A timebase within one [`Graph`](crate::Graph).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct TimebaseId(pub u32);

impl TimebaseId {
    /// UTC nanoseconds since 1970.
    pub const CIVIL: Self = Self(0);
}

/// What a timebase counts.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum TimebaseKind {
    /// Samples of one signal.
    Index,
    /// UTC nanoseconds since 1970, POSIX (every day has 86,400 s).
    Civil,
    /// Any other unit, such as `s` or `cycles`.
    Unit(String),
}

impl fmt::Display for TimebaseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index => f.write_str("index"),
            Self::Civil => f.write_str("civil"),
            Self::Unit(unit) => write!(f, "unit {unit}"),
        }
    }
}

/// A named axis of time.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Timebase {
    /// Unique within its graph; for an index timebase, the signal's name.
    pub name: String,
    /// What it counts.
    pub kind: TimebaseKind,
}

/// A value in a timebase.
///
/// Compare within one timebase; [`Graph::convert`](crate::Graph::convert) converts. Values are [`Fixed`], or [`Exact`]
/// if unrounded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Time<V = Fixed> {
    /// In the timebase's unit.
    pub value: V,
    /// Its timebase.
    pub timebase: TimebaseId,
    /// Makes the inverse unambiguous.
    pub run: Option<RunId>,
    /// Whether it was interpolated in a gap.
    pub in_gap: bool,
    /// Index timebase of `run`, so other signals ignore it; `None` if the metric has none.
    pub origin: Option<TimebaseId>,
}

impl Time {
    /// A time without a run.
    pub fn new(value: impl Into<Fixed>, timebase: TimebaseId) -> Self {
        Self {
            value: value.into(),
            timebase,
            run: None,
            in_gap: false,
            origin: None,
        }
    }

    /// From UTC nanoseconds since 1970.
    pub fn civil(ns: impl Into<Fixed>) -> Self {
        Self::new(ns, TimebaseId::CIVIL)
    }
}

impl Time<Exact> {
    /// An exact time without a run.
    pub fn exact(value: Exact, timebase: TimebaseId) -> Self {
        Self {
            value,
            timebase,
            run: None,
            in_gap: false,
            origin: None,
        }
    }

    /// Rounded to the nearest 2^-32.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn rounded(&self) -> Result<Time, TimeError> {
        Ok(self.with(self.value.to_fixed()?))
    }
}

impl<V> Time<V> {
    pub(crate) fn with<W>(&self, value: W) -> Time<W> {
        Time {
            value,
            timebase: self.timebase,
            run: self.run,
            in_gap: self.in_gap,
            origin: self.origin,
        }
    }
}

impl From<Time> for Time<Exact> {
    fn from(time: Time) -> Self {
        time.with(time.value.into())
    }
}

/// A half-open range `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Range<V = Fixed> {
    /// Start, inclusive.
    pub start: Time<V>,
    /// End, exclusive.
    pub end: Time<V>,
}

impl<V: Clone + Ord + Into<Exact>> Range<V> {
    /// A range from its ends.
    ///
    /// # Errors
    /// [`TimeError::TimebaseMismatch`]; [`TimeError::ReversedRange`] if the end is before the start.
    pub fn new(start: Time<V>, end: Time<V>) -> Result<Self, TimeError> {
        same("range", end.timebase, start.timebase)?;
        if end.value < start.value {
            return Err(TimeError::ReversedRange {
                start: start.value.into().to_fixed()?,
                end: end.value.into().to_fixed()?,
            });
        }
        Ok(Self { start, end })
    }

    /// Timebase of both ends.
    pub fn timebase(&self) -> TimebaseId {
        self.start.timebase
    }

    /// Whether ranges intersect; empty ones do not.
    ///
    /// # Errors
    /// [`TimeError::TimebaseMismatch`].
    pub fn overlaps(&self, other: &Self) -> Result<bool, TimeError> {
        same("overlaps", other.timebase(), self.timebase())?;
        let start = (&self.start.value).max(&other.start.value);
        Ok(start < (&self.end.value).min(&other.end.value))
    }

    /// Whether `time` lies in `[start, end)`.
    ///
    /// # Errors
    /// [`TimeError::TimebaseMismatch`].
    pub fn contains(&self, time: &Time<V>) -> Result<bool, TimeError> {
        same("contains", time.timebase, self.timebase())?;
        Ok(self.start.value <= time.value && time.value < self.end.value)
    }

    /// Whether `other` lies wholly inside.
    ///
    /// # Errors
    /// [`TimeError::TimebaseMismatch`].
    pub fn contains_range(&self, other: &Self) -> Result<bool, TimeError> {
        same("contains", other.timebase(), self.timebase())?;
        Ok(self.start.value <= other.start.value && other.end.value <= self.end.value)
    }
}

impl Range {
    /// End minus start, in the timebase's unit.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn length(&self) -> Result<Fixed, TimeError> {
        let length = self.end.value.checked_sub(self.start.value);
        length.ok_or(TimeError::Overflow {
            what: "range length",
        })
    }
}

impl Range<Exact> {
    /// Both ends rounded to the nearest 2^-32.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn rounded(&self) -> Result<Range, TimeError> {
        Range::new(self.start.rounded()?, self.end.rounded()?)
    }
}

impl From<Range> for Range<Exact> {
    fn from(range: Range) -> Self {
        Self {
            start: range.start.into(),
            end: range.end.into(),
        }
    }
}

fn same(what: &'static str, got: TimebaseId, expected: TimebaseId) -> Result<(), TimeError> {
    if got == expected {
        return Ok(());
    }
    Err(TimeError::TimebaseMismatch {
        what,
        got: got.0,
        expected: expected.0,
    })
}
