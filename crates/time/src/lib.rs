//! Exact time for sampled signals.
//!
//! A [`Time`] is a [`Fixed`] value (units of 2^-32, held in 128 bits) in a
//! named [`Timebase`]: an index timebase counts samples, the civil timebase
//! counts UTC nanoseconds since 1970. Three kinds of metric join timebases:
//! [`Derived`], a rational linear map; [`Empirical`], the piecewise-linear fit
//! of stamped recordings; and [`PointMetric`], fitted to pairs of points that a
//! user gives. A [`Graph`] converts along the shortest path.
//!
//! [`Clock`] turns the stamps of consecutive recordings into placements (does
//! this file follow on, after a gap, or after a backward step?) and into the
//! [`Piece`]s of an empirical metric. All gap logic of the project lives there.
//!
//! Invariants that the rest of the project relies on:
//! - no intermediate overflows: products run in 256 bits;
//! - a civil time differs from the exact rational by at most 2^-32 ns;
//! - `index_of(time_of(i)) == i` for every integer `i`;
//! - neither a gap nor a clock step is ever absorbed into a rate.

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
mod rate;
mod ratio;
mod resampled;
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
pub use rate::Rate;
pub use ratio::Ratio;
pub use resampled::TimebaseDefinition;
pub use seconds::SampleCount;
pub use timebase::{Range, RunId, Time, Timebase, TimebaseId, TimebaseKind};
