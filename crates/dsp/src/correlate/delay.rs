//! The lag at which two windows agree best.

use std::f64::consts::PI;

use num_complex::Complex;

use super::{Correlator, Kind};
use crate::DspError;
use crate::spectrum::Precision;

/// How the peak is interpolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refine {
    /// Parabola through the highest value and its neighbours. Biased towards the nearer sample, most at a third of the
    /// way: up to 0.011 samples for a flat band up to a sixth of the rate, 0.026 up to a quarter, 0.12 up to half.
    Parabola,
    /// Peak of the band-limited function through all values: unbiased, apart from noise and edges.
    BandLimited,
}

impl Refine {
    /// Names, in order.
    pub const NAMES: [&'static str; 2] = ["parabola", "band_limited"];

    /// Parses a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Parabola, Self::BandLimited]
            .into_iter()
            .find(|known| Self::NAMES[*known as usize] == name)
    }
}

/// A lag and the correlation there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delay {
    /// Samples by which the second window lags; NaN if undefined.
    pub lag: f64,
    /// Value of the correlation at the lag.
    pub peak: f64,
}

/// Finds delays between windows of one length.
pub struct Delays<T: Precision> {
    correlator: Correlator<T>,
    refine: Refine,
    row: Vec<T>,
}

impl<T: Precision> Delays<T> {
    /// For windows of `width` real samples, and delays up to `max_lag` either way.
    ///
    /// # Errors
    /// As [`Correlator::new`].
    ///
    /// ```
    /// use isochrony_dsp::correlate::{Delays, Kind, Refine};
    /// let bell = |at: f64| move |i: i32| (-0.1 * (f64::from(i) - at).powi(2)).exp();
    /// let (x, y): (Vec<_>, Vec<_>) = ((0..64).map(bell(30.0)).collect(), (0..64).map(bell(32.5)).collect());
    /// let delay = Delays::new(64, 10, Kind::Coefficient, Refine::BandLimited)?.of(&x, &y);
    /// assert!((delay.lag - 2.5).abs() < 1e-6 && (delay.peak - 1.0).abs() < 1e-6);
    /// # Ok::<(), isochrony_dsp::DspError>(())
    /// ```
    pub fn new(width: usize, max_lag: usize, kind: Kind, refine: Refine) -> Result<Self, DspError> {
        let correlator = Correlator::new(width, max_lag, kind)?;
        Ok(Self {
            row: vec![T::zero(); correlator.lags()],
            correlator,
            refine,
        })
    }

    /// Lag of the highest peak, refined between neighbours. NaN if a window has NaN, or nothing correlates.
    pub fn of(&mut self, x: &[T], y: &[T]) -> Delay {
        self.correlator.row(x, y, &mut self.row);
        let mut highest = 0;
        for (at, value) in self.row.iter().enumerate() {
            if *value > self.row[highest] {
                highest = at;
            }
        }
        let lag = highest as f64 - self.correlator.max_lag() as f64;
        let peak: f64 = self.row[highest].into();
        let flat = self.row.iter().all(|value| *value == self.row[highest]);
        if self.row.iter().any(|value| value.is_nan()) || (flat && peak == 0.0) {
            return Delay {
                lag: f64::NAN,
                peak: if peak == 0.0 { 0.0 } else { f64::NAN },
            };
        }
        let neighbours = (highest.checked_sub(1), self.row.get(highest + 1));
        let (Some(before), Some(&after)) = neighbours else {
            return Delay { lag, peak };
        };
        let (before, after): (f64, f64) = (self.row[before].into(), after.into());
        let bend = before - 2.0 * peak + after;
        if bend >= 0.0 {
            return Delay { lag, peak };
        }
        let offset = 0.5 * (before - after) / bend;
        match self.refine {
            Refine::Parabola => Delay {
                lag: lag + offset,
                peak: peak - 0.25 * (before - after) * offset,
            },
            Refine::BandLimited => {
                let (spectrum, length) = self.correlator.spectrum();
                CorrelationFunction::new(spectrum, length).highest(lag, offset)
            }
        }
    }
}

/// The band-limited function through the values: a sum of cosines.
struct CorrelationFunction<'a, T> {
    spectrum: &'a [Complex<T>],
    length: usize,
}

struct Derivatives {
    value: f64,
    slope: f64,
    bend: f64,
}

impl<'a, T: Precision> CorrelationFunction<'a, T> {
    fn new(spectrum: &'a [Complex<T>], length: usize) -> Self {
        Self { spectrum, length }
    }

    fn at(&self, lag: f64) -> Derivatives {
        let step = 2.0 * PI / self.length as f64;
        let turn = Complex::from_polar(1.0, step * lag);
        let mut phase = Complex::new(1.0, 0.0);
        let (mut value, mut slope, mut bend) = (0.0, 0.0, 0.0);
        for (k, cross) in self.spectrum.iter().enumerate() {
            // Restart before rounding errors add up.
            if k % 64 == 0 {
                phase = Complex::from_polar(1.0, step * lag * k as f64);
            }
            let alone = k == 0 || 2 * k == self.length;
            let sides = if alone { 1.0 } else { 2.0 };
            let (re, im): (f64, f64) = (cross.re.into(), cross.im.into());
            let omega = step * k as f64;
            // Of cross * phase; the imaginary part is zero at Nyquist.
            let real = sides * (re * phase.re - im * phase.im);
            let imaginary = sides * (re * phase.im + im * phase.re);
            value += real;
            slope -= omega * imaginary;
            bend -= omega * omega * real;
            phase *= turn;
        }
        let count = self.length as f64;
        Derivatives {
            value: value / count,
            slope: slope / count,
            bend: bend / count,
        }
    }

    /// Newton's method near `lag`, whose value exceeds its neighbours'.
    fn highest(&self, lag: f64, offset: f64) -> Delay {
        let (mut low, mut high) = (lag - 1.0, lag + 1.0);
        let mut here = lag + offset;
        let mut at = self.at(here);
        for _ in 0..40 {
            if at.slope > 0.0 {
                low = here;
            } else {
                high = here;
            }
            let newton = here - at.slope / at.bend;
            let next = if at.bend < 0.0 && low < newton && newton < high {
                newton
            } else {
                0.5 * (low + high)
            };
            let moved = (next - here).abs();
            here = next;
            at = self.at(here);
            if moved < 1e-10 {
                break;
            }
        }
        Delay {
            lag: here,
            peak: at.value,
        }
    }
}
