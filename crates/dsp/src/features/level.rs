//! RMS and zero crossings of a window.

use crate::isa::{Isa, Kernel, Level};
use crate::spectrum::Precision;
use crate::sums::lanes;

/// Mean square; zero for an empty window, infinite if squares overflow.
#[must_use]
pub fn mean_square<T: Precision>(window: &[T]) -> f64 {
    Isa::best().run(MeanSquare(window))
}

/// Root mean square; for complex samples (pairs of numbers), of magnitudes.
///
/// Relative error below `(count / 16 + 8) 2^-53`, before rounding to the samples' precision.
///
/// ```
/// assert_eq!(isochrony_dsp::features::rms(&[3.0, -4.0, 0.0, 0.0], false), 2.5);
/// assert_eq!(isochrony_dsp::features::rms(&[3.0, -4.0, 0.0, 5.0], true), 5.0);
/// ```
#[must_use]
pub fn rms<T: Precision>(window: &[T], complex: bool) -> T {
    let parts = if complex { 2.0 } else { 1.0 };
    T::of((parts * mean_square(window)).sqrt())
}

struct MeanSquare<'a, T>(&'a [T]);

impl<T: Precision> Kernel for MeanSquare<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn run<L: Level>(self, _level: L) -> f64 {
        let sum = lanes(self.0, |_, sample| {
            let sample: f64 = sample.into();
            sample * sample
        });
        if self.0.is_empty() {
            0.0
        } else {
            sum / self.0.len() as f64
        }
    }
}

/// Counts sign changes between consecutive samples.
///
/// Zeros and NaN are skipped: touching zero is no crossing, a crossing through zeros is one.
///
/// ```
/// use isochrony_dsp::features::zero_crossings;
/// assert_eq!(zero_crossings(&[1.0, -1.0, 2.0]), 2);
/// assert_eq!(zero_crossings(&[0.0, 1.0, 0.0, -0.0, -1.0, 0.0, -1.0]), 1);
/// ```
#[must_use]
pub fn zero_crossings<T: Precision>(window: &[T]) -> usize {
    match Isa::best().run(Crossings(window)) {
        Some(crossings) => crossings,
        None => {
            let signed = window.iter().filter(|x| !x.is_nan() && !x.is_zero());
            let mut signs = signed.map(|&x| x < T::zero());
            let mut crossings = 0;
            if let Some(mut last) = signs.next() {
                for sign in signs {
                    crossings += usize::from(sign != last);
                    last = sign;
                }
            }
            crossings
        }
    }
}

/// None if a sample is zero or NaN.
struct Crossings<'a, T>(&'a [T]);

impl<T: Precision> Kernel for Crossings<'_, T> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<L: Level>(self, _level: L) -> Option<usize> {
        let zero = T::zero();
        let mut without = 0;
        for &sample in self.0 {
            let has_sign = (sample < zero) | (sample > zero);
            without += usize::from(!has_sign);
        }
        if without > 0 {
            return None;
        }
        let mut crossings = 0;
        for (&a, &b) in self.0.iter().zip(self.0.get(1..).unwrap_or_default()) {
            crossings += usize::from((a < zero) != (b < zero));
        }
        Some(crossings)
    }
}
