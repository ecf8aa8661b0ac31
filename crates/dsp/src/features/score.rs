//! Weighted spectral sum of a window.

use num_complex::Complex;

use crate::DspError;
use crate::isa::{Isa, Kernel, Level};
use crate::spectrum::{Detrend, Forward, Precision, frequencies};
use crate::sums::lanes;

/// Denominator of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalise {
    /// No division.
    None,
    /// Sum of all magnitudes: with weights from 0 to 1 the score is a fraction. Zero for a zero window.
    Total,
}

impl Normalise {
    /// Names, in order.
    pub const NAMES: [&'static str; 2] = ["none", "total"];

    /// Parses a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::None, Self::Total]
            .into_iter()
            .find(|known| Self::NAMES[*known as usize] == name)
    }
}

/// Beyond these, a transform is faster than direct sums.
const MAX_DIRECT_FREQUENCIES: usize = 8;
const MAX_DIRECT_WIDTH: usize = 64;
const PARTS: usize = 2 * MAX_DIRECT_FREQUENCIES;

/// Weighted sum of a window's spectral magnitudes: score of XStream's DETECTAUDIO (Girod et al. 2008, section II).
///
/// Up to eight frequencies of a short real window are computed directly; results differ by rounding.
pub struct Score<T: Precision> {
    few: Option<DirectFrequencies<T>>,
    forward: Forward<T>,
    weights: Vec<T>,
    magnitudes: Vec<T>,
    normalise: Normalise,
    isa: Isa,
}

impl<T: Precision> Score<T> {
    /// For windows as long as `factors`, which multiply them, and one weight per frequency.
    ///
    /// # Errors
    /// [`DspError::Parameter`] for a wrong number of weights, or one not finite.
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
                    "a finite number for each of the {bins} frequencies of a window of {} samples",
                    factors.len()
                ),
            });
        }
        let plain = !complex && detrend == Detrend::None && normalise == Normalise::None;
        Ok(Self {
            few: if plain {
                DirectFrequencies::of(factors, weights)
            } else {
                None
            },
            forward: Forward::new(factors.len(), complex, factors, detrend),
            weights: weights.iter().map(|&weight| T::of(weight)).collect(),
            magnitudes: vec![T::zero(); bins],
            normalise,
            isa: Isa::best(),
        })
    }

    /// Score of a window; complex samples are pairs of numbers.
    pub fn of(&mut self, window: &[T]) -> T {
        if let Some(few) = &self.few {
            return self.isa.run(Sums { few, window });
        }
        let spectrum = self.forward.spectrum(window);
        let (score, total) = self.isa.run(WeightedSum {
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

struct DirectFrequencies<T> {
    /// Cosines, then sines, per pair of samples.
    waves: Vec<[T; 2 * PARTS]>,
    weights: [T; MAX_DIRECT_FREQUENCIES],
}

impl<T: Precision> DirectFrequencies<T> {
    /// None if the transform is faster.
    fn of(factors: &[f64], weights: &[f64]) -> Option<Self> {
        let weighted: Vec<usize> = (0..weights.len()).filter(|&k| weights[k] != 0.0).collect();
        if weighted.len() > MAX_DIRECT_FREQUENCIES || factors.len() > MAX_DIRECT_WIDTH {
            return None;
        }
        let zero = T::zero();
        let mut own = [zero; MAX_DIRECT_FREQUENCIES];
        let mut waves = vec![[zero; 2 * PARTS]; factors.len().div_ceil(2)];
        for (lane, &k) in weighted.iter().enumerate() {
            own[lane] = T::of(weights[k]);
            let waves = waves.as_flattened_mut().chunks_exact_mut(PARTS);
            for (i, (wave, &factor)) in waves.zip(factors).enumerate() {
                // Removes whole turns before rounding.
                let turn = (k * i % factors.len()) as f64 / factors.len() as f64;
                let (sin, cos) = (std::f64::consts::TAU * turn).sin_cos();
                (wave[lane], wave[MAX_DIRECT_FREQUENCIES + lane]) =
                    (T::of(cos * factor), T::of(sin * factor));
            }
        }
        Some(Self {
            waves,
            weights: own,
        })
    }
}

struct Sums<'a, T> {
    few: &'a DirectFrequencies<T>,
    window: &'a [T],
}

impl<T: Precision> Kernel for Sums<'_, T> {
    type Output = T;

    /// Separate sums of even and odd samples halve the dependency chain.
    #[inline(always)]
    fn run<L: Level>(self, _level: L) -> T {
        let mut sums = [T::zero(); 2 * PARTS];
        let (samples, last) = self.window.as_chunks::<2>();
        for (&samples, waves) in samples.iter().zip(&self.few.waves) {
            sums = with(sums, samples, waves);
        }
        if let (&[sample], Some(waves)) = (last, self.few.waves.last()) {
            sums = with(sums, [sample, T::zero()], waves);
        }
        let mut parts = [T::zero(); PARTS];
        for (lane, part) in parts.iter_mut().enumerate() {
            *part = sums[lane] + sums[PARTS + lane];
        }
        let mut sizes = [T::zero(); MAX_DIRECT_FREQUENCIES];
        for (lane, size) in sizes.iter_mut().enumerate() {
            let (re, im) = (parts[lane], parts[MAX_DIRECT_FREQUENCIES + lane]);
            *size = (re * re + im * im).sqrt() * self.few.weights[lane];
        }
        let [a, b, c, d, e, f, g, h] = sizes;
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }
}

/// By value and in one loop: sums stay in registers.
#[inline(always)]
fn with<T: Precision>(
    sums: [T; 2 * PARTS],
    samples: [T; 2],
    waves: &[T; 2 * PARTS],
) -> [T; 2 * PARTS] {
    let mut sums = sums;
    let mut lane = 0;
    while lane < 2 * PARTS {
        sums[lane] = sums[lane] + samples[lane / PARTS] * waves[lane];
        lane += 1;
    }
    sums
}

struct WeightedSum<'a, T> {
    spectrum: &'a [Complex<T>],
    weights: &'a [T],
    magnitudes: &'a mut [T],
    total: bool,
}

impl<T: Precision> Kernel for WeightedSum<'_, T> {
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
