//! One-pass statistics of windows: minimum, maximum, count, mean and M2.
//!
//! For every dtype:
//! - only finite samples count; a complex sample by its magnitude, a bool as 0 or 1;
//! - minimum and maximum are exact, in the sample's type (u8 for bool; f32 and f64, rounded from f64, for complex
//!   magnitudes);
//! - bool and integers up to 32 bits: mean and M2 are within one unit in the last place;
//! - 64-bit integers and floats: deviations from the first finite sample, in [`LANES`] sums of f64. The relative error
//!   of M2, whatever the mean, is below `3 (count / LANES + 8) (count + 1) 2^-53`, and usually near 2^-50. M2 is
//!   infinite if squares overflow f64 (deviations beyond about 1e154), and loses digits below 1e-146;
//! - the same bits for any chunking and on any CPU.
//!
//! ```
//! use isochrony_dsp::stats::{Accumulator, summaries, summary, Summary};
//!
//! let samples = [3i16, 1, 2, 8, 6, 7, 5];
//! let all = summary(&samples);
//! assert_eq!((all.min, all.max, all.count), (1, 8, 7));
//!
//! let mut windows = [Summary::EMPTY; 2];
//! assert_eq!(summaries(&samples, 3, &mut windows)?, 2); // the short last window is left out
//! assert_eq!(windows[0].mean, 2.0);
//!
//! let mut accumulator = Accumulator::new();
//! accumulator.push(&samples[..4]);
//! accumulator.push(&samples[4..]);
//! assert_eq!(accumulator.finish(), all);
//! # Ok::<(), isochrony_dsp::DspError>(())
//! ```

mod block;
mod complex;
mod exact_sum;
mod indexed;
mod integer;
mod lanes;
mod powers;
mod summary;
#[cfg(target_arch = "x86_64")]
mod x86;

use isochrony_segment::{Bool8, Complex32, Complex64, Sample};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::DspError;
use crate::isa::{Isa, Kernel, Level};

pub use exact_sum::ExactSum;
pub use indexed::{IndexedSums, LEAF};
#[doc(hidden)]
pub use integer::{Integer, Sums as IntegerSums};
pub use lanes::LANES;
pub use powers::Powers;
pub use summary::{Extreme, Summary};

/// A sample type with statistics.
pub trait Statistic: Sample {
    /// Type of minimum and maximum.
    type Extreme: Extreme;
    #[doc(hidden)]
    type Moments: Moments<Self, Extreme = Self::Extreme>;
}

/// Sums of a window.
#[doc(hidden)]
pub trait Moments<T>: Clone + Default + Serialize + DeserializeOwned + Send + Sync {
    type Extreme: Extreme;

    /// Adds the next samples. Must be `#[inline(always)]`.
    fn update<L: Level>(&mut self, level: L, samples: &[T]);

    fn finish(&self) -> Summary<Self::Extreme>;

    /// Of a whole window. M2 need not be computed. Must be `#[inline(always)]`.
    #[inline(always)]
    fn mean_and_extremes<L: Level>(level: L, samples: &[T]) -> Summary<Self::Extreme> {
        let mut moments = Self::default();
        moments.update(level, samples);
        moments.finish()
    }
}

macro_rules! statistic {
    ($($type:ty => $extreme:ty, $moments:ty;)*) => {$(
        impl Statistic for $type {
            type Extreme = $extreme;
            type Moments = $moments;
        }
    )*};
}

statistic! {
    Bool8 => u8, integer::Sums<Bool8>;
    i8 => i8, integer::Sums<i8>;
    i16 => i16, integer::Sums<i16>;
    i32 => i32, integer::Sums<i32>;
    u8 => u8, integer::Sums<u8>;
    u16 => u16, integer::Sums<u16>;
    u32 => u32, integer::Sums<u32>;
    i64 => i64, lanes::Lanes<i64>;
    f32 => f32, lanes::Lanes<f32>;
    f64 => f64, lanes::Lanes<f64>;
    Complex32 => f32, complex::Magnitudes<Complex32>;
    Complex64 => f64, complex::Magnitudes<Complex64>;
}

/// Summarises all samples as one window.
#[must_use]
pub fn summary<T: Statistic>(samples: &[T]) -> Summary<T::Extreme> {
    let mut accumulator = Accumulator::new();
    accumulator.push(samples);
    accumulator.finish()
}

/// Summarises full windows of `window` samples; returns how many.
///
/// # Errors
/// [`DspError::ZeroWindow`]; [`DspError::OutputLength`] if `out` is too short.
pub fn summaries<T: Statistic>(
    samples: &[T],
    window: usize,
    out: &mut [Summary<T::Extreme>],
) -> Result<usize, DspError> {
    summaries_on(Isa::best(), samples, window, out)
}

