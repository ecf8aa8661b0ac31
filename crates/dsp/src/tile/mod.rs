//! Tiles: 256 bytes of floats that stay in vector registers from one operation to the next.
//!
//! An operation takes a tile and another operand, sample by sample: what a chain of operations is made of that are
//! chosen at run time. The other operand is 256 bytes of memory, or a number for all samples, which stays in one
//! register. Tiles are in the vectors of AVX2, also where there is AVX-512: what chains wait for is memory. Without
//! AVX2 a tile is memory, and operations are plain loops. All of them give the same bits.
//!
//! What compares leaves masks: all bits of a sample set where the comparison holds, none where it does not. Comparisons
//! with NaN hold for "not equal" only.

mod plain;
#[cfg(target_arch = "x86_64")]
mod x86;

use bytemuck::Pod;

pub(crate) use plain::{Plain32, Plain64};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2F32, Avx2F64};

/// Bytes of a tile.
pub const TILE_BYTES: usize = 256;

/// 256 bytes of f32 or f64. Only [`load`](Self::load) makes one, so that its instructions are those of a CPU that has
/// them.
pub trait Tile: Copy {
    /// Proof that its instructions may be used.
    type Level: Copy;
    /// A sample.
    type Number: Pod;
    /// A tile in memory: `[f32; 64]` or `[f64; 32]`.
    type Memory: Pod + AsRef<[Self::Number]> + AsMut<[Self::Number]>;
    /// The other operand.
    type Operand<'a>: Copy;

    /// Takes a tile from memory.
    fn load(level: Self::Level, from: &Self::Memory) -> Self;
    /// An operand that lies in memory.
    fn operand(level: Self::Level, from: &Self::Memory) -> Self::Operand<'_>;
    /// An operand of samples that are all alike, written out.
    fn number(level: Self::Level, from: &Self::Memory) -> Self::Operand<'_>;
    /// Puts it into memory.
    fn store(&self, to: &mut Self::Memory);

    /// Adds.
    fn add(&mut self, x: Self::Operand<'_>);
    /// Subtracts `x`.
    fn sub(&mut self, x: Self::Operand<'_>);
    /// Is subtracted from `x`.
    fn sub_from(&mut self, x: Self::Operand<'_>);
    /// Multiplies.
    fn mul(&mut self, x: Self::Operand<'_>);
    /// Divides by `x`.
    fn div(&mut self, x: Self::Operand<'_>);
    /// Divides `x`.
    fn div_into(&mut self, x: Self::Operand<'_>);

    /// `x` where it is smaller or NaN.
    fn smaller(&mut self, x: Self::Operand<'_>);
    /// The same where nothing in `x` is NaN: one instruction.
    fn smaller_number(&mut self, x: Self::Operand<'_>);
    /// `x` unless the tile's sample is smaller or NaN.
    fn smaller_from(&mut self, x: Self::Operand<'_>);
    /// `x` where it is larger or NaN.
    fn larger(&mut self, x: Self::Operand<'_>);
    /// The same where nothing in `x` is NaN: one instruction.
    fn larger_number(&mut self, x: Self::Operand<'_>);
    /// `x` unless the tile's sample is larger or NaN.
    fn larger_from(&mut self, x: Self::Operand<'_>);

    /// Square root.
    fn sqrt(&mut self);
    /// Magnitude.
    fn abs(&mut self);
    /// Changes the sign.
    fn negate(&mut self);

    /// Mask of what is less than `x`.
    fn less(&mut self, x: Self::Operand<'_>);
    /// Mask of what is less than `x` or equal to it.
    fn less_equal(&mut self, x: Self::Operand<'_>);
    /// Mask of what is greater than `x`.
    fn greater(&mut self, x: Self::Operand<'_>);
    /// Mask of what is greater than `x` or equal to it.
    fn greater_equal(&mut self, x: Self::Operand<'_>);
    /// Mask of what equals `x`.
    fn equal(&mut self, x: Self::Operand<'_>);
    /// Mask of what does not equal `x`.
    fn not_equal(&mut self, x: Self::Operand<'_>);

    /// Bits that both have.
    fn and(&mut self, x: Self::Operand<'_>);
    /// Bits that either has.
    fn or(&mut self, x: Self::Operand<'_>);
    /// Bits that one of them has.
    fn xor(&mut self, x: Self::Operand<'_>);
    /// All other bits.
    fn invert(&mut self);
    /// A mask becomes `yes` where it is set, `no` elsewhere.
    fn select(&mut self, yes: Self::Operand<'_>, no: Self::Operand<'_>);
}
