//! [`PointMetric`], a line through knots, and [`PointFit`].

use super::options::FitShape;
use crate::wide::mul_div_round;
use crate::{Exact, Fixed, TimeError};

/// A continuous, exact, piecewise-linear map, with uncertainties.
///
/// Strictly monotonic; continues beyond the outermost knots.
#[derive(Clone, PartialEq, Debug)]
pub struct PointMetric {
    /// At least two, ascending in `from`.
    pub(super) knots: Vec<Knot>,
    /// At least one, ascending.
    pub(super) margins: Vec<Margin>,
    /// Growth of the half-width per unit of the first timebase, beyond the margins.
    pub(super) outside: (f64, f64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Knot {
    pub(super) from: Fixed,
    pub(super) to: Fixed,
}

/// A half-width, in units of the second timebase.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Margin {
    pub(super) from: Fixed,
    pub(super) half: f64,
}

/// A fitted metric and its quality.
///
/// ```
/// use isochrony_time::{Fixed, FitShape, PointFit, PointFitOptions, PointPair};
/// // A counter that gains 2 ppm, compared with seconds to within a hundredth of a count.
/// let points: Vec<PointPair> = (0..5i64)
///     .map(|k| PointPair::new(k * 1_000_000, k * 1_000_002).within(Fixed::from_decimal_str("0.01").unwrap()))
///     .collect();
/// let fit = PointFit::new(&points, &PointFitOptions::default())?;
/// assert_eq!(fit.shape(), FitShape::Line);
/// let half = fit.metric().forward(Fixed::from_int(500_000))?;
/// assert_eq!(half.round(), 500_001);
/// assert!(fit.metric().uncertainty(Fixed::from_int(500_000)) < 0.011);
/// # Ok::<(), isochrony_time::TimeError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct PointFit {
    pub(super) metric: PointMetric,
    pub(super) shape: FitShape,
    pub(super) residual: f64,
    pub(super) largest_residual: f64,
    pub(super) line_residual: f64,
    pub(super) resolution: f64,
    pub(super) outliers: Vec<usize>,
}

impl PointFit {
    /// The metric.
    #[must_use]
    pub fn metric(&self) -> &PointMetric {
        &self.metric
    }

    /// The shape chosen or requested.
    #[must_use]
    pub fn shape(&self) -> FitShape {
        self.shape
    }

    /// RMS distance of the points in use from the metric, in units of the second timebase.
    #[must_use]
    pub fn residual(&self) -> f64 {
        self.residual
    }

    /// Largest distance of a point in use.
    #[must_use]
    pub fn largest_residual(&self) -> f64 {
        self.largest_residual
    }

    /// [`residual`](Self::residual) of a single line.
    #[must_use]
    pub fn line_residual(&self) -> f64 {
        self.line_residual
    }

    /// Largest half-width of a point in use: the stated one, or that of the scatter if larger or none was stated.
    #[must_use]
    pub fn resolution(&self) -> f64 {
        self.resolution
    }

    /// Positions of excluded points, ascending.
    #[must_use]
    pub fn outliers(&self) -> &[usize] {
        &self.outliers
    }
}

const ROUNDING: f64 = 1.0 / (1u64 << 32) as f64;

/// Limit for pieces, which have a margin per point.
const MAX_BREAKS: usize = 64;

