//! Detection against the power of surrounding cells (CFAR).

use super::thresholds;
use crate::DspError;
use crate::running::{RankHeaps, Real, SlidingSum, checked};

/// Position of the training cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sides {
    /// Before the tested number: no delay.
    Before,
    /// Before and behind: twice as many.
    Both,
}

/// Estimate of the noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noise {
    /// Their mean. A cell is the mean of `degrees` squares of Gaussian numbers.
    Mean {
        /// 2 for exponential power (complex samples, spectral bins), 1 for squares of real samples.
        degrees: u32,
    },
    /// Order statistic of exponential cells (0.75: three quarters are smaller). Other strong cells mask no detection.
    Rank {
        /// Above 0, at most 1.
        at: f64,
    },
}

/// Power over a threshold from the surrounding noise.
///
/// Input: non-negative powers. Output: their ratios to a threshold; 1 or more is a detection. The result of number i
/// comes with number i + [`lag`](Self::lag); the first [`skip`](Self::skip) results of a range are zero. The threshold
/// is a factor times the mean, or an order statistic, of `training` cells before the number (and as many behind, with
/// [`Sides::Both`]), beyond `guard` cells. The probability of false alarms holds for noise of any equal power. A
/// positive number above zeros is infinite, zero among zeros is 0. NaN affects its own result and those with it in
/// training.
///
/// Source: Finn and Johnson (1968); Rohling (1983); factors as in [`thresholds`].
///
/// ```
/// use isochrony_dsp::detect::{CellCfar, Noise, Sides};
/// let mut cfar = CellCfar::new(1e-3, 4, 1, Sides::Both, Noise::Mean { degrees: 2 })?;
/// assert_eq!((cfar.lag(), cfar.skip()), (5, 10));
/// let power: Vec<f64> = (0..20).map(|i| if i == 9 { 40.0 } else { 1.0 }).collect();
/// let mut levels = vec![0.0; 20];
/// cfar.run(&power, &mut levels);
/// assert!(levels[9 + 5] > 1.0 && levels[8 + 5] < 1.0);
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct CellCfar {
    training: usize,
    guard: usize,
    sides: Sides,
    factor: f64,
    trained: TrainingCells,
    waiting: Delay,
    missing: u64,
}

#[derive(Debug, Clone)]
enum TrainingCells {
    /// Sum of the newest cells, and earlier sums.
    Sum { sum: SlidingSum, before: Delay },
    Rank {
        below: usize,
        cells: Option<RankHeaps>,
        next: usize,
        before: Delay,
    },
}

#[derive(Debug, Clone)]
struct Delay {
    by: usize,
    kept: Vec<f64>,
    at: usize,
}

impl Delay {
    fn new(by: usize) -> Self {
        Self {
            by,
            kept: Vec::new(),
            at: 0,
        }
    }

    #[inline(always)]
    fn of(&mut self, value: f64) -> f64 {
        if self.by == 0 {
            return value;
        }
        if self.kept.is_empty() {
            self.kept = vec![0.0; self.by];
        }
        let earlier = std::mem::replace(&mut self.kept[self.at], value);
        self.at += 1;
        if self.at == self.by {
            self.at = 0;
        }
        earlier
    }

    fn reset(&mut self) {
        self.kept.fill(0.0);
        self.at = 0;
    }
}

