//! Correlation of windows at small lags.

use num_complex::Complex;

use crate::DspError;
use crate::features::mean_square;
use crate::spectrum::{Detrend, Forward, Inverse, Precision, frequencies};

/// What is computed from two windows.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// Sums of products.
    Correlation,
    /// Correlation over the product of norms: -1 to 1; zero if a window is zero.
    Coefficient,
    /// Generalised cross-correlation with phase transform (Knapp and Carter 1976): all frequencies weigh the same, so
    /// the peak is as sharp as the band allows. A pure delay of a full band peaks at 1.
    Phat {
        /// Added to the denominator, as a fraction (from 0) of the largest cross-power: gives weak frequencies less
        /// weight.
        regularise: f64,
        /// Both ends included, as fractions of the sample rate, 0 to 0.5.
        band: (f64, f64),
    },
}

/// Correlates windows of one length.
pub struct Correlator<T: Precision> {
    width: usize,
    max_lag: usize,
    kind: Kind,
    forward: Forward<T>,
    inverse: Inverse<T>,
    padded: Vec<T>,
    first: Vec<Complex<T>>,
    cross: Vec<Complex<T>>,
    wrapped: Vec<T>,
    /// First and last frequency, and their number; those between zero and Nyquist count twice.
    band: (usize, usize),
    counted: f64,
}

impl<T: Precision> Correlator<T> {
    /// For windows of `width` real samples, and lags up to `max_lag` either way.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if `max_lag` is not below the width, or band or `regularise` is out of range.
    ///
    /// ```
    /// use isochrony_dsp::correlate::{Correlator, Kind};
    /// let mut correlator = Correlator::<f64>::new(4, 1, Kind::Correlation)?;
    /// let mut lags = [0.0; 3];
    /// correlator.row(&[0.0, 2.0, 0.0, 0.0], &[0.0, 0.0, 3.0, 0.0], &mut lags);
    /// assert_eq!(lags.map(f64::round), [0.0, 0.0, 6.0]); // the second comes one sample later
    /// # Ok::<(), isochrony_dsp::DspError>(())
    /// ```
    pub fn new(width: usize, max_lag: usize, kind: Kind) -> Result<Self, DspError> {
        let refused = |parameter, got: String, allowed: String| DspError::Parameter {
            operator: "correlate",
            parameter,
            got,
            allowed,
        };
        if max_lag >= width {
            let allowed = format!("samples below the window's {width}");
            return Err(refused("max_lag", max_lag.to_string(), allowed));
        }
        let padded = fast_length(width + max_lag);
        let bins = frequencies(padded, false);
        let mut band = (0, bins - 1);
        if let Kind::Phat {
            regularise,
            band: (low, high),
        } = kind
        {
            if !(0.0..=1e6).contains(&regularise) {
                let allowed = "from 0 to 1e6 of the largest cross-power".into();
                return Err(refused("regularise", regularise.to_string(), allowed));
            }
            if !(0.0 <= low && low < high && high <= 0.5) {
                let allowed = "two frequencies, the lower first, from 0 to half the rate".into();
                return Err(refused(
                    "band",
                    format!("{low} to {high} of the rate"),
                    allowed,
                ));
            }
            band = (
                (low * padded as f64).ceil() as usize,
                ((high * padded as f64).floor() as usize).min(bins - 1),
            );
            if band.0 > band.1 {
                let allowed = format!(
                    "wide enough to contain a frequency of the transform; these are 1/{padded} of the rate apart"
                );
                return Err(refused(
                    "band",
                    format!("{low} to {high} of the rate"),
                    allowed,
                ));
            }
        }
        let alone = |k: usize| k == 0 || 2 * k == padded;
        let counted = (band.0..=band.1).map(|k| if alone(k) { 1.0 } else { 2.0 });
        let zeros = || vec![Complex::new(T::zero(), T::zero()); bins];
        Ok(Self {
            width,
            max_lag,
            kind,
            forward: Forward::new(padded, false, &[], Detrend::None),
            inverse: Inverse::new(padded, false),
            padded: vec![T::zero(); padded],
            first: zeros(),
            cross: zeros(),
            wrapped: vec![T::zero(); padded],
            band,
            counted: counted.sum(),
        })
    }

    /// Length of a row, `2 max_lag + 1`; lowest lag first.
    #[must_use]
    pub fn lags(&self) -> usize {
        2 * self.max_lag + 1
    }

    /// Correlates two windows. Other lengths leave `out` unchanged.
    pub fn row(&mut self, x: &[T], y: &[T], out: &mut [T]) {
        if x.len() != self.width || y.len() != self.width || out.len() != self.lags() {
            return;
        }
        self.padded[..self.width].copy_from_slice(x);
        self.forward.transform(&self.padded, &mut self.first);
        self.padded[..self.width].copy_from_slice(y);
        self.forward.transform(&self.padded, &mut self.cross);
        for (cross, x) in self.cross.iter_mut().zip(&self.first) {
            *cross = *cross * x.conj();
        }
        match self.kind {
            Kind::Correlation => {}
            Kind::Coefficient => {
                let count = self.width as f64;
                let norms = (mean_square(x) * mean_square(y)).sqrt() * count;
                let scale = T::of(if norms == 0.0 { 0.0 } else { 1.0 / norms });
                for cross in &mut self.cross {
                    *cross = *cross * scale;
                }
            }
            Kind::Phat { regularise, .. } => self.whiten(T::of(regularise)),
        }
        self.inverse.spectrum().copy_from_slice(&self.cross);
        self.inverse.window(&mut self.wrapped);
        let negative = &self.wrapped[self.wrapped.len() - self.max_lag..];
        out[..self.max_lag].copy_from_slice(negative);
        out[self.max_lag..].copy_from_slice(&self.wrapped[..=self.max_lag]);
    }

    fn whiten(&mut self, regularise: T) {
        let (low, high) = self.band;
        let (below, rest) = self.cross.split_at_mut(low);
        let (band, above) = rest.split_at_mut(high + 1 - low);
        let zero = Complex::new(T::zero(), T::zero());
        below.fill(zero);
        above.fill(zero);
        let largest = band.iter().map(|cross| cross.norm_sqr());
        let floor = regularise * largest.fold(T::zero(), T::max).sqrt();
        // A spectrum of ones peaks at lag zero: 1 for the band.
        let scale = T::of(self.padded.len() as f64 / self.counted);
        for cross in band {
            let size = cross.norm_sqr().sqrt() + floor;
            *cross = if size == T::zero() {
                zero
            } else {
                *cross * (scale / size)
            };
        }
    }

    /// Spectrum of the last correlation, with its transform length.
    pub(super) fn spectrum(&self) -> (&[Complex<T>], usize) {
        (&self.cross, self.padded.len())
    }

    /// Largest lag.
    #[must_use]
    pub fn max_lag(&self) -> usize {
        self.max_lag
    }
}

/// Smallest even length from `least` without a prime factor above 5.
fn fast_length(least: usize) -> usize {
    let mut length = least.max(2).next_multiple_of(2);
    loop {
        let mut rest = length;
        for prime in [2, 3, 5] {
            while rest.is_multiple_of(prime) {
                rest /= prime;
            }
        }
        if rest == 1 {
            return length;
        }
        length += 2;
    }
}
