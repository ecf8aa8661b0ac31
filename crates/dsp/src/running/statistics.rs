//! Means and RMS of sliding windows.

use super::{Real, SlidingSum, checked};
use crate::DspError;

#[derive(Debug, Clone)]
struct SlidingAverage {
    sum: SlidingSum,
    count: usize,
}

impl SlidingAverage {
    fn new(operator: &'static str, window: usize) -> Result<Self, DspError> {
        Ok(Self {
            sum: SlidingSum::new(checked(operator, "window", window, 1)?),
            count: 0,
        })
    }

    #[inline(always)]
    fn run<T: Real>(
        &mut self,
        values: &[T],
        results: &mut [T],
        of: impl Fn(f64) -> f64,
        made: impl Fn(f64) -> f64,
    ) {
        self.sum.prepare();
        let window = self.sum.window();
        for (value, result) in values.iter().zip(results) {
            self.count = window.min(self.count + 1);
            let sum = self.sum.add(of(value.double()));
            *result = T::of(made(sum / self.count as f64));
        }
    }

    fn reset(&mut self) {
        self.sum.reset();
        self.count = 0;
    }
}

/// Means of the last W samples.
///
/// Output: for each number the mean of the window that ends there (shorter at the start); group delay `(W - 1) / 2`.
/// Error: at most W roundings of 2^-53 times the mean magnitude. NaN and infinities affect the W results of their
/// windows.
///
/// ```
/// use isochrony_dsp::running::RunningMean;
/// let mut mean = RunningMean::new(2)?;
/// let mut means = [0.0; 4];
/// mean.run(&[1.0, 3.0, 1e300, 5.0], &mut means);
/// mean.run(&[5.0; 2], &mut means[..2]);
/// assert_eq!(means[..2], [5.0, 5.0]); // 1e300 has left no trace
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RunningMean(SlidingAverage);

impl RunningMean {
    /// `window` in samples.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if the window is 0 or above 2^28.
    pub fn new(window: usize) -> Result<Self, DspError> {
        SlidingAverage::new("running_mean", window).map(Self)
    }

    /// Computes one mean per value.
    pub fn run<T: Real>(&mut self, values: &[T], results: &mut [T]) {
        self.0.run(values, results, |value| value, |mean| mean);
    }

    /// Starts a contiguous range.
    pub fn reset(&mut self) {
        self.0.reset();
    }

    /// Bytes of state.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.sum.bytes()
    }
}

/// Root mean squares of the last W samples.
///
/// Output: for each number the root mean square of the window that ends there (shorter at the start). Relative error:
/// at most W roundings of 2^-53. Squares beyond 1.8e308 are infinite. NaN and infinities affect the W results of their
/// windows.
///
/// ```
/// use isochrony_dsp::running::RunningRms;
/// let mut rms = RunningRms::new(2)?;
/// let mut loudness = [0.0f32; 3];
/// rms.run(&[3.0, -3.0, 0.0], &mut loudness);
/// assert_eq!(loudness, [3.0, 3.0, 4.5f32.sqrt()]);
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RunningRms(SlidingAverage);

impl RunningRms {
    /// `window` in samples.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if the window is 0 or above 2^28.
    pub fn new(window: usize) -> Result<Self, DspError> {
        SlidingAverage::new("running_rms", window).map(Self)
    }

    /// Computes one root mean square per value.
    pub fn run<T: Real>(&mut self, values: &[T], results: &mut [T]) {
        self.0
            .run(values, results, |value| value * value, f64::sqrt);
    }

    /// Starts a contiguous range.
    pub fn reset(&mut self) {
        self.0.reset();
    }

    /// Bytes of state.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.sum.bytes()
    }
}
