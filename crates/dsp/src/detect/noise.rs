//! Detection against a running model of Gaussian noise.

use super::thresholds;
use crate::DspError;
use crate::running::Real;

/// Distance from Gaussian noise, whose mean and deviation are estimated online.
///
/// Input: numbers, such as scores of windows. Output: distance from the noise mean over that of detection; 1 or more is
/// a detection. 0 for the first `memory` numbers, and where deviation and distance are zero.
///
/// The model is an exponentially weighted mean and variance with a time constant of `memory` numbers (equal weights at
/// first). Detected numbers do not enter; the bias of the cut tail is corrected. After `timeout` detections in a row
/// all numbers enter until one is not detected: a lasting step becomes the new noise.
///
/// The threshold is Student's t for an effective (2 memory - 1) numbers. NaN gives NaN, an infinity itself; neither
/// enters the model.
///
/// Source: Girod et al., *XStream* (2008), section II; Trifa, *A framework for bird songs detection* (2006).
///
/// ```
/// use isochrony_dsp::detect::NoiseCfar;
/// let mut cfar = NoiseCfar::new(4.0, 10, 100)?;
/// let scores: Vec<f64> = (0..40).map(|i| if i == 30 { 9.0 } else { f64::from(i % 2) }).collect();
/// let mut levels = vec![0.0; 40];
/// cfar.run(&scores, &mut levels);
/// assert!(levels[30] > 1.0 && levels[31] < 1.0);
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct NoiseCfar {
    deviations: f64,
    memory: u64,
    timeout: u64,
    cut: (f64, f64),
    /// Corrects the variance for the cut tail and the estimated mean.
    widen: f64,
    count: u64,
    mean: f64,
    variance: f64,
    limit: f64,
    detected: u64,
}

/// Effective sample size of the exponential average.
fn weight(memory: u64) -> f64 {
    2.0 * memory as f64 - 1.0
}

impl NoiseCfar {
    /// Detects `deviations` standard deviations above the mean.
    ///
    /// # Errors
    /// [`DspError::Parameter`] unless the distance is from 1 to 1000, the memory from 8 and the timeout from 1 to 2^52.
    pub fn new(deviations: f64, memory: u64, timeout: u64) -> Result<Self, DspError> {
        let refused = |parameter, got: String, allowed: &str| DspError::Parameter {
            operator: "cfar",
            parameter,
            got,
            allowed: allowed.into(),
        };
        if !(1.0..=1000.0).contains(&deviations) {
            let got = deviations.to_string();
            return Err(refused(
                "deviations",
                got,
                "from 1 to 1000 standard deviations",
            ));
        }
        if !(8..1 << 52).contains(&memory) {
            return Err(refused(
                "memory",
                memory.to_string(),
                "from 8 to 2^52 - 1 numbers",
            ));
        }
        if !(1..1 << 52).contains(&timeout) {
            return Err(refused(
                "timeout",
                timeout.to_string(),
                "from 1 to 2^52 - 1 numbers",
            ));
        }
        let cut = thresholds::cut_above(deviations);
        let weight = weight(memory);
        Ok(Self {
            deviations,
            memory,
            timeout,
            cut,
            widen: weight / (weight - 1.0) / cut.1,
            count: 0,
            mean: 0.0,
            variance: 0.0,
            limit: 0.0,
            detected: 0,
        })
    }

    /// Detects Gaussian noise with probability `pfa`.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`DspError::Parameter`] for a probability outside 1e-15 to 0.1.
    pub fn with_probability(pfa: f64, memory: u64, timeout: u64) -> Result<Self, DspError> {
        Self::new(
            thresholds::of_deviation(pfa, weight(memory).max(2.0))?,
            memory,
            timeout,
        )
    }

    /// Computes one level per value.
    pub fn run<T: Real>(&mut self, values: &[T], results: &mut [T]) {
        for (value, result) in values.iter().zip(results) {
            *result = T::of(self.level(value.double()));
        }
    }

    #[inline]
    fn level(&mut self, value: f64) -> f64 {
        if self.count < self.memory {
            self.learn(value);
            return 0.0;
        }
        let above = value - self.center();
        let level = if above == 0.0 {
            0.0
        } else {
            above / self.limit
        };
        if level.is_nan() {
            return level;
        }
        self.detected = if level >= 1.0 { self.detected + 1 } else { 0 };
        if self.detected == 0 || self.detected > self.timeout {
            self.learn(value);
        }
        level
    }

    /// Noise mean, corrected for the cut tail.
    #[inline]
    fn center(&self) -> f64 {
        self.mean - self.cut.0 * self.limit / self.deviations
    }

    #[inline]
    fn learn(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.count = (self.count + 1).min(self.memory);
        let gain = 1.0 / self.count as f64;
        // West (1979): no difference of large numbers.
        let off = value - self.mean;
        let step = gain * off;
        self.mean += step;
        self.variance = (1.0 - gain) * (self.variance + off * step);
        self.limit = self.deviations * (self.variance * self.widen).sqrt();
    }

    /// Starts a contiguous range with unknown noise.
    pub fn reset(&mut self) {
        (self.count, self.detected) = (0, 0);
        (self.mean, self.variance, self.limit) = (0.0, 0.0, 0.0);
    }
}
