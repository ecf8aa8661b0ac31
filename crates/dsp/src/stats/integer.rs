//! Exact sums of integers up to 32 bits.
//!
//! Samples are added in blocks short enough that 64-bit partial sums cannot overflow; totals are
//! 128 bits wide. All of it is exact, so order, chunks and instruction sets cannot matter.

use isochrony_segment::{Bool8, Sample};

use super::{Extreme, Moments, Summary, x86};
use crate::isa::Level;

/// Most samples in a block: below it, kernels may sum 16-bit samples and pairs of 8-bit squares
/// in 32 bits, 16-bit squares and halves of 32-bit squares in 64.
pub(super) const BLOCK: usize = 1 << 15;

/// Exact sums over one block.
#[derive(Clone, Copy)]
pub struct Block<E> {
    pub(super) sum: i64,
    pub(super) squares: u128,
    pub(super) min: E,
    pub(super) max: E,
}

/// An integer sample of at most 32 bits.
pub trait Integer: Sample {
    type Extreme: Extreme + Ord;
    const LOWEST: Self::Extreme;
    const HIGHEST: Self::Extreme;

    /// Sums at most [`BLOCK`] samples. Must be `#[inline(always)]`.
    fn block<L: Level>(level: L, samples: &[Self]) -> Block<Self::Extreme>;
}

/// Sums over a window so far.
#[derive(Clone)]
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

impl<T: Integer> Moments<T> for Sums<T> {
    type Extreme = T::Extreme;

    #[inline(always)]
    fn update<L: Level>(&mut self, level: L, samples: &[T]) {
        for samples in samples.chunks(BLOCK) {
            let block = T::block(level, samples);
            self.count += samples.len() as u64;
            self.sum += i128::from(block.sum);
            self.squares += block.squares;
            self.min = self.min.min(block.min);
            self.max = self.max.max(block.max);
        }
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
}

/// `sum / n`, and `squares - sum^2 / n` without cancellation, from exact integers.
#[inline(always)]
fn mean_and_m2(count: u64, sum: i128, squares: u128) -> (f64, f64) {
    let n = count as f64;
    let mean = sum as f64 / n;
    // By Cauchy and Schwarz sum^2 <= n * squares, so the square fits where the product does.
    if let Ok(small) = u64::try_from(squares)
        && let Some(product) = small.checked_mul(count)
    {
        let magnitude = sum.unsigned_abs() as u64;
        return (mean, (product - magnitude * magnitude) as f64 / n);
    }
    (mean, wide_m2(count, sum, squares))
}

/// M2 in 128 bits. With `sum = q n + r`: `m2 = squares - q (sum + r) - r^2 / n`.
#[cold]
fn wide_m2(count: u64, sum: i128, squares: u128) -> f64 {
    let n = i128::from(count);
    let (q, r) = (sum.div_euclid(n), sum.rem_euclid(n).unsigned_abs());
    // |q| <= 2^32 and |sum + r| < 2^96, so the product fits. It never exceeds `squares`.
    let whole = squares.wrapping_sub((q * (sum + r as i128)) as u128);
    let (part, rest) = (r * r / u128::from(count), r * r % u128::from(count));
    let whole = whole - part;
    match whole.checked_mul(u128::from(count)) {
        Some(product) => (product - rest) as f64 / count as f64,
        // Beyond 2^64, the missing fraction is below half a unit in the last place.
        None => whole as f64,
    }
}

/// Sums in plain loops, which compilers vectorise.
#[inline(always)]
fn plain_block<T: Copy + Ord + Into<i64>>(samples: &[T], lowest: T, highest: T) -> Block<T> {
    let (mut sum, mut low, mut high) = (0i64, 0u64, 0u64);
    let (mut min, mut max) = (highest, lowest);
    for &sample in samples {
        let wide: i64 = sample.into();
        // At most 2^62; halves of it are summed apart so that 2^15 of them cannot overflow.
        let square = (wide * wide) as u64;
        sum += wide;
        low += square & 0xffff_ffff;
        high += square >> 32;
        min = min.min(sample);
        max = max.max(sample);
    }
    Block {
        sum,
        squares: (u128::from(high) << 32) + u128::from(low),
        min,
        max,
    }
}

macro_rules! integer {
    ($($type:ty => $block:expr;)*) => {$(
        impl Integer for $type {
            type Extreme = $type;
            const LOWEST: $type = <$type>::MIN;
            const HIGHEST: $type = <$type>::MAX;

            #[inline(always)]
            fn block<L: Level>(level: L, samples: &[Self]) -> Block<$type> {
                $block(level, samples)
            }
        }
    )*};
}

integer! {
    i8 => |_, samples| plain_block(samples, i8::MIN, i8::MAX);
    u8 => |_, samples| plain_block(samples, u8::MIN, u8::MAX);
    i16 => x86::block_i16;
    u16 => x86::block_u16;
    i32 => |_, samples| plain_block(samples, i32::MIN, i32::MAX);
}

impl Integer for Bool8 {
    type Extreme = u8;
    const LOWEST: u8 = 0;
    const HIGHEST: u8 = 1;

    #[inline(always)]
    fn block<L: Level>(_level: L, samples: &[Self]) -> Block<u8> {
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
