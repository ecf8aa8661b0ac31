//! Detrending and tapering without a transform.

use super::detrend::Prepare;
use super::{Detrend, Precision};
use crate::Isa;

/// Detrends windows, then multiplies by factors.
///
/// Least squares, as `scipy.signal.detrend`. With detrending, NaN and infinities spread to the whole window.
pub struct Shaper<T> {
    detrend: Detrend,
    factors: Vec<T>,
    complex: bool,
    isa: Isa,
}

impl<T: Precision> Shaper<T> {
    /// For windows as long as `factors`.
    ///
    /// ```
    /// use isochrony_dsp::spectrum::{Detrend, Shaper};
    /// let mut out = [0.0; 3];
    /// Shaper::<f64>::new(&[1.0, 1.0, 2.0], false, Detrend::Constant).row(&[1.0, 2.0, 6.0], &mut out);
    /// assert_eq!(out, [-2.0, -1.0, 6.0]);
    /// ```
    #[must_use]
    pub fn new(factors: &[f64], complex: bool, detrend: Detrend) -> Self {
        Self {
            detrend,
            factors: factors.iter().map(|&factor| T::of(factor)).collect(),
            complex,
            isa: Isa::best(),
        }
    }

    /// Shapes a window; complex samples are pairs of numbers. Other lengths leave `out` unchanged.
    pub fn row(&mut self, window: &[T], out: &mut [T]) {
        let parts = if self.complex { 2 } else { 1 };
        if window.len() != parts * self.factors.len() || out.len() != window.len() {
            return;
        }
        if self.complex {
            self.isa.run(Prepare {
                detrend: self.detrend,
                window: window.as_chunks::<2>().0,
                factors: &self.factors,
                out: out.as_chunks_mut::<2>().0,
            });
        } else {
            self.isa.run(Prepare {
                detrend: self.detrend,
                window: window.as_chunks::<1>().0,
                factors: &self.factors,
                out: out.as_chunks_mut::<1>().0,
            });
        }
    }
}
