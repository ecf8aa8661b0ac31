//! Tiles: 256 bytes of floats in vector registers.
//!
//! Building blocks of operation chains composed at run time. An operand is 256 bytes of memory, or a number in one
//! register. Tiles use AVX2 even with AVX-512, since chains are bound by memory; without AVX2 they are memory. All give
//! the same bits.
//!
//! Masks have all bits of a sample set, or none. Comparisons with NaN hold for "not equal" only.

mod plain;
#[cfg(target_arch = "x86_64")]
mod x86;

use bytemuck::Pod;

pub(crate) use plain::{Plain32, Plain64};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2F32, Avx2F64};

/// Bytes of a tile.
pub const TILE_BYTES: usize = 256;

/// 256 bytes of f32 or f64, created only by [`load`](Self::load), which proves the instructions.
pub trait Tile: Copy {
    /// Proof of its instructions.
    type Level: Copy;
    /// A sample.
    type Scalar: Pod;
    /// A tile in memory: `[f32; 64]` or `[f64; 32]`.
    type Memory: Pod + AsRef<[Self::Scalar]> + AsMut<[Self::Scalar]>;
    /// The other operand.
    type Operand<'a>: Copy;

    /// Loads a tile.
    fn load(level: Self::Level, from: &Self::Memory) -> Self;
    /// An operand in memory.
    fn operand(level: Self::Level, from: &Self::Memory) -> Self::Operand<'_>;
    /// An operand of equal samples, given as memory.
    fn number(level: Self::Level, from: &Self::Memory) -> Self::Operand<'_>;
    /// Stores the tile.
    fn store(&self, to: &mut Self::Memory);

    /// `self + x`.
    fn add(&mut self, x: Self::Operand<'_>);
    /// `self - x`.
    fn sub(&mut self, x: Self::Operand<'_>);
    /// `x - self`.
    fn sub_from(&mut self, x: Self::Operand<'_>);
    /// `self * x`.
    fn mul(&mut self, x: Self::Operand<'_>);
    /// `self / x`.
    fn div(&mut self, x: Self::Operand<'_>);
    /// `x / self`.
    fn div_into(&mut self, x: Self::Operand<'_>);

    /// Minimum: `x` if smaller or NaN.
    fn smaller(&mut self, x: Self::Operand<'_>);
    /// Minimum for an `x` without NaN: one instruction.
    fn smaller_number(&mut self, x: Self::Operand<'_>);
    /// Minimum: `x` unless `self` is smaller or NaN.
    fn smaller_from(&mut self, x: Self::Operand<'_>);
    /// Maximum: `x` if larger or NaN.
    fn larger(&mut self, x: Self::Operand<'_>);
    /// Maximum for an `x` without NaN: one instruction.
    fn larger_number(&mut self, x: Self::Operand<'_>);
    /// Maximum: `x` unless `self` is larger or NaN.
    fn larger_from(&mut self, x: Self::Operand<'_>);

    /// Square root.
    fn sqrt(&mut self);
    /// Magnitude.
    fn abs(&mut self);
    /// Negation.
    fn negate(&mut self);

    /// Mask of `self < x`.
    fn less(&mut self, x: Self::Operand<'_>);
    /// Mask of `self <= x`.
    fn less_equal(&mut self, x: Self::Operand<'_>);
    /// Mask of `self > x`.
    fn greater(&mut self, x: Self::Operand<'_>);
    /// Mask of `self >= x`.
    fn greater_equal(&mut self, x: Self::Operand<'_>);
    /// Mask of `self == x`.
    fn equal(&mut self, x: Self::Operand<'_>);
    /// Mask of `self != x`.
    fn not_equal(&mut self, x: Self::Operand<'_>);

    /// Bitwise and.
    fn and(&mut self, x: Self::Operand<'_>);
    /// Bitwise or.
    fn or(&mut self, x: Self::Operand<'_>);
    /// Bitwise exclusive or.
    fn xor(&mut self, x: Self::Operand<'_>);
    /// Bitwise not.
    fn invert(&mut self);
    /// `yes` where the mask is set, else `no`.
    fn select(&mut self, yes: Self::Operand<'_>, no: Self::Operand<'_>);
}
