//! [`PointMetric`]: an empirical metric between any two timebases, fitted to pairs of points.
//!
//! - `options`: what goes in;
//! - `check`: which points make a metric at all;
//! - `outliers`: points that disagree with those around them, and how much the others scatter;
//! - `corridor`: the straight lines through all intervals;
//! - `polyline`: a continuous line of few straight pieces through all intervals;
//! - `fit`: chooses between the two;
//! - `metric`: the result;
//! - `corrected`: the metric of a signal's samples whose clock a [`PointMetric`] corrects.
//!
//! Each point says: where the first timebase is at `from`, the second is within `uncertainty` of `to`. The fit is made
//! in floats, relative to a line through the first and the last point, so that their rounding is far below any
//! uncertainty; it is added to what is stated. The metric itself is exact: a line between knots that are [`Fixed`].
//!
//! What a stated uncertainty means. Every point in use is taken to hold the truth within its interval, and
//! - of a *line*: the truth is one of the straight lines through all intervals. All of these are known, so that what is
//!   stated between the points and beyond them is the distance to the furthest;
//! - of *pieces*: between two points the rate stays within the rates of this piece and its neighbours, widened by their
//!   spread and by [`PointFitOptions::wander`].
//!
//! Beyond the points the rate may also differ by [`PointFitOptions::wander`].

mod check;
mod corrected;
mod corridor;
mod fit;
mod metric;
mod options;
mod outliers;
mod polyline;

pub use metric::{PointFit, PointMetric};
pub use options::{FitShape, PointFitOptions, PointPair};

/// A point in coordinates of the fit: `t` is 0 at the first point in use and 1 at the last one, `y` counts from the line
/// through these two.
#[derive(Clone, Copy, Debug)]
struct FitPoint {
    t: f64,
    y: f64,
    /// Half-width of its interval.
    half: f64,
}

impl FitPoint {
    fn low(&self) -> f64 {
        self.y - self.half
    }

    fn high(&self) -> f64 {
        self.y + self.half
    }
}

/// A straight line by its values at `t` = 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Chord {
    first: f64,
    last: f64,
}

impl Chord {
    fn at(&self, t: f64) -> f64 {
        self.first + (self.last - self.first) * t
    }

    fn slope(&self) -> f64 {
        self.last - self.first
    }
}
