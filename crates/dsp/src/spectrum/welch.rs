//! Power spectra averaged over segments.

use super::power::{Scales, Squares};
use super::{Detrend, Forward, Precision, Scaling, frequencies};
use crate::isa::{Kernel, Level};
use crate::{DspError, Isa};

/// Average of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Average {
    /// Mean of each frequency.
    Mean,
    /// Median, corrected for its bias ([`median_bias`]): robust to short disturbances.
    Median,
}

impl Average {
    /// Names, in order.
    pub const NAMES: [&'static str; 2] = ["mean", "median"];

    /// Parses a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Mean, Self::Median]
            .into_iter()
            .find(|known| Self::NAMES[*known as usize] == name)
    }
}

/// Median of `count` independent spectra of noise over their mean (Allen et al., arXiv:gr-qc/0509116, appendix B).
#[must_use]
pub fn median_bias(count: usize) -> f64 {
    let pairs = 1..=count.saturating_sub(1) / 2;
    let term = |k: usize| 1.0 / (2 * k + 1) as f64 - 1.0 / (2 * k) as f64;
    1.0 + pairs.map(term).sum::<f64>()
}

/// Averaged power spectra, as SciPy's `welch`: segments of `nfft` samples, one every `hop`, from the window's start.
pub struct Welch<T: Precision> {
    forward: Forward<T>,
    scales: Scales<T>,
    hop: usize,
    parts: usize,
    average: Average,
    /// Mean: one spectrum. Median: all, by frequency.
    gathered: Vec<T>,
    bins: usize,
    isa: Isa,
}

impl<T: Precision> Welch<T> {
    /// For windows of `width` samples at `rate` per second; segments are as long as `factors`.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if a segment is longer than the window, or `hop` is zero.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        width: usize,
        complex: bool,
        factors: &[f64],
        hop: usize,
        detrend: Detrend,
        scaling: Scaling,
        average: Average,
        rate: f64,
    ) -> Result<Self, DspError> {
        let nfft = factors.len();
        let refused = |parameter, got: usize, allowed| DspError::Parameter {
            operator: "welch",
            parameter,
            got: got.to_string(),
            allowed,
        };
        if nfft == 0 || nfft > width {
            let allowed = format!("samples from 1 to the window's {width}");
            return Err(refused("nfft", nfft, allowed));
        }
        if hop == 0 {
            return Err(refused("hop", hop, "samples from 1".into()));
        }
        let parts = (width - nfft) / hop + 1;
        let bins = frequencies(nfft, complex);
        let (room, over) = match average {
            Average::Mean => (bins, parts as f64),
            Average::Median => (bins * parts, median_bias(parts)),
        };
        let factor = scaling.factor(factors, rate) / over;
        Ok(Self {
            forward: Forward::new(nfft, complex, factors, detrend),
            scales: Scales::new(nfft, complex, factor),
            hop,
            parts,
            average,
            gathered: vec![T::zero(); room],
            bins,
            isa: Isa::best(),
        })
    }

    /// Frequencies of a spectrum.
    #[must_use]
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// Spectrum of a window; complex samples are pairs of numbers.
    pub fn row(&mut self, window: &[T], out: &mut [T]) {
        let numbers = if self.forward.is_complex() { 2 } else { 1 };
        let (nfft, hop) = (numbers * self.forward.width(), numbers * self.hop);
        match self.average {
            Average::Mean => {
                for part in 0..self.parts {
                    let spectrum = self.forward.spectrum(&window[part * hop..][..nfft]);
                    let scales = self.scales;
                    if part == 0 {
                        self.isa.run(Squares {
                            spectrum,
                            scales,
                            out: &mut *out,
                        });
                        continue;
                    }
                    self.isa.run(Squares {
                        spectrum,
                        scales,
                        out: &mut self.gathered,
                    });
                    self.isa.run(Add {
                        from: &self.gathered,
                        to: &mut *out,
                    });
                }
            }
            Average::Median => {
                for part in 0..self.parts {
                    let spectrum = self.forward.spectrum(&window[part * hop..][..nfft]);
                    self.isa.run(Squares {
                        spectrum,
                        scales: self.scales,
                        out: &mut out[..],
                    });
                    for (bin, &power) in out.iter().enumerate() {
                        self.gathered[bin * self.parts + part] = power;
                    }
                }
                let each = self.gathered.chunks_exact_mut(self.parts);
                for (out, powers) in out.iter_mut().zip(each) {
                    *out = median(powers);
                }
            }
        }
    }
}

struct Add<'a, T> {
    from: &'a [T],
    to: &'a mut [T],
}

impl<T: Precision> Kernel for Add<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        for (to, &from) in self.to.iter_mut().zip(self.from) {
            *to = *to + from;
        }
    }
}

/// NaN if a value is.
fn median<T: Precision>(values: &mut [T]) -> T {
    let order = |a: &T, b: &T| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal);
    if let Some(&nan) = values.iter().find(|value| value.is_nan()) {
        return nan;
    }
    let middle = values.len() / 2;
    let odd = !values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, order);
    if odd {
        return upper;
    }
    let lower = below.iter().copied().fold(T::neg_infinity(), T::max);
    (lower + upper) * T::of(0.5)
}
