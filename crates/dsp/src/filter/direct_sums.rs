//! [`DirectSums`]: sums of taps times samples.

use crate::isa::{Kernel, Level};
use crate::spectrum::Precision;

/// Bytes of results in parallel: hides the latency of additions.
const SIDE_BYTES: usize = 256;

/// Result n is the sum of `reversed[k] row[n + k]`.
pub(super) struct DirectSums<'a, T> {
    pub(super) reversed: &'a [T],
    pub(super) row: &'a [T],
    pub(super) results: &'a mut [T],
}

impl<T: Precision> DirectSums<'_, T> {
    #[inline(always)]
    fn side_by_side<const SIDE: usize>(self) {
        let mut at = 0;
        let mut blocks = self.results.chunks_exact_mut(SIDE);
        for block in &mut blocks {
            let mut sums = [T::zero(); SIDE];
            for (tap, samples) in self.reversed.iter().zip(self.row[at..].windows(SIDE)) {
                let Ok(samples) = <&[T; SIDE]>::try_from(samples) else {
                    continue;
                };
                for (sum, sample) in sums.iter_mut().zip(samples) {
                    *sum = *sum + *tap * *sample;
                }
            }
            block.copy_from_slice(&sums);
            at += SIDE;
        }
        for (n, result) in blocks.into_remainder().iter_mut().enumerate() {
            let mut sum = T::zero();
            for (tap, sample) in self.reversed.iter().zip(&self.row[at + n..]) {
                sum = sum + *tap * *sample;
            }
            *result = sum;
        }
    }
}

impl<T: Precision> Kernel for DirectSums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        if size_of::<T>() == 4 {
            self.side_by_side::<{ SIDE_BYTES / 4 }>();
        } else {
            self.side_by_side::<{ SIDE_BYTES / 8 }>();
        }
    }
}
