//! Power spectra.

use num_complex::Complex;

use super::{Detrend, Forward, Precision};
use crate::Isa;
use crate::isa::{Kernel, Level};

/// Scaling of a power spectrum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// Unit squared per Hz: the sum times rate / N is the mean square of the tapered window.
    Density,
    /// Unit squared: a sine of amplitude A peaks at A²/2.
    Spectrum,
}

impl Scaling {
    /// Names, in order.
    pub const NAMES: [&'static str; 2] = ["density", "spectrum"];

    /// Parses a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Density, Self::Spectrum]
            .into_iter()
            .find(|known| Self::NAMES[*known as usize] == name)
    }

    /// Two-sided factor of squared magnitudes.
    #[must_use]
    pub fn factor(self, factors: &[f64], rate: f64) -> f64 {
        match self {
            Self::Density => 1.0 / (rate * factors.iter().map(|x| x * x).sum::<f64>()),
            Self::Spectrum => factors.iter().sum::<f64>().powi(-2),
        }
    }
}

/// Power spectra, as SciPy's `periodogram`: one-sided for real windows (doubled between zero and half the rate),
/// two-sided for complex ones.
pub struct Power<T: Precision> {
    forward: Forward<T>,
    scales: Scales<T>,
    isa: Isa,
}

#[derive(Clone, Copy)]
pub(crate) struct Scales<T> {
    first: T,
    between: T,
    last: T,
}

impl<T: Precision> Scales<T> {
    pub(crate) fn new(width: usize, complex: bool, factor: f64) -> Self {
        let (alone, twice) = (T::of(factor), T::of(2.0 * factor));
        let between = if complex { alone } else { twice };
        let has_half_the_rate = width.is_multiple_of(2);
        Self {
            first: alone,
            between,
            last: if has_half_the_rate { alone } else { between },
        }
    }
}

pub(crate) struct Squares<'a, T> {
    pub(crate) spectrum: &'a [Complex<T>],
    pub(crate) scales: Scales<T>,
    pub(crate) out: &'a mut [T],
}

impl<T: Precision> Kernel for Squares<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let Self {
            spectrum,
            scales,
            out,
        } = self;
        for (out, value) in out.iter_mut().zip(spectrum) {
            *out = (value.re * value.re + value.im * value.im) * scales.between;
        }
        if let (Some(out), Some(value)) = (out.last_mut(), spectrum.last()) {
            *out = value.norm_sqr() * scales.last;
        }
        if let (Some(out), Some(value)) = (out.first_mut(), spectrum.first()) {
            *out = value.norm_sqr() * scales.first;
        }
    }
}

impl<T: Precision> Power<T> {
    /// For windows as long as `factors`, at `rate`.
    ///
    /// ```
    /// use isochrony_dsp::spectrum::{Detrend, Power, Scaling};
    /// let mut power = Power::<f64>::new(&[1.0; 4], false, Detrend::None, Scaling::Spectrum, 100.0);
    /// let mut out = [0.0; 3];
    /// power.row(&[1.0, 0.0, -1.0, 0.0], &mut out);
    /// assert_eq!(out, [0.0, 0.5, 0.0]);
    /// ```
    #[must_use]
    pub fn new(
        factors: &[f64],
        complex: bool,
        detrend: Detrend,
        scaling: Scaling,
        rate: f64,
    ) -> Self {
        let width = factors.len();
        Self {
            forward: Forward::new(width, complex, factors, detrend),
            scales: Scales::new(width, complex, scaling.factor(factors, rate)),
            isa: Isa::best(),
        }
    }

    /// Spectrum of a window; complex samples are pairs of numbers.
    pub fn row(&mut self, window: &[T], out: &mut [T]) {
        let spectrum = self.forward.spectrum(window);
        self.isa.run(Squares {
            spectrum,
            scales: self.scales,
            out,
        });
    }
}
