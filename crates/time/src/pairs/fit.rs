//! Fits a metric to points: a line or pieces.

use super::check::{check_monotone, check_points};
use super::corridor::{Corridor, least_squares, robust};
use super::metric::{Knot, Margin};
use super::options::{FitShape, PointFitOptions, PointPair};
use super::outliers::{Candidate, contradicts_stated, outliers, scatter};
use super::polyline::Polyline;
use super::{Chord, FitPoint, PointFit, PointMetric};
use crate::wide::mul_div_round;
use crate::{Fixed, TimeError};

/// A line's uncertainty is convex: chords do not underestimate it.
const MARGINS: u32 = 16;
/// At least so many points per excluded one.
const POINTS_PER_EXCLUSION: usize = 10;

/// The origin of the fit's coordinates.
struct ReferenceLine {
    first: PointPair,
    last: PointPair,
}

impl ReferenceLine {
    fn new(points: &[PointPair], used: &[usize]) -> Self {
        Self {
            first: points[used[0]],
            last: points[used[used.len() - 1]],
        }
    }

    fn span(&self) -> Fixed {
        distance(self.first.from, self.last.from)
    }

    fn advance(&self) -> Fixed {
        distance(self.first.to, self.last.to)
    }

    /// Distances from the first point and from the line; exact up to the last step.
    fn place(&self, point: &PointPair) -> Result<(f64, f64), TimeError> {
        let overflow = TimeError::Overflow { what: "point" };
        let along = point.from.checked_sub(self.first.from);
        let along = along.ok_or_else(|| overflow.clone())?;
        let (num, den) = (self.advance().to_bits(), self.span().to_bits());
        let on_line = mul_div_round(along.to_bits(), num, den).map(Fixed::from_bits);
        let on_line = on_line.and_then(|line| self.first.to.checked_add(line));
        let off = on_line.and_then(|line| point.to.checked_sub(line));
        Ok((along.to_f64(), off.ok_or(overflow)?.to_f64()))
    }
}

fn distance(from: Fixed, to: Fixed) -> Fixed {
    Fixed::from_bits(to.to_bits().saturating_sub(from.to_bits()))
}

impl PointFit {
    /// Fits a metric to points.
    ///
    /// Points without uncertainty, or with one far below the scatter, get that of the scatter. Points that disagree
    /// with all neighbours are excluded and reported.
    ///
    /// # Errors
    /// [`TimeError::TooFewPoints`], [`TimeError::UnsortedPoints`] also for equal values, [`TimeError::NotMonotone`],
    /// [`TimeError::NegativeUncertainty`], [`TimeError::UnknownUncertainty`], [`TimeError::BadConfig`],
    /// [`TimeError::Overflow`] for values too far apart.
    pub fn new(points: &[PointPair], options: &PointFitOptions) -> Result<Self, TimeError> {
        options.check()?;
        check_points(points)?;
        let all: Vec<usize> = (0..points.len()).collect();
        let left_out = outliers(&candidates(points, &all)?);
        let used: Vec<usize> = all
            .into_iter()
            .filter(|at| left_out.binary_search(at).is_err())
            .collect();
        let halves = halves(points, &used)?;
        check_monotone(points, &used, |at| halves[at])?;
        let selected = UsedPoints::new(points, used, &halves)?;
        match options.shape {
            Some(FitShape::Line) => selected.forced_line(options, left_out),
            Some(FitShape::Pieces) => selected.pieces(options, left_out),
            None => {
                if let Some(line) = selected.line(options, &left_out)? {
                    return Ok(line);
                }
                let (inside, outside) = selected.beside_robust_line();
                let most = points.len() / POINTS_PER_EXCLUSION;
                if !outside.is_empty() && left_out.len() + outside.len() <= most {
                    let fewer = UsedPoints::new(points, inside, &halves)?;
                    let mut left_out = left_out.clone();
                    left_out.extend(outside);
                    left_out.sort_unstable();
                    if let Some(line) = fewer.line(options, &left_out)? {
                        return Ok(line);
                    }
                }
                selected.pieces(options, left_out)
            }
        }
    }
}

fn candidates(points: &[PointPair], used: &[usize]) -> Result<Vec<Candidate>, TimeError> {
    let reference = ReferenceLine::new(points, used);
    let place = |&at: &usize| {
        let (x, y) = reference.place(&points[at])?;
        let half = points[at].uncertainty.map(Fixed::to_f64);
        Ok(Candidate { x, y, half })
    };
    used.iter().map(place).collect()
}

