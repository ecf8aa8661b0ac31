//! Fourier transforms of windows, without allocation per window.
//!
//! Real windows of N have N / 2 + 1 frequencies from zero to half the rate; complex ones have N, negative ones in the
//! second half. Complex numbers are pairs of numbers. Precision is the input's. Last bits may differ between processors
//! ([`FFT_ROUNDINGS`]), never between runs, chunkings or threads.
//!
//! [`Forward`] detrends and tapers while copying. [`Power`] and [`Welch`] scale as SciPy's `periodogram` and `welch`.

mod detrend;
mod forward;
mod inverse;
pub(crate) mod plan_cache;
mod power;
mod shape;
mod welch;

use isochrony_segment::Sample;
use rustfft::FftNum;
use rustfft::num_traits::{Float, FloatConst};

pub use detrend::Detrend;
pub use forward::Forward;
pub use inverse::Inverse;
pub use plan_cache::{FFT_ROUNDINGS, Planners, fft_instruction_set};
pub use power::{Power, Scaling};
pub use shape::Shaper;
pub use welch::{Average, Welch, median_bias};

/// Precision of transforms: `f32` or `f64`.
pub trait Precision: FftNum + Float + FloatConst + Sample + Into<f64> {
    /// Rounds to this precision.
    fn of(value: f64) -> Self;

    /// Cached planners of this process.
    fn planners() -> &'static Planners<Self>;
}

impl Precision for f32 {
    #[inline(always)]
    fn of(value: f64) -> Self {
        value as Self
    }

    fn planners() -> &'static Planners<Self> {
        static PLANNERS: Planners<f32> = Planners::new();
        &PLANNERS
    }
}

impl Precision for f64 {
    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }

    fn planners() -> &'static Planners<Self> {
        static PLANNERS: Planners<f64> = Planners::new();
        &PLANNERS
    }
}

/// Frequencies of a window of `width` samples.
#[must_use]
pub fn frequencies(width: usize, complex: bool) -> usize {
    if complex { width } else { width / 2 + 1 }
}

/// Frequencies in Hz: NumPy's `rfftfreq`, for complex samples `fftfreq`.
///
/// ```
/// use isochrony_dsp::spectrum::frequencies_hz;
/// assert_eq!(frequencies_hz(4, 100.0, false), [0.0, 25.0, 50.0]);
/// assert_eq!(frequencies_hz(4, 100.0, true), [0.0, 25.0, -50.0, -25.0]);
/// ```
#[must_use]
pub fn frequencies_hz(width: usize, rate: f64, complex: bool) -> Vec<f64> {
    let hz = |k: usize| {
        let signed = if complex && k >= width.div_ceil(2) {
            k as f64 - width as f64
        } else {
            k as f64
        };
        signed * rate / width as f64
    };
    (0..frequencies(width, complex)).map(hz).collect()
}
