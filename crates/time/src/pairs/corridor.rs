//! [`Corridor`]: the lines through all points' intervals.
//!
//! A line is a point in the plane of its values at `t` = 0 and 1, an interval a strip: the lines through all intervals
//! form a convex polygon, and the farthest from any other line, at any `t`, is a corner.

use super::{Chord, FitPoint};

#[derive(Clone, Debug)]
pub(super) struct Corridor {
    corners: Vec<Chord>,
}

impl Corridor {
    /// `pad` widens the intervals.
    pub(super) fn through(points: &[FitPoint], pad: f64) -> Option<Self> {
        let (first, last) = (points.first()?, points.last()?);
        let rows = [first.low() - pad, first.high() + pad];
        let columns = [last.low() - pad, last.high() + pad];
        let corner = |row: usize, column: usize| Chord {
            first: rows[row],
            last: columns[column],
        };
        let mut corners = vec![corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 1)];
        for point in points {
            cut(&mut corners, |line| line.at(point.t) - (point.low() - pad));
            cut(&mut corners, |line| point.high() + pad - line.at(point.t));
            if corners.is_empty() {
                return None;
            }
        }
        Some(Self { corners })
    }

    /// The least-squares line, moved towards the middle until inside.
    pub(super) fn best(&self, points: &[FitPoint], pad: f64) -> Chord {
        let count = self.corners.len() as f64;
        let middle = Chord {
            first: self.corners.iter().map(|line| line.first).sum::<f64>() / count,
            last: self.corners.iter().map(|line| line.last).sum::<f64>() / count,
        };
        let wanted = least_squares(points);
        let mut share = 1.0f64;
        for point in points {
            let (from, to) = (middle.at(point.t), wanted.at(point.t));
            for (bound, sign) in [(point.low() - pad, -1.0), (point.high() + pad, 1.0)] {
                let (room, step) = (sign * (bound - from), sign * (to - from));
                if step > room {
                    share = share.min((room / step).max(0.0));
                }
            }
        }
        let mix = |a: f64, b: f64| a + share * (b - a);
        Chord {
            first: mix(middle.first, wanted.first),
            last: mix(middle.last, wanted.last),
        }
    }

    pub(super) fn reach(&self, line: &Chord, t: f64) -> f64 {
        let far = self.corners.iter().map(|other| other.at(t) - line.at(t));
        far.map(f64::abs).fold(0.0, f64::max)
    }

    pub(super) fn slope_reach(&self, line: &Chord) -> f64 {
        let far = self.corners.iter();
        far.map(|other| (other.slope() - line.slope()).abs())
            .fold(0.0, f64::max)
    }
}

/// Keeps the part where `inside` is not negative.
fn cut(corners: &mut Vec<Chord>, inside: impl Fn(&Chord) -> f64) {
    if corners.iter().all(|line| inside(line) >= 0.0) {
        return;
    }
    let mut kept = Vec::with_capacity(corners.len() + 1);
    for (k, line) in corners.iter().enumerate() {
        let next = &corners[(k + 1) % corners.len()];
        let (here, there) = (inside(line), inside(next));
        if here >= 0.0 {
            kept.push(*line);
        }
        if (here < 0.0) != (there < 0.0) {
            let share = here / (here - there);
            kept.push(Chord {
                first: line.first + share * (next.first - line.first),
                last: line.last + share * (next.last - line.last),
            });
        }
    }
    *corners = kept;
}

pub(super) fn least_squares(points: &[FitPoint]) -> Chord {
    let widest = points.iter().map(|point| point.half).fold(0.0, f64::max);
    let floor = if widest > 0.0 { 1e-6 * widest } else { 1.0 };
    let (mut weight, mut t, mut y) = (0.0, 0.0, 0.0);
    let weight_of = |point: &FitPoint| (point.half.max(floor)).powi(-2);
    for point in points {
        let w = weight_of(point);
        weight += w;
        t += w * point.t;
        y += w * point.y;
    }
    let (t, y) = (t / weight, y / weight);
    let (mut square, mut product) = (0.0, 0.0);
    for point in points {
        let w = weight_of(point);
        square += w * (point.t - t) * (point.t - t);
        product += w * (point.t - t) * (point.y - y);
    }
    let slope = if square > 0.0 { product / square } else { 0.0 };
    let first = y - slope * t;
    Chord {
        first,
        last: first + slope,
    }
}

/// Medians, with slopes of points half the list apart.
pub(super) fn robust(points: &[FitPoint]) -> Chord {
    let apart = points.len() / 2;
    let pairs = points.iter().zip(&points[apart..]);
    let slope = middle(pairs.map(|(a, b)| (b.y - a.y) / (b.t - a.t)).collect());
    let first = middle(points.iter().map(|p| p.y - slope * p.t).collect());
    Chord {
        first,
        last: first + slope,
    }
}

fn middle(mut values: Vec<f64>) -> f64 {
    let at = values.len() / 2;
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}