/// Half-widths of the points in use, by position; else zero.
fn halves(points: &[PointPair], used: &[usize]) -> Result<Vec<f64>, TimeError> {
    let candidates = candidates(points, used)?;
    let scatter = scatter(&candidates);
    let least = match contradicts_stated(&candidates) {
        true => scatter,
        false => 0.0,
    };
    let mut halves = vec![0.0; points.len()];
    for (&at, point) in used.iter().zip(&candidates) {
        halves[at] = point.half.unwrap_or(scatter).max(least);
    }
    Ok(halves)
}

struct UsedPoints<'a> {
    points: &'a [PointPair],
    used: Vec<usize>,
    placed: Vec<FitPoint>,
    reference: ReferenceLine,
    pad: f64,
}

impl<'a> UsedPoints<'a> {
    fn new(points: &'a [PointPair], used: Vec<usize>, halves: &[f64]) -> Result<Self, TimeError> {
        let reference = ReferenceLine::new(points, &used);
        let span = reference.span().to_f64();
        let mut placed: Vec<FitPoint> = Vec::with_capacity(used.len());
        for &at in &used {
            let (x, y) = reference.place(&points[at])?;
            let (t, half) = (x / span, halves[at]);
            if placed.last().is_some_and(|before| t <= before.t) {
                let what = "span of points beside the distance of two of them";
                return Err(TimeError::Overflow { what });
            }
            placed.push(FitPoint { t, y, half });
        }
        let largest = placed.iter().map(|p| p.y.abs()).fold(0.0, f64::max);
        let pad = 16.0 * f64::EPSILON * largest + 2.0 / (1u64 << 32) as f64;
        Ok(Self {
            points,
            used,
            placed,
            reference,
            pad,
        })
    }

    fn line(
        &self,
        options: &PointFitOptions,
        left_out: &[usize],
    ) -> Result<Option<PointFit>, TimeError> {
        let Some(corridor) = Corridor::through(&self.placed, self.pad) else {
            return Ok(None);
        };
        let line = corridor.best(&self.placed, self.pad);
        let margin = |k: u32| {
            let t = f64::from(k) / f64::from(MARGINS);
            let half = corridor.reach(&line, t) + self.pad;
            let from = mul_div_round(self.reference.span().to_bits(), k.into(), MARGINS.into());
            let from = self.reference.first.from.to_bits() + from.unwrap_or(0);
            let from = Fixed::from_bits(from);
            Margin { from, half }
        };
        let margins = (0..=MARGINS).map(margin).collect();
        let ends = [(0, line.first), (self.used.len() - 1, line.last)];
        let knots = ends.map(|(at, y)| self.knot(at, y));
        let [first, last] = knots;
        let knots = vec![first?, last?];
        let rises = knots[0].to < knots[1].to;
        if knots[0].to == knots[1].to || rises != (self.reference.advance() > Fixed::ZERO) {
            return Err(self.turned(0, self.used.len() - 1));
        }
        let outside = self.outside(corridor.slope_reach(&line), options);
        let metric = PointMetric {
            knots,
            margins,
            outside: (outside, outside),
        };
        Ok(Some(self.report(
            metric,
            FitShape::Line,
            left_out.to_vec(),
            |t| line.at(t),
        )))
    }

    /// Points off the line widen all intervals: without a straight truth only the largest distance bounds the error.
    fn forced_line(
        mut self,
        options: &PointFitOptions,
        left_out: Vec<usize>,
    ) -> Result<PointFit, TimeError> {
        if let Some(line) = self.line(options, &left_out)? {
            return Ok(line);
        }
        let line = least_squares(&self.placed);
        let off = |point: &FitPoint| (point.y - line.at(point.t)).abs();
        let largest =
            |away: &dyn Fn(&FitPoint) -> f64| self.placed.iter().map(away).fold(0.0, f64::max);
        let outside = largest(&|point| off(point) - point.half);
        let furthest = largest(&|point| off(point) + point.half);
        self.placed
            .iter_mut()
            .for_each(|point| point.half += outside);
        let wide = self.line(options, &left_out)?;
        let mut wide = wide.ok_or_else(|| self.turned(0, self.used.len() - 1))?;
        for margin in &mut wide.metric.margins {
            margin.half = margin.half.max(furthest + self.pad);
        }
        Ok(wide)
    }

