//! Discrete Fourier transforms of rows: planned once, no memory of their own per row.
//!
//! Single precision where the input is single, double otherwise, as NumPy does it. Real rows give the frequencies from
//! zero to half the rate, complex rows all of them, negative ones in the second half. The library chooses instruction
//! sets at run time, so the last bits may differ between machines, never between runs, chunkings or threads on one.

use std::sync::Arc;

use isochrony_segment::Sample;
use num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};
use rustfft::num_traits::{Float, FloatConst};
use rustfft::{Fft, FftNum, FftPlanner};

/// A precision in which rows are transformed.
pub trait Precision: FftNum + Float + FloatConst + Sample {
    /// Rounds a factor to this precision.
    fn of(value: f64) -> Self;
}

impl Precision for f32 {
    fn of(value: f64) -> Self {
        value as Self
    }
}

impl Precision for f64 {
    fn of(value: f64) -> Self {
        value
    }
}

/// The transform of rows of one length.
pub struct Transform<T: Precision> {
    plan: Planned<T>,
    /// Factors of the row's samples; empty for ones.
    taper: Vec<T>,
    spectrum: Vec<Complex<T>>,
    scratch: Vec<Complex<T>>,
}

enum Planned<T> {
    Real {
        plan: Arc<dyn RealToComplex<T>>,
        row: Vec<T>,
    },
    Complex(Arc<dyn Fft<T>>),
}

impl<T: Precision> Transform<T> {
    /// For real rows as long as the taper.
    pub fn real(width: usize, taper: Vec<T>) -> Self {
        let plan = RealFftPlanner::new().plan_fft_forward(width);
        Self {
            taper,
            spectrum: plan.make_output_vec(),
            scratch: plan.make_scratch_vec(),
            plan: Planned::Real {
                row: plan.make_input_vec(),
                plan,
            },
        }
    }

    /// For complex rows as long as the taper.
    pub fn complex(width: usize, taper: Vec<T>) -> Self {
        let plan = FftPlanner::new().plan_fft_forward(width);
        let zeros = |len| vec![Complex::new(T::zero(), T::zero()); len];
        Self {
            taper,
            spectrum: zeros(width),
            scratch: zeros(plan.get_inplace_scratch_len()),
            plan: Planned::Complex(plan),
        }
    }

    /// Samples of a row.
    pub fn width(&self) -> usize {
        match &self.plan {
            Planned::Real { row, .. } => row.len(),
            Planned::Complex(_) => self.spectrum.len(),
        }
    }

    /// Transforms a row of [`width`](Self::width) samples; complex ones are pairs of numbers.
    pub fn row(&mut self, numbers: &[T]) {
        match &mut self.plan {
            Planned::Real { plan, row } => {
                row.copy_from_slice(numbers);
                let tapered = row.iter_mut().zip(&self.taper);
                tapered.for_each(|(value, &factor)| *value = *value * factor);
                // It fails for other lengths only, and these are its own.
                let _ = plan.process_with_scratch(row, &mut self.spectrum, &mut self.scratch);
            }
            Planned::Complex(plan) => {
                for (value, pair) in self.spectrum.iter_mut().zip(numbers.chunks_exact(2)) {
                    *value = Complex::new(pair[0], pair[1]);
                }
                let tapered = self.spectrum.iter_mut().zip(&self.taper);
                tapered.for_each(|(value, &factor)| *value = *value * factor);
                plan.process_with_scratch(&mut self.spectrum, &mut self.scratch);
            }
        }
    }

    /// What the last row was transformed to.
    pub fn spectrum(&self) -> &[Complex<T>] {
        &self.spectrum
    }

    /// How often each frequency's power counts: twice for those of real rows that stand for their negative, too.
    pub fn sides(&self, frequency: usize) -> f64 {
        match &self.plan {
            Planned::Complex(_) => 1.0,
            Planned::Real { row, .. } => {
                let alone = frequency == 0 || 2 * frequency == row.len();
                if alone { 1.0 } else { 2.0 }
            }
        }
    }
}

/// Frequencies of a row of `width` samples.
pub fn frequencies(width: usize, complex: bool) -> usize {
    if complex { width } else { width / 2 + 1 }
}
