//! The envelope of windows.

use num_complex::Complex;

use crate::isa::{Isa, Kernel, Level};
use crate::spectrum::{Detrend, Forward, Inverse, Precision};

/// The envelope of windows of one length: magnitudes of the analytic signal, whose imaginary part is the Hilbert transform
/// of the window (`abs(scipy.signal.hilbert(window))`).
///
/// It is computed by the Fourier transform of each window by itself, which takes the window as one period of a periodic
/// signal: where its end does not continue into its beginning, both ends show it, by an amount of the order of that step
/// and falling with the distance from the ends. Overlapping windows of which only the middles are used avoid it.
/// Where a sample is NaN or infinite the whole envelope is NaN. The mean counts: an oscillation is taken out of its offset by detrending first.
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

    /// The envelope of a window, as long as it.
    pub fn row(&mut self, window: &[T], out: &mut [T]) {
        let width = self.forward.width();
        let spectrum = self.inverse.spectrum();
        self.forward.transform(window, spectrum);
        // The sum of all samples.
        if !spectrum[0].re.is_finite() {
            out.fill(T::nan());
            return;
        }
        for value in spectrum.iter_mut() {
            *value = Complex::new(value.im, -value.re);
        }
        // Neither the mean nor what alternates has a quadrature.
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
