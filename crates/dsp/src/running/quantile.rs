//! Quantiles of sliding windows.

use super::{Ranked, Real, checked};
use crate::DspError;

/// A quantile of the last W samples.
///
/// Input: a stream of numbers. Output: for each the quantile of it and the W - 1 before it; at the beginning, of those
/// that there are. Between two samples in order it is interpolated linearly, as NumPy's `quantile` does by default; exact
/// but for that rounding. Each takes O(log W) comparisons. The W quantiles whose windows have a NaN are NaN; infinities are
/// in order with the rest; between an infinity and a number lies the infinity, between two of them NaN.
///
/// ```
/// use isochrony_dsp::running::RunningQuantile;
/// let mut median = RunningQuantile::new(3, 0.5)?;
/// let mut medians = [0.0; 5];
/// median.run(&[4.0, 2.0, 90.0, 3.0, 5.0], &mut medians);
/// assert_eq!(medians, [4.0, 3.0, 4.0, 3.0, 5.0]);
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RunningQuantile {
    window: usize,
    at: f64,
    /// Samples of the window, the oldest in slot `oldest` once it is full.
    ranked: Option<Ranked>,
    count: usize,
    oldest: usize,
    /// Samples that are on the lower side while the window is full, and how far the quantile is from the last of them.
    below: usize,
    part: f64,
}

impl RunningQuantile {
    /// The quantile `at`, from 0 (the least) to 1 (the greatest), of windows of so many samples.
    ///
    /// # Errors
    /// [`DspError::Parameter`] of a quantile outside 0 to 1, or a window of none or more than 2^28 samples.
    pub fn new(window: usize, at: f64) -> Result<Self, DspError> {
        if !(0.0..=1.0).contains(&at) {
            return Err(DspError::Parameter {
                operator: "running_quantile",
                parameter: "q",
                got: at.to_string(),
                allowed: "from 0 to 1".into(),
            });
        }
        Ok(Self {
            window: checked("running_quantile", "window", window, 1)?,
            at,
            ranked: None,
            count: 0,
            oldest: 0,
            below: 0,
            part: 0.0,
        })
    }

    /// Computes the next quantiles, as many as values.
    pub fn run<T: Real>(&mut self, values: &[T], results: &mut [T]) {
        let ranked = self.ranked.get_or_insert_with(|| Ranked::new(self.window));
        for (value, result) in values.iter().zip(results) {
            ranked.set(self.oldest, value.double());
            self.oldest += 1;
            if self.oldest == self.window {
                self.oldest = 0;
            }
            if self.count < self.window {
                self.count += 1;
                let place = self.at * (self.count - 1) as f64;
                self.below = place as usize + 1;
                self.part = place - place.floor();
                ranked.divide(self.below);
            }
            *result = T::of(between(ranked, self.part));
        }
    }

    /// What follows is the beginning of another stretch.
    pub fn reset(&mut self) {
        self.count = 0;
        self.oldest = 0;
        if let Some(ranked) = &mut self.ranked {
            ranked.clear();
        }
    }

    /// Bytes that it keeps.
    #[must_use]
    pub fn bytes(&self) -> usize {
        Ranked::bytes(self.window)
    }
}

/// The point at `part` of the way from the last below to the first above.
#[inline(always)]
fn between(ranked: &Ranked, part: f64) -> f64 {
    if ranked.has_nan() {
        return f64::NAN;
    }
    let a = ranked.below().unwrap_or(f64::NAN);
    match ranked.above() {
        Some(b) if part > 0.0 && b != a => {
            // As NumPy, from the nearer end.
            let step = b - a;
            if step.is_infinite() {
                a * (1.0 - part) + b * part
            } else if part < 0.5 {
                a + step * part
            } else {
                b - step * (1.0 - part)
            }
        }
        _ => a,
    }
}
