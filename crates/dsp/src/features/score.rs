//! How much of a window lies in given frequencies.

use num_complex::Complex;

use crate::DspError;
use crate::isa::{Isa, Kernel, Level};
use crate::spectrum::{Detrend, Forward, Precision, frequencies};
use crate::sums::lanes;

/// What a score is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalise {
    /// Nothing.
    None,
    /// The sum of all magnitudes: with weights from 0 to 1 the score is a share. Zero where the window is zero.
    Total,
}

impl Normalise {
    /// Names, in order.
    pub const NAMES: [&'static str; 2] = ["none", "total"];

    /// That of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::None, Self::Total]
            .into_iter()
            .find(|known| Self::NAMES[*known as usize] == name)
    }
}

/// The detection score of XStream's DETECTAUDIO (Girod et al. 2008, section II): the sum over a window's frequencies of their
/// magnitudes times weights.
pub struct Score<T: Precision> {
    forward: Forward<T>,
    weights: Vec<T>,
    magnitudes: Vec<T>,
    normalise: Normalise,
    isa: Isa,
}

impl<T: Precision> Score<T> {
    /// For windows of as many samples as there are factors, and a weight for each of their frequencies.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if there are not as many weights as frequencies, or one is not finite.
    ///
    /// ```
    /// use isochrony_dsp::features::{Normalise, Score};
    /// use isochrony_dsp::spectrum::Detrend;
    /// let weights = [0.0, 1.0, 0.5];
    /// let mut score = Score::<f64>::new(&[1.0; 4], false, Detrend::None, &weights, Normalise::None)?;
    /// assert_eq!(score.of(&[1.0, 0.0, -1.0, 0.0]), 2.0);
    /// # Ok::<(), isochrony_dsp::DspError>(())
    /// ```
    pub fn new(
        factors: &[f64],
        complex: bool,
        detrend: Detrend,
        weights: &[f64],
        normalise: Normalise,
    ) -> Result<Self, DspError> {
        let bins = frequencies(factors.len(), complex);
        if weights.len() != bins || !weights.iter().all(|weight| weight.is_finite()) {
            return Err(DspError::Parameter {
                operator: "spectral_score",
                parameter: "weights",
                got: format!("{} numbers", weights.len()),
                allowed: format!(
                    "a finite number for each of the {bins} frequencies of windows of {} samples",
                    factors.len()
                ),
            });
        }
        Ok(Self {
            forward: Forward::new(factors.len(), complex, factors, detrend),
            weights: weights.iter().map(|&weight| T::of(weight)).collect(),
            magnitudes: vec![T::zero(); bins],
            normalise,
            isa: Isa::best(),
        })
    }

    /// The score of a window; of complex samples windows are pairs of numbers.
    pub fn of(&mut self, window: &[T]) -> T {
        let spectrum = self.forward.spectrum(window);
        let (score, total) = self.isa.run(Weighted {
            spectrum,
            weights: &self.weights,
            magnitudes: &mut self.magnitudes,
            total: self.normalise == Normalise::Total,
        });
        T::of(match self.normalise {
            Normalise::None => score,
            Normalise::Total if total == 0.0 => 0.0,
            Normalise::Total => score / total,
        })
    }
}

struct Weighted<'a, T> {
    spectrum: &'a [Complex<T>],
    weights: &'a [T],
    magnitudes: &'a mut [T],
    total: bool,
}

impl<T: Precision> Kernel for Weighted<'_, T> {
    type Output = (f64, f64);

    #[inline(always)]
    fn run<L: Level>(self, _level: L) -> (f64, f64) {
        for (size, value) in self.magnitudes.iter_mut().zip(self.spectrum) {
            *size = (value.re * value.re + value.im * value.im).sqrt();
        }
        let total = if self.total {
            lanes(self.magnitudes, |_, size| size.into())
        } else {
            0.0
        };
        for (size, &weight) in self.magnitudes.iter_mut().zip(self.weights) {
            *size = *size * weight;
        }
        (lanes(self.magnitudes, |_, size| size.into()), total)
    }
}
