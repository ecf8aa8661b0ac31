//! Tiles: 256 bytes of floats that stay in vector registers from one operation to the next.
//!
//! An operation takes a tile and 256 bytes of memory, sample by sample: what a chain of operations is made of that are
//! chosen at run time. Each level has tiles of its own; where it has no vectors of its own here, a tile is memory and
//! operations are plain loops. All of them give the same bits.
//!
//! What compares leaves masks: all bits of a sample set where the comparison holds, none where it does not. Comparisons
//! with NaN hold for "not equal" only.

mod plain;
#[cfg(target_arch = "x86_64")]
mod x86;

use bytemuck::Pod;

use crate::isa::Level;

pub(crate) use plain::{Plain32, Plain64};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2F32, Avx2F64, Avx512F32, Avx512F64};

/// Bytes of a tile.
pub const TILE_BYTES: usize = 256;

/// 256 bytes of f32 or f64. Only [`load`](Self::load) makes one, so that its instructions are those of a CPU that has
/// them.
pub trait Tile: Copy {
    /// The level that it belongs to.
    type Level: Level;
    /// A sample.
    type Number: Pod;
    /// A tile in memory: `[f32; 64]` or `[f64; 32]`.
    type Memory: Pod + AsRef<[Self::Number]> + AsMut<[Self::Number]>;

    /// Takes a tile from memory.
    fn load(level: Self::Level, from: &Self::Memory) -> Self;
    /// Puts it into memory.
    fn store(&self, to: &mut Self::Memory);

    /// Adds.
    fn add(&mut self, x: &Self::Memory);
    /// Subtracts `x`.
    fn sub(&mut self, x: &Self::Memory);
    /// Is subtracted from `x`.
    fn sub_from(&mut self, x: &Self::Memory);
    /// Multiplies.
    fn mul(&mut self, x: &Self::Memory);
    /// Divides by `x`.
    fn div(&mut self, x: &Self::Memory);
    /// Divides `x`.
    fn div_into(&mut self, x: &Self::Memory);

    /// `x` where it is smaller or NaN.
    fn smaller(&mut self, x: &Self::Memory);
    /// The same where nothing in `x` is NaN: one instruction.
    fn smaller_number(&mut self, x: &Self::Memory);
    /// `x` unless the tile's sample is smaller or NaN.
    fn smaller_from(&mut self, x: &Self::Memory);
    /// `x` where it is larger or NaN.
    fn larger(&mut self, x: &Self::Memory);
    /// The same where nothing in `x` is NaN: one instruction.
    fn larger_number(&mut self, x: &Self::Memory);
    /// `x` unless the tile's sample is larger or NaN.
    fn larger_from(&mut self, x: &Self::Memory);

    /// Square root.
    fn sqrt(&mut self);
    /// Magnitude.
    fn abs(&mut self);
    /// Changes the sign.
    fn negate(&mut self);

    /// Mask of what is less than `x`.
    fn less(&mut self, x: &Self::Memory);
    /// Mask of what is less than `x` or equal to it.
    fn less_equal(&mut self, x: &Self::Memory);
    /// Mask of what is greater than `x`.
    fn greater(&mut self, x: &Self::Memory);
    /// Mask of what is greater than `x` or equal to it.
    fn greater_equal(&mut self, x: &Self::Memory);
    /// Mask of what equals `x`.
    fn equal(&mut self, x: &Self::Memory);
    /// Mask of what does not equal `x`.
    fn not_equal(&mut self, x: &Self::Memory);

    /// Bits that both have.
    fn and(&mut self, x: &Self::Memory);
    /// Bits that either has.
    fn or(&mut self, x: &Self::Memory);
    /// Bits that one of them has.
    fn xor(&mut self, x: &Self::Memory);
    /// All other bits.
    fn invert(&mut self);
    /// A mask becomes `yes` where it is set, `no` elsewhere.
    fn select(&mut self, yes: &Self::Memory, no: &Self::Memory);
}
