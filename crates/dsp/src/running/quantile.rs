//! Quantiles of sliding windows.

use super::rank::QuantileRank;
use super::sorted::SortedNumbers;
use super::{RankHeaps, Real, checked};
use crate::DspError;

/// A quantile of the last W samples.
///
/// Output: for each number the quantile of the window that ends there (shorter at the start), interpolated linearly as
/// NumPy's `quantile`. Each takes O(log W) comparisons, or few vector instructions for a short window. A NaN makes its
/// W quantiles NaN. Infinities are ordered; between an infinity and a number lies the infinity, between both infinities
/// NaN.
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
    rank: QuantileRank,
    order: Option<OrderedWindow>,
}

/// Two representations with the same results.
#[derive(Debug, Clone)]
enum OrderedWindow {
    Sorted(SortedNumbers),
    Heaps(HeapWindow),
}

/// When full, its oldest number is in slot `oldest`.
#[derive(Debug, Clone)]
struct HeapWindow {
    ranked: RankHeaps,
    oldest: usize,
}

impl HeapWindow {
    fn new(window: usize) -> Self {
        Self {
            ranked: RankHeaps::new(window),
            oldest: 0,
        }
    }

    fn of(numbers: &[f64], rank: &QuantileRank) -> Self {
        let mut heaps = Self::new(rank.window());
        for &number in numbers {
            heaps.set(number, rank.window());
        }
        heaps.ranked.divide(rank.below());
        heaps
    }

    #[inline(always)]
    fn set(&mut self, number: f64, window: usize) {
        self.ranked.set(self.oldest, number);
        self.oldest += 1;
        if self.oldest == window {
            self.oldest = 0;
        }
    }

    fn run<T: Real>(&mut self, rank: &mut QuantileRank, values: &[T], results: &mut [T]) {
        for (value, result) in values.iter().zip(results) {
            self.set(value.double(), rank.window());
            if rank.count() {
                self.ranked.divide(rank.below());
            }
            *result = T::of(match self.ranked.has_nan() {
                true => f64::NAN,
                false => {
                    let below = self.ranked.below().unwrap_or(f64::NAN);
                    rank.between(below, self.ranked.above())
                }
            });
        }
    }

    fn clear(&mut self) {
        self.ranked.clear();
        self.oldest = 0;
    }
}

impl RunningQuantile {
    /// The quantile `at`, from 0 to 1, of windows of so many samples.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if `at` is outside 0 to 1, or the window is 0 or above 2^28.
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
            rank: QuantileRank::new(checked("running_quantile", "window", window, 1)?, at),
            order: None,
        })
    }

    /// Uses heaps for any window: the same bits.
    #[must_use]
    pub fn with_heaps(self) -> Self {
        let heaps = OrderedWindow::Heaps(HeapWindow::new(self.rank.window()));
        Self {
            order: Some(heaps),
            ..self
        }
    }

    /// Computes one quantile per value.
    pub fn run<T: Real>(&mut self, values: &[T], results: &mut [T]) {
        let rank = &mut self.rank;
        let order = self.order.get_or_insert_with(|| match rank.window() {
            ..=SortedNumbers::MAX_F32_WINDOW => {
                OrderedWindow::Sorted(SortedNumbers::new(rank.window()))
            }
            _ => OrderedWindow::Heaps(HeapWindow::new(rank.window())),
        });
        let mut done = 0;
        if let OrderedWindow::Sorted(sorted) = order {
            done = sorted.run(rank, values, results);
            if done < values.len() {
                *order =
                    OrderedWindow::Heaps(HeapWindow::of(&sorted.numbers(rank.counted()), rank));
            }
        }
        if let OrderedWindow::Heaps(heaps) = order {
            heaps.run(rank, &values[done..], &mut results[done..]);
        }
    }

    /// Starts a contiguous range.
    pub fn reset(&mut self) {
        self.rank.reset();
        match &mut self.order {
            Some(OrderedWindow::Sorted(sorted)) => sorted.clear(),
            Some(OrderedWindow::Heaps(heaps)) => heaps.clear(),
            None => {}
        }
    }

    /// Bytes of state.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self.rank.window() {
            window @ ..=SortedNumbers::MAX_F64_WINDOW => {
                SortedNumbers::bytes(window).max(RankHeaps::bytes(window))
            }
            window => RankHeaps::bytes(window),
        }
    }
}
