//! Summaries of windows.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Type of minimum and maximum.
pub trait Extreme:
    Copy
    + PartialOrd
    + PartialEq
    + fmt::Debug
    + Default
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Without finite samples: NaN, or zero for integers.
    const NONE: Self;

    /// Conversion to f64; 64-bit integers are rounded to nearest.
    fn to_f64(self) -> f64;
}

macro_rules! extreme {
    ($($type:ty => $none:expr;)*) => {$(
        impl Extreme for $type {
            const NONE: Self = $none;

            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

extreme! {
    i8 => 0;
    i16 => 0;
    i32 => 0;
    i64 => 0;
    u8 => 0;
    u16 => 0;
    u32 => 0;
    f32 => Self::NAN;
    f64 => Self::NAN;
}

/// Minimum, maximum, count, mean and M2 of a window's finite samples.
///
/// Without any, `count` and `m2` are zero, `mean` is NaN and extremes are [`Extreme::NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary<E> {
    /// Smallest finite sample.
    pub min: E,
    /// Largest finite sample.
    pub max: E,
    /// Finite samples.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sum of squared deviations from the mean.
    pub m2: f64,
}

impl<E: Extreme> Summary<E> {
    /// Summary of no samples.
    pub const EMPTY: Self = Self {
        min: E::NONE,
        max: E::NONE,
        count: 0,
        mean: f64::NAN,
        m2: 0.0,
    };

    /// Population variance; NaN without samples.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.m2 / self.count as f64
    }

    /// Population standard deviation, as NumPy's `std`; NaN without samples.
    #[must_use]
    pub fn std(&self) -> f64 {
        self.variance().sqrt()
    }

    /// Root mean square; NaN without samples.
    #[must_use]
    pub fn rms(&self) -> f64 {
        (self.variance() + self.mean * self.mean).sqrt()
    }

    /// Merges with a later window (Chan, Golub and LeVeque 1979, equations 2.1). Not associative to the last bit: merge
    /// in index order.
    #[must_use]
    pub fn merge(&self, later: &Self) -> Self {
        if self.count == 0 {
            return *later;
        }
        if later.count == 0 {
            return *self;
        }
        let count = self.count + later.count;
        let (a, b, n) = (self.count as f64, later.count as f64, count as f64);
        let delta = later.mean - self.mean;
        Self {
            min: if later.min < self.min {
                later.min
            } else {
                self.min
            },
            max: if later.max > self.max {
                later.max
            } else {
                self.max
            },
            count,
            mean: self.mean + delta * (b / n),
            m2: (self.m2 + later.m2) + delta * delta * (a * (b / n)),
        }
    }
}

impl<E: Extreme> Default for Summary<E> {
    fn default() -> Self {
        Self::EMPTY
    }
}
