//! Exact time for sampled signals.
//!
//! A [`Time`] is a [`Fixed`] value in a named [`Timebase`]: samples, or UTC nanoseconds since 1970. Metrics join
//! timebases: [`Derived`], a rational line; [`Empirical`], the piecewise-linear fit of stamped recordings;
//! [`PointMetric`], fitted to pairs of points. A [`Graph`] converts along the shortest path.
//!
//! [`Clock`] turns stamps of consecutive recordings into placements (contiguous, gap, step) and [`Piece`]s.
//!
//! Invariants:
//! - no intermediate result overflows: products have 256 bits;
//! - a civil time is within 2^-32 ns of the exact rational;
//! - `index_of(time_of(i)) == i` for every integer `i`;
//! - gaps and clock steps never enter a rate.

pub mod civil;
mod clock;
mod derived;
mod empirical;
mod error;
mod exact;
mod fixed;
mod graph;
mod grid;
mod line;
mod lookup;
mod mean_rate;
mod metric;
mod pairs;
mod piece;
mod process_timebases;
mod rate;
mod ratio;
mod seconds;
mod timebase;
mod wide;

pub use clock::{Clock, ClockConfig, Placement, Point, PointUse, RateEstimate, Stamp};
pub use derived::Derived;
pub use empirical::{Empirical, RunSpan};
pub use error::TimeError;
pub use exact::Exact;
pub use fixed::Fixed;
pub use graph::Graph;
pub use grid::GridSpan;
pub use lookup::{IndexAt, Lookup, Prefer, Round};
pub use mean_rate::MeanRate;
pub use metric::Metric;
pub use pairs::{FitShape, PointFit, PointFitOptions, PointMetric, PointPair};
pub use piece::Piece;
pub use process_timebases::TimebaseDefinition;
pub use rate::Rate;
pub use ratio::Ratio;
pub use seconds::SampleCount;
pub use timebase::{Range, RunId, Time, Timebase, TimebaseId, TimebaseKind};
