//! [`Polyline`]: connected pieces through all intervals.
//!
//! A cone of slopes from each knot narrows with each point; where it closes, the piece ends at the point before. For
//! the uncertainty between points see [`super`].

use super::FitPoint;

#[derive(Clone, Debug)]
pub(super) struct Polyline {
    /// Ascending in `t`, from 0 to 1.
    pub(super) knots: Vec<(f64, f64)>,
    pub(super) margins: Vec<(f64, f64)>,
    /// Growth of the half-width per unit of `t`, beyond the points.
    pub(super) outside: (f64, f64),
}

/// Minimum rate over the mean: time advances.
const MIN_RATE: f64 = 1e-3;

#[derive(Clone, Copy)]
struct Rates {
    least: f64,
    most: f64,
}

impl Polyline {
    /// `advance` is that of the whole map; `Err` has the point behind which no piece continues.
    pub(super) fn through(
        points: &[FitPoint],
        advance: f64,
        wander: f64,
        pad: f64,
    ) -> Result<Self, usize> {
        let knots = knots(points, advance)?;
        let line = |t: f64| value(&knots, t);
        let half = |point: &FitPoint| {
            let at = line(point.t);
            (point.high() - at).max(at - point.low()).max(0.0) + pad
        };
        let halves: Vec<f64> = points.iter().map(half).collect();
        let at_knot = |knot: &(f64, f64)| {
            let at = points.partition_point(|point| point.t < knot.0);
            halves[at.min(halves.len() - 1)]
        };
        let at_knots: Vec<f64> = knots.iter().map(at_knot).collect();
        let rates = rates(&knots, &at_knots, wander * advance.abs());
        let mut margins: Vec<(f64, f64)> = points.iter().map(|p| p.t).zip(halves).collect();
        let mut piece = 0;
        let mut bumps = Vec::with_capacity(points.len());
        for pair in points.windows(2) {
            while piece + 2 < knots.len() && knots[piece + 1].0 <= pair[0].t {
                piece += 1;
            }
            let Rates { least, most } = rates[piece];
            bumps.push((most - least) * (pair[1].t - pair[0].t) / 4.0);
        }
        for (k, (_, margin)) in margins.iter_mut().enumerate() {
            let before = k.checked_sub(1).map_or(0.0, |k| bumps[k]);
            *margin += before.max(bumps.get(k).copied().unwrap_or(0.0));
        }
        let reach = |piece: usize| {
            let slope = slope(knots[piece], knots[piece + 1]);
            let Rates { least, most } = rates[piece];
            (most - slope).max(slope - least)
        };
        let outside = (reach(0), reach(rates.len() - 1));
        Ok(Self {
            knots,
            margins,
            outside,
        })
    }

    pub(super) fn at(&self, t: f64) -> f64 {
        value(&self.knots, t)
    }
}

fn value(knots: &[(f64, f64)], t: f64) -> f64 {
    let behind = knots.partition_point(|knot| knot.0 <= t);
    let behind = behind.clamp(1, knots.len() - 1);
    let (a, b) = (knots[behind - 1], knots[behind]);
    a.1 + slope(a, b) * (t - a.0)
}

fn slope(a: (f64, f64), b: (f64, f64)) -> f64 {
    (b.1 - a.1) / (b.0 - a.0)
}

fn knots(points: &[FitPoint], advance: f64) -> Result<Vec<(f64, f64)>, usize> {
    // The reference itself advances: a one-sided limit.
    let limit = -(1.0 - MIN_RATE) * advance;
    let all = match advance < 0.0 {
        true => (f64::NEG_INFINITY, limit),
        false => (limit, f64::INFINITY),
    };
    let mut knots = vec![(points[0].t, points[0].y)];
    let mut cone = all;
    let mut at = 1;
    while at < points.len() {
        let knot = knots[knots.len() - 1];
        let point = &points[at];
        let span = point.t - knot.0;
        let narrow = (
            cone.0.max((point.low() - knot.1) / span),
            cone.1.min((point.high() - knot.1) / span),
        );
        if narrow.0 <= narrow.1 {
            cone = narrow;
            at += 1;
            continue;
        }
        let before = &points[at - 1];
        if before.t <= knot.0 {
            return Err(at);
        }
        knots.push((before.t, end_of(knot, before, cone)));
        cone = all;
    }
    let (knot, last) = (knots[knots.len() - 1], points[points.len() - 1]);
    if last.t > knot.0 {
        knots.push((last.t, end_of(knot, &last, cone)));
    }
    Ok(knots)
}

/// Ends as near to the middle of the last point as the cone allows.
fn end_of(knot: (f64, f64), point: &FitPoint, cone: (f64, f64)) -> f64 {
    let span = point.t - knot.0;
    let wanted = (point.y - knot.1) / span;
    knot.1 + wanted.max(cone.0).min(cone.1) * span
}

/// Slopes of a piece and its neighbours, widened by as much again.
fn rates(knots: &[(f64, f64)], halves: &[f64], wander: f64) -> Vec<Rates> {
    let pieces = knots.len() - 1;
    let own: Vec<Rates> = (0..pieces)
        .map(|k| {
            let slope = slope(knots[k], knots[k + 1]);
            let noise = (halves[k] + halves[k + 1]) / (knots[k + 1].0 - knots[k].0);
            Rates {
                least: slope - noise,
                most: slope + noise,
            }
        })
        .collect();
    (0..pieces)
        .map(|k| {
            let around = &own[k.saturating_sub(1)..(k + 2).min(pieces)];
            let least = around
                .iter()
                .map(|one| one.least)
                .fold(f64::INFINITY, f64::min);
            let most = around
                .iter()
                .map(|one| one.most)
                .fold(f64::NEG_INFINITY, f64::max);
            let spread = most - least + wander;
            Rates {
                least: least - spread,
                most: most + spread,
            }
        })
        .collect()
}