/// [`summaries`] whose M2 may be missing (NaN), which takes less time for integers up to 32 bits. All else has the same
/// bits.
///
/// # Errors
/// As [`summaries`].
pub fn means_and_extremes<T: Statistic>(
    samples: &[T],
    window: usize,
    out: &mut [Summary<T::Extreme>],
) -> Result<usize, DspError> {
    means_and_extremes_on(Isa::best(), samples, window, out)
}

/// [`means_and_extremes`] on an instruction set; the same bits on all.
///
/// # Errors
/// As [`summaries`].
pub fn means_and_extremes_on<T: Statistic>(
    isa: Isa,
    samples: &[T],
    window: usize,
    out: &mut [Summary<T::Extreme>],
) -> Result<usize, DspError> {
    summarise::<T, false>("means_and_extremes", isa, samples, window, out)
}

/// [`summaries`] on an instruction set; the same bits on all.
///
/// # Errors
/// As [`summaries`].
pub fn summaries_on<T: Statistic>(
    isa: Isa,
    samples: &[T],
    window: usize,
    out: &mut [Summary<T::Extreme>],
) -> Result<usize, DspError> {
    summarise::<T, true>("summaries", isa, samples, window, out)
}

/// `M2`: whether it is needed.
fn summarise<T: Statistic, const M2: bool>(
    operator: &'static str,
    isa: Isa,
    samples: &[T],
    window: usize,
    out: &mut [Summary<T::Extreme>],
) -> Result<usize, DspError> {
    let count = check_output(operator, samples.len(), window, out.len())?;
    isa.run(Summaries::<T, M2> {
        samples,
        window,
        out,
    });
    Ok(count)
}

/// Number of full windows.
fn check_output(
    operator: &'static str,
    samples: usize,
    window: usize,
    out: usize,
) -> Result<usize, DspError> {
    match samples.checked_div(window) {
        None => Err(DspError::ZeroWindow { operator }),
        Some(expected) if out < expected => Err(DspError::OutputLength {
            operator,
            expected,
            got: out,
        }),
        Some(count) => Ok(count),
    }
}

struct Summaries<'a, T: Statistic, const M2: bool> {
    samples: &'a [T],
    window: usize,
    out: &'a mut [Summary<T::Extreme>],
}

impl<T: Statistic, const M2: bool> Kernel for Summaries<'_, T, M2> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, level: L) {
        for (window, out) in self.samples.chunks_exact(self.window).zip(self.out) {
            *out = match M2 {
                true => {
                    let mut moments = T::Moments::default();
                    moments.update(level, window);
                    moments.finish()
                }
                false => T::Moments::mean_and_extremes(level, window),
            };
        }
    }
}

/// Summarises a window that arrives in pieces, however cut.
#[derive(Clone, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Accumulator<T: Statistic> {
    moments: T::Moments,
    /// Not stored: each process uses its own.
    #[serde(skip, default = "Isa::best")]
    isa: Isa,
}

impl<T: Statistic> Accumulator<T> {
    /// An empty window, on the best instruction set.
    #[must_use]
    pub fn new() -> Self {
        Self::on(Isa::best())
    }

    /// An empty window on an instruction set; the same bits on all.
    #[must_use]
    pub fn on(isa: Isa) -> Self {
        Self {
            moments: T::Moments::default(),
            isa,
        }
    }

    /// Adds the next samples of the window.
    pub fn push(&mut self, samples: &[T]) {
        self.isa.run(Update::<T> {
            moments: &mut self.moments,
            samples,
        });
    }

    /// Summary so far.
    #[must_use]
    pub fn finish(&self) -> Summary<T::Extreme> {
        self.moments.finish()
    }

    /// Starts a new window.
    pub fn reset(&mut self) {
        self.moments = T::Moments::default();
    }
}

impl<T: Integer + Statistic<Moments = integer::Sums<T>>> Accumulator<T> {
    /// Adds another accumulator's samples; only for bools and integers up to 32 bits, whose sums are exact.
    /// ([`Summary::merge`] rounds.)
    pub fn append(&mut self, other: &Self) {
        self.moments.append(&other.moments);
    }
}

impl<T: Statistic> Default for Accumulator<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Statistic> std::fmt::Debug for Accumulator<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accumulator")
            .field("isa", &self.isa)
            .field("so_far", &self.finish())
            .finish()
    }
}

struct Update<'a, T: Statistic> {
    moments: &'a mut T::Moments,
    samples: &'a [T],
}

impl<T: Statistic> Kernel for Update<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, level: L) {
        self.moments.update(level, self.samples);
    }
}
