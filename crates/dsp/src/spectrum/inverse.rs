//! Inverse Fourier transforms.

use std::sync::Arc;

use num_complex::Complex;
use realfft::ComplexToReal;
use rustfft::Fft;

use super::{Precision, frequencies, plan_cache};

/// Inverse of [`Forward`](super::Forward).
///
/// Real windows take N / 2 + 1 frequencies; imaginary parts at zero and half the rate are ignored, as in NumPy's
/// `irfft`.
pub struct Inverse<T: Precision> {
    plan: TransformPlan<T>,
    width: usize,
    row: Vec<Complex<T>>,
    scratch: Vec<Complex<T>>,
}

enum TransformPlan<T> {
    Real(Arc<dyn ComplexToReal<T>>),
    Complex(Arc<dyn Fft<T>>),
}

impl<T: Precision> Inverse<T> {
    /// For windows of `width` samples.
    #[must_use]
    pub fn new(width: usize, complex: bool) -> Self {
        let zeros = |len| vec![Complex::new(T::zero(), T::zero()); len];
        let (plan, scratch) = if complex {
            let plan = plan_cache::complex_inverse::<T>(width);
            let scratch = zeros(plan.get_inplace_scratch_len());
            (TransformPlan::Complex(plan), scratch)
        } else {
            let plan = plan_cache::real_inverse::<T>(width);
            let scratch = plan.make_scratch_vec();
            (TransformPlan::Real(plan), scratch)
        };
        Self {
            plan,
            width,
            row: zeros(frequencies(width, complex)),
            scratch,
        }
    }

    /// Samples of a window.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Buffer for a spectrum, which [`window`](Self::window) overwrites.
    pub fn spectrum(&mut self) -> &mut [Complex<T>] {
        &mut self.row
    }

    /// Transforms the [`spectrum`](Self::spectrum); complex samples are pairs of numbers. A slice of another length is
    /// unchanged.
    pub fn window(&mut self, window: &mut [T]) {
        let scale = T::of(1.0 / self.width as f64);
        match &self.plan {
            TransformPlan::Real(plan) => {
                if window.len() != self.width {
                    return;
                }
                if let Some(first) = self.row.first_mut() {
                    first.im = T::zero();
                }
                if self.width.is_multiple_of(2)
                    && let Some(last) = self.row.last_mut()
                {
                    last.im = T::zero();
                }
                // Fails for other lengths, and for imaginary parts, just cleared.
                let _ = plan.process_with_scratch(&mut self.row, window, &mut self.scratch);
            }
            TransformPlan::Complex(plan) => {
                if window.len() != 2 * self.width {
                    return;
                }
                plan.process_with_scratch(&mut self.row, &mut self.scratch);
                window.copy_from_slice(bytemuck::cast_slice(&self.row));
            }
        }
        for number in window {
            *number = *number * scale;
        }
    }
}