impl PointMetric {
    /// Converts to the second timebase, to the nearest 2^-32.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn forward(&self, value: Fixed) -> Result<Fixed, TimeError> {
        let (a, b) = self.piece_at(value);
        let (num, den) = slope(a, b);
        along(value, a.from, a.to, num, den)
    }

    /// Converts to the first timebase, to the nearest 2^-32.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn backward(&self, value: Fixed) -> Result<Fixed, TimeError> {
        let (a, b) = self.piece_reaching(value);
        let (num, den) = slope(a, b);
        along(value, a.to, a.from, den * num.signum(), num.abs())
    }

    pub(crate) fn forward_exact(&self, value: &Exact) -> Result<Exact, TimeError> {
        let (a, b) = self.piece_at(value.floor_fixed()?);
        let (num, den) = slope(a, b);
        Ok(value.on_line(a.from, a.to, num, den))
    }

    pub(crate) fn backward_exact(&self, value: &Exact) -> Result<Exact, TimeError> {
        // Knots are multiples of 2^-32: a value between belongs to the piece of the lower one.
        let (a, b) = self.piece_reaching(value.floor_fixed()?);
        let (num, den) = slope(a, b);
        Ok(value.on_line(a.to, a.from, den, num))
    }

    /// Half-width around [`forward`](Self::forward), in units of the second timebase.
    #[must_use]
    pub fn uncertainty(&self, value: Fixed) -> f64 {
        self.half_at(value) + ROUNDING
    }

    /// Half-width around [`backward`](Self::backward), in units of the first timebase.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn uncertainty_back(&self, value: Fixed) -> Result<f64, TimeError> {
        let at = self.backward(value)?;
        let rate_at = |at: Fixed| {
            let (a, b) = self.piece_at(at);
            let (num, den) = slope(a, b);
            (num as f64 / den as f64).abs()
        };
        // Slope and uncertainty may differ there.
        let reach = 2.0 * self.half_at(at) / rate_at(at);
        let reach = Fixed::from_f64_nearest(reach).unwrap_or(Fixed::ZERO);
        let ends = [at.checked_sub(reach), Some(at), at.checked_add(reach)];
        let ends = ends.into_iter().flatten();
        let far = ends.map(|at| self.half_at(at) / rate_at(at));
        Ok(far.fold(0.0, f64::max) + ROUNDING)
    }

    /// Whether the map is ascending.
    #[must_use]
    pub fn rises(&self) -> bool {
        self.knots[0].to < self.knots[1].to
    }

    /// Units of the second timebase per unit of the first, at a value.
    #[must_use]
    pub fn rate(&self, value: Fixed) -> f64 {
        let (a, b) = self.piece_at(value);
        let (num, den) = slope(a, b);
        num as f64 / den as f64
    }

    /// Knots, from the first to the last point in use.
    pub fn knots(&self) -> impl ExactSizeIterator<Item = (Fixed, Fixed)> + '_ {
        self.knots.iter().map(|knot| (knot.from, knot.to))
    }

    pub(crate) fn most_uncertain(&self, from: Fixed, to: Fixed) -> f64 {
        let first = self.margins.partition_point(|margin| margin.from <= from);
        let behind = self.margins.partition_point(|margin| margin.from < to);
        let inner = self.margins[first..behind.max(first)].iter();
        let inner = inner.map(|margin| margin.half).fold(0.0, f64::max);
        inner.max(self.half_at(from)).max(self.half_at(to)) + ROUNDING
    }

    /// Values where slope or uncertainty change, ascending.
    pub(crate) fn breaks(&self, from: Fixed, to: Fixed) -> Vec<Fixed> {
        let mut breaks: Vec<Fixed> = self.knots.iter().map(|knot| knot.from).collect();
        if self.margins.len() <= MAX_BREAKS {
            breaks.extend(self.margins.iter().map(|margin| margin.from));
        }
        let (first, last) = (
            breaks[0].to_bits(),
            self.knots[self.knots.len() - 1].from.to_bits(),
        );
        let mut apart = ((last - first) / 16).max(1);
        while let (Some(before), Some(behind)) = (first.checked_sub(apart), last.checked_add(apart))
        {
            if before < from.to_bits() && behind > to.to_bits() {
                break;
            }
            breaks.extend([before, behind].map(Fixed::from_bits));
            apart = apart.saturating_mul(2);
        }
        breaks.retain(|at| from < *at && *at < to);
        breaks.sort_unstable();
        breaks.dedup();
        breaks
    }

    fn half_at(&self, value: Fixed) -> f64 {
        let (first, last) = (self.margins[0], self.margins[self.margins.len() - 1]);
        let apart =
            |a: Fixed, b: Fixed| (b.to_bits().saturating_sub(a.to_bits())) as f64 * ROUNDING;
        if value <= first.from {
            return first.half + self.outside.0 * apart(value, first.from);
        }
        if value >= last.from {
            return last.half + self.outside.1 * apart(last.from, value);
        }
        let behind = self.margins.partition_point(|margin| margin.from <= value);
        let (a, b) = (self.margins[behind - 1], self.margins[behind]);
        let share = apart(a.from, value) / apart(a.from, b.from);
        a.half + share * (b.half - a.half)
    }

    fn piece_at(&self, from: Fixed) -> (Knot, Knot) {
        let behind = self.knots.partition_point(|knot| knot.from <= from);
        let behind = behind.clamp(1, self.knots.len() - 1);
        (self.knots[behind - 1], self.knots[behind])
    }

    fn piece_reaching(&self, to: Fixed) -> (Knot, Knot) {
        let rises = self.rises();
        let behind = self.knots.partition_point(|knot| match rises {
            true => knot.to <= to,
            false => knot.to > to,
        });
        let behind = behind.clamp(1, self.knots.len() - 1);
        (self.knots[behind - 1], self.knots[behind])
    }
}

fn slope(a: Knot, b: Knot) -> (i128, i128) {
    (
        b.to.to_bits() - a.to.to_bits(),
        b.from.to_bits() - a.from.to_bits(),
    )
}

/// `start + (value - origin) * num / den`.
fn along(
    value: Fixed,
    origin: Fixed,
    start: Fixed,
    num: i128,
    den: i128,
) -> Result<Fixed, TimeError> {
    value
        .checked_sub(origin)
        .and_then(|d| mul_div_round(d.to_bits(), num, den))
        .and_then(|d| start.checked_add(Fixed::from_bits(d)))
        .ok_or(TimeError::Overflow {
            what: "conversion by points",
        })
}
