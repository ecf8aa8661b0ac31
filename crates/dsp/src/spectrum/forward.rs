//! Fourier transforms of windows.

use std::sync::Arc;

use num_complex::Complex;
use realfft::RealToComplex;
use rustfft::Fft;

use super::detrend::Prepare;
use super::{Detrend, Precision, frequencies, plan_cache};
use crate::Isa;

/// Unscaled transform of windows: `sum over j of x[j] exp(-2 pi i j k / N)`.
///
/// NaN and infinities spread to all frequencies.
///
/// ```
/// use isochrony_dsp::spectrum::{Detrend, Forward};
/// let mut transform = Forward::<f64>::new(4, false, &[], Detrend::None);
/// let spectrum = transform.spectrum(&[1.0, 0.0, -1.0, 0.0]);
/// assert_eq!(spectrum.iter().map(|x| x.re).collect::<Vec<_>>(), [0.0, 2.0, 0.0]);
/// ```
pub struct Forward<T: Precision> {
    plan: TransformPlan<T>,
    detrend: Detrend,
    factors: Vec<T>,
    width: usize,
    spectrum: Vec<Complex<T>>,
    scratch: Vec<Complex<T>>,
    isa: Isa,
}

enum TransformPlan<T> {
    Real {
        plan: Arc<dyn RealToComplex<T>>,
        row: Vec<T>,
    },
    Complex(Arc<dyn Fft<T>>),
}

impl<T: Precision> Forward<T> {
    /// For windows of `width` samples, detrended, then multiplied by `factors`: one per sample, or none for ones.
    #[must_use]
    pub fn new(width: usize, complex: bool, factors: &[f64], detrend: Detrend) -> Self {
        let zeros = |len| vec![Complex::new(T::zero(), T::zero()); len];
        let (plan, scratch) = if complex {
            let plan = plan_cache::complex_forward::<T>(width);
            let scratch = zeros(plan.get_inplace_scratch_len());
            (TransformPlan::Complex(plan), scratch)
        } else {
            let plan = plan_cache::real_forward::<T>(width);
            let (row, scratch) = (plan.make_input_vec(), plan.make_scratch_vec());
            (TransformPlan::Real { plan, row }, scratch)
        };
        let ones = factors.iter().all(|&factor| factor == 1.0);
        let factors = if ones { &[] } else { factors };
        Self {
            plan,
            detrend,
            factors: factors.iter().map(|&factor| T::of(factor)).collect(),
            width,
            spectrum: zeros(frequencies(width, complex)),
            scratch,
            isa: Isa::best(),
        }
    }

    /// Samples of a window.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether samples are complex.
    #[must_use]
    pub fn is_complex(&self) -> bool {
        matches!(self.plan, TransformPlan::Complex(_))
    }

    /// Transforms a window; complex samples are pairs of numbers. Other lengths leave `spectrum` unchanged.
    pub fn transform(&mut self, window: &[T], spectrum: &mut [Complex<T>]) {
        if spectrum.len() != frequencies(self.width, self.is_complex()) {
            return;
        }
        match &mut self.plan {
            TransformPlan::Real { plan, row } => {
                if window.len() != row.len() {
                    return;
                }
                if self.detrend == Detrend::None && self.factors.is_empty() {
                    row.copy_from_slice(window);
                } else {
                    self.isa.run(Prepare {
                        detrend: self.detrend,
                        window: window.as_chunks::<1>().0,
                        factors: &self.factors,
                        out: row.as_chunks_mut::<1>().0,
                    });
                }
                // Fails for other lengths only.
                let _ = plan.process_with_scratch(row, spectrum, &mut self.scratch);
            }
            TransformPlan::Complex(plan) => {
                if window.len() != 2 * self.width {
                    return;
                }
                self.isa.run(Prepare {
                    detrend: self.detrend,
                    window: window.as_chunks::<2>().0,
                    factors: &self.factors,
                    out: bytemuck::cast_slice_mut(spectrum),
                });
                plan.process_with_scratch(spectrum, &mut self.scratch);
            }
        }
    }

    /// Transforms a window; the result is valid until the next call.
    pub fn spectrum(&mut self, window: &[T]) -> &[Complex<T>] {
        let mut spectrum = std::mem::take(&mut self.spectrum);
        self.transform(window, &mut spectrum);
        self.spectrum = spectrum;
        &self.spectrum
    }
}