impl CellCfar {
    /// `pfa`: false alarms per number. `training`: cells on each side.
    ///
    /// # Errors
    /// [`DspError::Parameter`] for a probability outside 1e-15 to 0.1, no training cells, 0 degrees, a rank out of
    /// range, or more than 2^28 cells.
    pub fn new(
        pfa: f64,
        training: usize,
        guard: usize,
        sides: Sides,
        noise: Noise,
    ) -> Result<Self, DspError> {
        let training = checked("ca_cfar", "training", training, 1)?;
        let guard = checked("ca_cfar", "guard", guard, 0)?;
        let cells = match sides {
            Sides::Before => training,
            Sides::Both => 2 * training,
        };
        let lag = match sides {
            Sides::Before => 0,
            Sides::Both => guard + training,
        };
        let refused = |parameter, got: String, allowed: &str| DspError::Parameter {
            operator: "ca_cfar",
            parameter,
            got,
            allowed: allowed.into(),
        };
        let before = Delay::new(lag + guard + 1);
        let (factor, trained) = match noise {
            Noise::Mean { degrees: 0 } => {
                return Err(refused("degrees", "0".into(), "at least 1"));
            }
            Noise::Mean { degrees } => {
                let factor = thresholds::of_mean(pfa, cells, degrees)? / cells as f64;
                let sum = SlidingSum::new(training);
                (factor, TrainingCells::Sum { sum, before })
            }
            Noise::Rank { at } if at > 0.0 && at <= 1.0 => {
                let below = ((at * cells as f64).round() as usize).clamp(1, cells);
                let factor = thresholds::of_rank(pfa, cells, below)?;
                let cells = None;
                let next = 0;
                (
                    factor,
                    TrainingCells::Rank {
                        below,
                        cells,
                        next,
                        before,
                    },
                )
            }
            Noise::Rank { at } => {
                return Err(refused("order", at.to_string(), "above 0 and at most 1"));
            }
        };
        Ok(Self {
            training,
            guard,
            sides,
            factor,
            trained,
            waiting: Delay::new(lag),
            missing: (lag + guard + training) as u64,
        })
    }

    /// Delay of results, in numbers.
    #[must_use]
    pub fn lag(&self) -> u64 {
        match self.sides {
            Sides::Before => 0,
            Sides::Both => (self.guard + self.training) as u64,
        }
    }

    /// Invalid results at the start of a contiguous range.
    #[must_use]
    pub fn skip(&self) -> u64 {
        self.lag() + (self.guard + self.training) as u64
    }

    /// Computes one level per value.
    pub fn run<T: Real>(&mut self, values: &[T], results: &mut [T]) {
        let (training, both) = (self.training, self.sides == Sides::Both);
        match &mut self.trained {
            TrainingCells::Sum { sum, before } => {
                sum.prepare();
                for (value, result) in values.iter().zip(results) {
                    let value = value.double();
                    let newest = sum.add(value);
                    let earlier = before.of(newest);
                    let noise = if both { newest + earlier } else { earlier };
                    let tested = self.waiting.of(value);
                    *result = T::of(level(tested, self.factor * noise, &mut self.missing));
                }
            }
            TrainingCells::Rank {
                below,
                cells,
                next,
                before,
            } => {
                let slots = if both { 2 * training } else { training };
                let cells = cells.get_or_insert_with(|| RankHeaps::new(slots));
                for (value, result) in values.iter().zip(results) {
                    let value = value.double();
                    cells.set(*next, before.of(value));
                    if both {
                        cells.set(training + *next, value);
                    }
                    *next = if *next + 1 == training { 0 } else { *next + 1 };
                    cells.divide(*below);
                    let noise = match cells.below() {
                        _ if cells.has_nan() => f64::NAN,
                        below => below.unwrap_or(f64::NAN),
                    };
                    let tested = self.waiting.of(value);
                    *result = T::of(level(tested, self.factor * noise, &mut self.missing));
                }
            }
        }
    }

    /// Bytes of state.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let cells = match &self.trained {
            TrainingCells::Sum { sum, before } => sum.bytes() + before.by * size_of::<f64>(),
            TrainingCells::Rank { before, .. } => {
                let slots = match self.sides {
                    Sides::Before => self.training,
                    Sides::Both => 2 * self.training,
                };
                RankHeaps::bytes(slots) + before.by * size_of::<f64>()
            }
        };
        cells + self.waiting.by * size_of::<f64>()
    }

    /// Starts a contiguous range.
    pub fn reset(&mut self) {
        self.waiting.reset();
        self.missing = self.skip();
        match &mut self.trained {
            TrainingCells::Sum { sum, before } => {
                sum.reset();
                before.reset();
            }
            TrainingCells::Rank {
                cells,
                next,
                before,
                ..
            } => {
                before.reset();
                *next = 0;
                if let Some(cells) = cells {
                    cells.clear();
                }
            }
        }
    }
}

#[inline(always)]
fn level(tested: f64, threshold: f64, missing: &mut u64) -> f64 {
    if *missing > 0 {
        *missing -= 1;
        return 0.0;
    }
    if tested == 0.0 && threshold == 0.0 {
        return 0.0;
    }
    tested / threshold
}
