//! Windows that are detrended and tapered, and stay windows.

use super::detrend::Prepare;
use super::{Detrend, Precision};
use crate::Isa;

/// Takes the mean or a line from windows of one length, then multiplies their samples by factors.
///
/// A line is the one with the least squared distance (`scipy.signal.detrend`), a window of one sample has no slope. NaN and
/// infinities spread to the whole window where something is taken from it, else stay where they are.
pub struct Shaper<T> {
    detrend: Detrend,
    factors: Vec<T>,
    complex: bool,
    isa: Isa,
}

impl<T: Precision> Shaper<T> {
    /// For windows of as many samples as there are factors.
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

    /// A window, of complex samples pairs of numbers. A window or memory of another length leaves the memory as it is.
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
