//! Validation of points.

use super::options::PointPair;
use crate::{Fixed, TimeError};

/// Points needed to estimate an uncertainty.
pub(super) const MIN_SCATTERED: usize = 5;

/// Checks points before the fit.
///
/// # Errors
/// [`TimeError::TooFewPoints`], [`TimeError::UnsortedPoints`], [`TimeError::NegativeUncertainty`],
/// [`TimeError::UnknownUncertainty`].
pub(super) fn check_points(points: &[PointPair]) -> Result<(), TimeError> {
    if points.len() < 2 {
        let got = points.len();
        return Err(TimeError::TooFewPoints { got });
    }
    for (position, pair) in points.windows(2).enumerate() {
        if pair[1].from <= pair[0].from {
            return Err(TimeError::UnsortedPoints {
                position: position + 1,
                from: pair[1].from,
                before: pair[0].from,
            });
        }
    }
    let negative = |point: &PointPair| point.uncertainty.is_some_and(|u| u < Fixed::ZERO);
    if let Some(position) = points.iter().position(negative) {
        let uncertainty = points[position].uncertainty.unwrap_or_default();
        return Err(TimeError::NegativeUncertainty {
            position,
            uncertainty,
        });
    }
    let unknown = points.iter().position(|point| point.uncertainty.is_none());
    match unknown.filter(|_| points.len() < MIN_SCATTERED) {
        Some(position) => Err(TimeError::UnknownUncertainty {
            position,
            points: points.len(),
            least: MIN_SCATTERED,
        }),
        None => Ok(()),
    }
}

/// Checks that points in use are monotonic, within their uncertainties.
///
/// # Errors
/// [`TimeError::NotMonotone`].
pub(super) fn check_monotone(
    points: &[PointPair],
    used: &[usize],
    half: impl Fn(usize) -> f64,
) -> Result<(), TimeError> {
    let (first, last) = (used[0], used[used.len() - 1]);
    let falls = points[last].to < points[first].to;
    let turned = |before: usize, after: usize| TimeError::NotMonotone {
        before,
        after,
        before_to: points[before].to,
        after_to: points[after].to,
        falls,
    };
    if points[last].to == points[first].to {
        return Err(turned(first, last));
    }
    for pair in used.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        let step = points[after].to.checked_sub(points[before].to);
        let step = step.ok_or(TimeError::Overflow { what: "point" })?.to_f64();
        let forward = if falls { -step } else { step };
        let allowed = half(before) + half(after);
        if forward < -allowed || step == 0.0 && allowed == 0.0 {
            return Err(turned(before, after));
        }
    }
    Ok(())
}
