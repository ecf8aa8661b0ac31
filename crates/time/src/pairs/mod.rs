//! [`PointMetric`]: a metric fitted to pairs of points.
//!
//! - `outliers`: outliers and scatter;
//! - `corridor`: lines through all intervals;
//! - `polyline`: straight pieces through all intervals;
//! - `fit`: chooses between the two;
//! - `metric`: the result;
//! - `corrected`: corrects a signal's metric.
//!
//! Where the first timebase is at `from`, the second is within `uncertainty` of `to`. The fit uses floats relative to
//! the line through the first and last point; their rounding error adds to the uncertainty. The metric is exact: its
//! knots are [`Fixed`](crate::Fixed).
//!
//! Uncertainties assume that every point in use has the truth within its interval, and
//! - for a *line*: a straight truth; the uncertainty is the distance to the farthest line through all intervals;
//! - for *pieces*: the rate between two points is within the rates of this piece and its neighbours, widened by their
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

/// `t` is 0 at the first point in use and 1 at the last; `y` is relative to the line through them.
#[derive(Clone, Copy, Debug)]
struct FitPoint {
    t: f64,
    y: f64,
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
