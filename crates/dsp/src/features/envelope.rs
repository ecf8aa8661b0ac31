//! The envelope of windows.

use num_complex::Complex;

use crate::isa::{Isa, Kernel, Level};
use crate::spectrum::{Detrend, Forward, Inverse, Precision};

/// Magnitude of the analytic signal (`abs(scipy.signal.hilbert(window))`).
///
/// A step from a window's end to its beginning distorts both ends: overlap windows and use the middle. NaN and
/// infinities make the whole envelope NaN. The mean contributes: detrend first to remove an offset.
pub struct Envelope<T: Precision> {
    forward: Forward<T>,
    inverse: Inverse<T>,
    quadrature: Vec<T>,
    isa: Isa,
}

impl<T: Precision> Envelope<T> {
    /// For windows of `width` real samples.
    ///
    /// ```
    /// use isochrony_dsp::features::Envelope;
    /// let mut out = [0.0; 4];
    /// Envelope::<f64>::new(4).row(&[0.0, 3.0, 0.0, -3.0], &mut out);
    /// assert_eq!(out, [3.0, 3.0, 3.0, 3.0]);
    /// ```
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self {
            forward: Forward::new(width, false, &[], Detrend::None),
            inverse: Inverse::new(width, false),
            quadrature: vec![T::zero(); width],
            isa: Isa::best(),
        }
    }

    /// The envelope of a window.
    pub fn row(&mut self, window: &[T], out: &mut [T]) {
        let width = self.forward.width();
        let spectrum = self.inverse.spectrum();
        self.forward.transform(window, spectrum);
        if !spectrum[0].re.is_finite() {
            out.fill(T::nan());
            return;
        }
        for value in spectrum.iter_mut() {
            *value = Complex::new(value.im, -value.re);
        }
        // No quadrature component.
        spectrum[0] = Complex::new(T::zero(), T::zero());
        if width.is_multiple_of(2) {
            spectrum[width / 2] = Complex::new(T::zero(), T::zero());
        }
        self.inverse.window(&mut self.quadrature);
        self.isa.run(Magnitudes {
            real: window,
            imaginary: &self.quadrature,
            out,
        });
    }
}

struct Magnitudes<'a, T> {
    real: &'a [T],
    imaginary: &'a [T],
    out: &'a mut [T],
}

impl<T: Precision> Kernel for Magnitudes<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        for ((out, &re), &im) in self.out.iter_mut().zip(self.real).zip(self.imaginary) {
            *out = (re * re + im * im).sqrt();
        }
    }
}
