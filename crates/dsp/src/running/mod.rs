//! Statistics of sliding windows.
//!
//! A *sliding window* of W samples ends at each sample (fewer at the start). Nothing is subtracted when a sample
//! leaves, so errors do not accumulate.
//!
//! Kernels keep state, give the same bits however the stream is cut, and allocate once. Arithmetic is in f64.

mod heaps;
mod quantile;
mod rank;
mod sorted;
mod statistics;
mod sum;

pub use heaps::RankHeaps;
pub use quantile::RunningQuantile;
pub use statistics::{RunningMean, RunningRms};
pub use sum::SlidingSum;

use crate::DspError;

/// Maximum window: at most 2 GiB.
pub const MOST_SAMPLES: usize = 1 << 28;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// Numbers of streams, computed in f64. Sealed: `f32` and `f64`.
pub trait Real: sealed::Sealed + Copy + Send + 'static {
    /// Exact conversion to f64.
    fn double(self) -> f64;
    /// Rounds to this precision.
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
        allowed: format!("from {least} to {MOST_SAMPLES} samples"),
    })
}
