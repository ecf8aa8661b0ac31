//! Exact sums of integers up to 32 bits.
//!
//! Block sums fit 64 bits, totals 128: order, chunks and instruction sets do not matter.

use isochrony_segment::{Bool8, Sample};
use serde::{Deserialize, Serialize};

use super::block::Block;
#[cfg(target_arch = "x86_64")]
use super::x86::{block_i8, block_i16, block_u8, block_u16, powers_i16, powers_u16};
use super::{Extreme, Moments, Summary};
use crate::isa::Level;

/// 16-bit samples and pairs of 8-bit squares may be summed in 32 bits, 16-bit squares and halves of 32-bit squares in
/// 64.
pub(super) const BLOCK: usize = 1 << 15;

/// An integer sample of at most 32 bits.
pub trait Integer: Sample {
    /// Type of minimum and maximum.
    type Extreme: Extreme + Ord;
    /// Lower bound.
    const LOWEST: Self::Extreme;
    /// Upper bound.
    const HIGHEST: Self::Extreme;

    /// Sums at most `BLOCK` samples; without `SQUARES` the sum of squares is unspecified. Must be `#[inline(always)]`.
    fn block<L: Level, const SQUARES: bool>(level: L, samples: &[Self]) -> Block<Self::Extreme>;

    /// Sum and sum of squares of at most `BLOCK` samples. Must be `#[inline(always)]`.
    #[inline(always)]
    fn powers<L: Level>(level: L, samples: &[Self]) -> (i64, u128) {
        let block = Self::block::<L, true>(level, samples);
        (block.sum, block.squares)
    }
}

/// Sums of a window.
#[derive(Clone, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Sums<T: Integer> {
    count: u64,
    sum: i128,
    squares: u128,
    min: T::Extreme,
    max: T::Extreme,
}

impl<T: Integer> Default for Sums<T> {
    fn default() -> Self {
        Self {
            count: 0,
            sum: 0,
            squares: 0,
            min: T::HIGHEST,
            max: T::LOWEST,
        }
    }
}

impl<T: Integer> Sums<T> {
    pub(super) fn append(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    #[inline(always)]
    fn add<L: Level, const SQUARES: bool>(&mut self, level: L, samples: &[T]) {
        for samples in samples.chunks(BLOCK) {
            let block = T::block::<L, SQUARES>(level, samples);
            self.count += samples.len() as u64;
            self.sum += i128::from(block.sum);
            self.squares += block.squares;
            self.min = self.min.min(block.min);
            self.max = self.max.max(block.max);
        }
    }
}

impl<T: Integer> Moments<T> for Sums<T> {
    type Extreme = T::Extreme;

    #[inline(always)]
    fn update<L: Level>(&mut self, level: L, samples: &[T]) {
        self.add::<L, true>(level, samples);
    }

    #[inline(always)]
    fn finish(&self) -> Summary<T::Extreme> {
        if self.count == 0 {
            return Summary::EMPTY;
        }
        let (mean, m2) = mean_and_m2(self.count, self.sum, self.squares);
        Summary {
            min: self.min,
            max: self.max,
            count: self.count,
            mean,
            m2,
        }
    }

