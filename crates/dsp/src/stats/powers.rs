//! Mean and variance of integers, without extremes.

use super::integer::{BLOCK, Integer, mean_and_m2};
use crate::isa::{Isa, Kernel, Level};

/// Exact sums of a window that arrives in pieces.
///
/// Mean and variance have the bits of [`summary`](super::summary).
///
/// ```
/// use isochrony_dsp::{Isa, stats::Powers};
///
/// let mut window = Powers::default();
/// window.push(Isa::best(), &[1i16, 2]);
/// window.push(Isa::best(), &[3, 6]);
/// assert_eq!((window.mean(), window.variance()), (3.0, 3.5));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Powers {
    count: u64,
    sum: i128,
    squares: u128,
}

impl Powers {
    /// Adds samples: bools or integers of at most 32 bits.
    pub fn push<T: Integer>(&mut self, isa: Isa, samples: &[T]) {
        isa.run_narrow(Push {
            powers: self,
            samples,
        });
    }

    /// Arithmetic mean; NaN without samples.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count as f64
    }

    /// Population variance; NaN without samples.
    #[must_use]
    pub fn variance(&self) -> f64 {
        let (_, m2) = mean_and_m2(self.count, self.sum, self.squares);
        m2 / self.count as f64
    }
}

struct Push<'a, T> {
    powers: &'a mut Powers,
    samples: &'a [T],
}

impl<T: Integer> Kernel for Push<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, level: L) {
        for samples in self.samples.chunks(BLOCK) {
            let (sum, squares) = T::powers(level, samples);
            self.powers.count += samples.len() as u64;
            self.powers.sum += i128::from(sum);
            self.powers.squares += squares;
        }
    }
}
