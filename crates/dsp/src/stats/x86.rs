//! Blocks of 16-bit integers with the multiply-add instruction that x86 has for them.

use super::integer::Block;
use crate::isa::Level;

/// Sums a block of signed samples.
#[inline(always)]
pub(super) fn block_i16<L: Level>(_level: L, samples: &[i16]) -> Block<i16> {
    let (mut sum, mut squares) = (0i64, 0u64);
    let (mut min, mut max) = (i16::MAX, i16::MIN);
    for &sample in samples {
        let wide = i32::from(sample);
        sum += i64::from(wide);
        squares += u64::from((wide * wide) as u32);
        min = min.min(sample);
        max = max.max(sample);
    }
    Block {
        sum,
        squares: u128::from(squares),
        min,
        max,
    }
}

/// Sums a block of unsigned samples.
#[inline(always)]
pub(super) fn block_u16<L: Level>(_level: L, samples: &[u16]) -> Block<u16> {
    let (mut sum, mut squares) = (0i64, 0u64);
    let (mut min, mut max) = (u16::MAX, u16::MIN);
    for &sample in samples {
        let wide = u32::from(sample);
        sum += i64::from(wide);
        squares += u64::from(wide * wide);
        min = min.min(sample);
        max = max.max(sample);
    }
    Block {
        sum,
        squares: u128::from(squares),
        min,
        max,
    }
}