    #[inline(always)]
    fn mean_and_extremes<L: Level>(level: L, samples: &[T]) -> Summary<T::Extreme> {
        let mut sums = Self::default();
        sums.add::<L, false>(level, samples);
        if sums.count == 0 {
            return Summary::EMPTY;
        }
        Summary {
            min: sums.min,
            max: sums.max,
            count: sums.count,
            mean: nearest(sums.sum) / sums.count as f64,
            m2: f64::NAN,
        }
    }
}

/// Converting 128 bits is a call, which a compiler would also make where 64 bits suffice.
#[inline(always)]
fn nearest(sum: i128) -> f64 {
    #[cold]
    #[inline(never)]
    fn of_wide(sum: i128) -> f64 {
        sum as f64
    }
    i64::try_from(sum).map_or_else(|_| of_wide(sum), |sum| sum as f64)
}

/// `sum / n`, and `squares - sum^2 / n` without cancellation.
#[inline(always)]
pub(super) fn mean_and_m2(count: u64, sum: i128, squares: u128) -> (f64, f64) {
    let n = count as f64;
    let mean = nearest(sum) / n;
    // By Cauchy-Schwarz sum^2 <= n * squares: the square fits if the product does.
    if let Ok(small) = u64::try_from(squares)
        && let Some(product) = small.checked_mul(count)
    {
        let magnitude = sum.unsigned_abs() as u64;
        return (mean, (product - magnitude * magnitude) as f64 / n);
    }
    (mean, wide_m2(count, sum, squares))
}

/// With `sum = q n + r`, `m2 = squares - q (sum + r) - r^2 / n`.
#[cold]
fn wide_m2(count: u64, sum: i128, squares: u128) -> f64 {
    let n = i128::from(count);
    let (q, r) = (sum.div_euclid(n), sum.rem_euclid(n).unsigned_abs());
    // |q| <= 2^32 and |sum + r| < 2^96: the product fits, and never exceeds `squares`.
    let whole = squares.wrapping_sub((q * (sum + r as i128)) as u128);
    let (part, rest) = (r * r / u128::from(count), r * r % u128::from(count));
    let whole = whole - part;
    match whole.checked_mul(u128::from(count)) {
        Some(product) => (product - rest) as f64 / count as f64,
        // The fraction is below half a unit in the last place.
        None => whole as f64,
    }
}

#[inline(always)]
fn block_of_32_bits<L: Level, const SQUARES: bool, T>(_level: L, samples: &[T]) -> Block<T>
where
    T: Integer<Extreme = T> + Ord + Into<i64>,
{
    /// 2^10 squares of smaller magnitudes fit 64 bits.
    const NARROW: i64 = 1 << 26;
    let mut block = Block {
        sum: 0,
        squares: 0,
        min: T::HIGHEST,
        max: T::LOWEST,
    };
    for samples in samples.chunks(1 << 10) {
        let (mut min, mut max) = (T::HIGHEST, T::LOWEST);
        for &sample in samples {
            min = min.min(sample);
            max = max.max(sample);
        }
        block.min = block.min.min(min);
        block.max = block.max.max(max);
        let (mut sum, mut low, mut high) = (0, 0u64, 0u64);
        if !SQUARES {
            sum = samples.iter().map(|&sample| sample.into()).sum();
        } else if -NARROW <= min.into() && max.into() <= NARROW {
            for &sample in samples {
                let wide: i64 = sample.into();
                sum += wide;
                low += (wide * wide) as u64;
            }
        } else {
            for &sample in samples {
                let wide: i64 = sample.into();
                // Below 2^64, also for unsigned samples.
                let square = wide.wrapping_mul(wide) as u64;
                sum += wide;
                low += square & 0xffff_ffff;
                high += square >> 32;
            }
        }
        block.sum += sum;
        block.squares += (u128::from(high) << 32) + u128::from(low);
    }
    block
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn plain_block<L: Level, const SQUARES: bool, T>(_level: L, samples: &[T]) -> Block<T>
where
    T: Integer<Extreme = T> + Ord + Into<i32>,
{
    let (mut sum, mut squares) = (0i64, 0u64);
    let (mut min, mut max) = (T::HIGHEST, T::LOWEST);
    for &sample in samples {
        let wide: i32 = sample.into();
        sum += i64::from(wide);
        if SQUARES {
            squares += u64::from(wide.unsigned_abs() * wide.unsigned_abs());
        }
        min = min.min(sample);
        max = max.max(sample);
    }
    Block {
        sum,
        squares: squares.into(),
        min,
        max,
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn plain_powers<L: Level, T: Copy + Into<i32>>(_level: L, samples: &[T]) -> (i64, u128) {
    let (mut sum, mut squares) = (0i64, 0u64);
    for &sample in samples {
        let wide: i32 = sample.into();
        sum += i64::from(wide);
        squares += u64::from(wide.unsigned_abs() * wide.unsigned_abs());
    }
    (sum, squares.into())
}

macro_rules! integer {
    ($($type:ty => $block:expr $(, $powers:expr)?;)*) => {$(
        impl Integer for $type {
            type Extreme = $type;
            const LOWEST: $type = <$type>::MIN;
            const HIGHEST: $type = <$type>::MAX;

            #[inline(always)]
            fn block<L: Level, const SQUARES: bool>(level: L, samples: &[Self]) -> Block<$type> {
                $block(level, samples)
            }

            $(
                #[inline(always)]
                fn powers<L: Level>(level: L, samples: &[Self]) -> (i64, u128) {
                    $powers(level, samples)
                }
            )?
        }
    )*};
}

integer! {
    i8 => block_i8::<L, SQUARES>;
    u8 => block_u8::<L, SQUARES>;
    i16 => block_i16::<L, SQUARES>, powers_i16;
    u16 => block_u16::<L, SQUARES>, powers_u16;
    i32 => block_of_32_bits::<L, SQUARES, i32>;
    u32 => block_of_32_bits::<L, SQUARES, u32>;
}

#[cfg(not(target_arch = "x86_64"))]
macro_rules! plain_blocks {
    ($($name:ident: $type:ty;)*) => {$(
        #[inline(always)]
        fn $name<L: Level, const SQUARES: bool>(level: L, samples: &[$type]) -> Block<$type> {
            plain_block::<L, SQUARES, $type>(level, samples)
        }
    )*};
}

#[cfg(not(target_arch = "x86_64"))]
plain_blocks! {
    block_i8: i8;
    block_u8: u8;
    block_i16: i16;
    block_u16: u16;
}

#[cfg(not(target_arch = "x86_64"))]
use plain_powers as powers_i16;
#[cfg(not(target_arch = "x86_64"))]
use plain_powers as powers_u16;

impl Integer for Bool8 {
    type Extreme = u8;
    const LOWEST: u8 = 0;
    const HIGHEST: u8 = 1;

    #[inline(always)]
    fn block<L: Level, const SQUARES: bool>(_level: L, samples: &[Self]) -> Block<u8> {
        let mut count = 0u64;
        for samples in samples.chunks(255) {
            let ones: u8 = samples.iter().map(|s| u8::from(s.get())).sum();
            count += u64::from(ones);
        }
        Block {
            sum: count as i64,
            squares: u128::from(count),
            min: u8::from(count == samples.len() as u64),
            max: u8::from(count > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Alternating `a` and `b`, `half` of each: M2 is `half * (a - b)^2 / 2`.
    #[test]
    fn sums_beyond_64_bits_stay_exact() {
        for half in [1u64 << 20, 1 << 33, (1 << 40) + 1, 1 << 46] {
            for (a, b) in [(i32::MIN, i32::MAX), (i32::MAX, i32::MAX - 1), (-5, 7)] {
                let (a, b) = (i128::from(a), i128::from(b));
                let sum = (a + b) * i128::from(half);
                let squares = (a * a + b * b) as u128 * u128::from(half);
                let (mean, m2) = mean_and_m2(2 * half, sum, squares);
                assert_eq!(mean, (a + b) as f64 / 2.0);
                let want = half as f64 * ((a - b) * (a - b)) as f64 / 2.0;
                assert!((m2 - want).abs() <= want * f64::EPSILON, "{m2} {want}");
                assert_eq!(wide_m2(2 * half, sum, squares), m2);
            }
        }
    }

    #[test]
    fn one_outlier_among_many_samples_counts() {
        // n - 1 zeros and a one: m2 = 1 - 1/n shows cancellation.
        for n in [3u64, 1 << 31, (1 << 52) - 1] {
            let (_, m2) = mean_and_m2(n, 1, 1);
            assert_eq!(m2, (n - 1) as f64 / n as f64);
            assert_eq!(wide_m2(n, 1, 1), m2);
        }
    }
}