    fn pieces(
        &self,
        options: &PointFitOptions,
        left_out: Vec<usize>,
    ) -> Result<PointFit, TimeError> {
        let advance = self.reference.advance().to_f64();
        let polyline = Polyline::through(&self.placed, advance, options.wander, self.pad);
        let polyline = polyline.map_err(|at| self.turned(at - 1, at))?;
        let position = |t: f64| {
            let at = self.placed.partition_point(|point| point.t < t);
            at.min(self.used.len() - 1)
        };
        let knots = polyline.knots.iter();
        let knots: Result<Vec<Knot>, _> = knots.map(|&(t, y)| self.knot(position(t), y)).collect();
        let knots = knots?;
        let goes_on = |pair: &[Knot]| match advance < 0.0 {
            true => pair[1].to < pair[0].to,
            false => pair[1].to > pair[0].to,
        };
        if let Some(at) = knots.windows(2).position(|pair| !goes_on(pair)) {
            let (before, after) = (
                position(polyline.knots[at].0),
                position(polyline.knots[at + 1].0),
            );
            return Err(self.turned(before, after));
        }
        let margins = polyline.margins.iter().zip(&self.used);
        let margins = margins.map(|(&(_, half), &at)| Margin {
            from: self.points[at].from,
            half,
        });
        let metric = PointMetric {
            margins: margins.collect(),
            knots,
            outside: (
                self.outside(polyline.outside.0, options),
                self.outside(polyline.outside.1, options),
            ),
        };
        Ok(self.report(metric, FitShape::Pieces, left_out, |t| polyline.at(t)))
    }

    fn beside_robust_line(&self) -> (Vec<usize>, Vec<usize>) {
        let line: Chord = robust(&self.placed);
        let both = self.used.iter().zip(&self.placed);
        let (inside, outside): (Vec<_>, Vec<_>) = both.partition(|(_, point)| {
            (point.y - line.at(point.t)).abs() <= 1.5 * point.half + self.pad
        });
        let positions = |all: Vec<(&usize, &FitPoint)>| all.iter().map(|(at, _)| **at).collect();
        (positions(inside), positions(outside))
    }

    fn knot(&self, at: usize, y: f64) -> Result<Knot, TimeError> {
        let from = self.points[self.used[at]].from;
        let overflow = TimeError::Overflow { what: "point" };
        let along = from.checked_sub(self.reference.first.from);
        let (num, den) = (
            self.reference.advance().to_bits(),
            self.reference.span().to_bits(),
        );
        let to = along
            .and_then(|along| mul_div_round(along.to_bits(), num, den))
            .and_then(|line| self.reference.first.to.checked_add(Fixed::from_bits(line)));
        let off = Fixed::from_f64_nearest(y)?;
        let to = to.and_then(|to| to.checked_add(off)).ok_or(overflow)?;
        Ok(Knot { from, to })
    }

    /// Growth of the uncertainty beyond the points, per unit of the first timebase.
    fn outside(&self, slope: f64, options: &PointFitOptions) -> f64 {
        let wander = options.wander * self.reference.advance().to_f64().abs();
        (slope + wander) / self.reference.span().to_f64()
    }

    fn turned(&self, before: usize, after: usize) -> TimeError {
        let (before, after) = (self.used[before], self.used[after]);
        TimeError::NotMonotone {
            before,
            after,
            before_to: self.points[before].to,
            after_to: self.points[after].to,
            falls: self.reference.advance() < Fixed::ZERO,
        }
    }

    fn report(
        &self,
        metric: PointMetric,
        shape: FitShape,
        outliers: Vec<usize>,
        at: impl Fn(f64) -> f64,
    ) -> PointFit {
        let straight = least_squares(&self.placed);
        let rms = |at: &dyn Fn(f64) -> f64| {
            let squares = self.placed.iter().map(|p| (p.y - at(p.t)).powi(2));
            (squares.sum::<f64>() / self.placed.len() as f64).sqrt()
        };
        let off = self.placed.iter().map(|p| (p.y - at(p.t)).abs());
        let widths = self.placed.iter().map(|point| point.half);
        PointFit {
            metric,
            shape,
            residual: rms(&at),
            largest_residual: off.fold(0.0, f64::max),
            line_residual: rms(&|t| straight.at(t)),
            resolution: widths.fold(0.0, f64::max),
            outliers,
        }
    }
}
