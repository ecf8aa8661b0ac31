//! Statistics of the last so many samples, for every sample: sums, means, root mean squares, quantiles.
//!
//! A *sliding window* of W samples ends at each sample in turn. What is computed depends on the samples in the window
//! alone, never on what was there before: nothing is added when a sample comes and taken away when it goes, so no error
//! stays behind, however long the stream. Samples at the beginning, when fewer than W have come, have the window of
//! those that there are.
//!
//! All kernels keep their state between calls, give the same bits however the stream is cut into calls, and allocate
//! their memory once. Sums and comparisons are those of doubles, also of singles.

mod heaps;
mod quantile;
mod sorted;
mod statistics;
mod sum;

pub use heaps::Ranked;
pub use quantile::RunningQuantile;
pub use statistics::{RunningMean, RunningRms};
pub use sum::SlidingSum;

use crate::DspError;

/// Most samples of a window: what is kept of them takes at most 2 GiB.
pub const MOST_SAMPLES: usize = 1 << 28;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// Numbers of streams: computed as doubles, stored in their own precision. Sealed: `f32` and `f64`.
pub trait Real: sealed::Sealed + Copy + Send + 'static {
    /// As a double, exactly.
    fn double(self) -> f64;
    /// Rounded to this precision.
    fn of(value: f64) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn double(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn of(value: f64) -> Self {
        value as Self
    }
}

impl Real for f64 {
    #[inline(always)]
    fn double(self) -> f64 {
        self
    }

    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }
}

/// A number of samples from `least` that a window may have.
pub(crate) fn checked(
    operator: &'static str,
    parameter: &'static str,
    samples: usize,
    least: usize,
) -> Result<usize, DspError> {
    if (least..=MOST_SAMPLES).contains(&samples) {
        return Ok(samples);
    }
    Err(DspError::Parameter {
        operator,
        parameter,
        got: format!("{samples} samples"),
        allowed: format!("{least} to {MOST_SAMPLES} samples"),
    })
}
