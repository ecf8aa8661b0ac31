//! Execution of walks, with a loop for each operation and each common pair.
//!
//! Loads and stores cost more than arithmetic, so common loops keep numbers in a register ([`InRegister`]), rarer ones
//! in memory ([`InMemory`]). Planning looks loops up: a lookup costs as much as some tiles.
//!
//! Invariant: a pointer of [`Operands`] has as many tiles (or one, with a stride of zero), which nothing else accesses
//! during the loop. References exist for one tile at a time, so a walk may overwrite its operands.
//!
//! Without AVX2, loops have one operation. Each is its own function: compiling them as one takes minutes.
#![allow(unsafe_code)] // Results may lie where operands were, which slices cannot say.

use std::marker::PhantomData;

use isochrony_dsp::{Isa, Kernel, Level, TILE_BYTES};
use isochrony_segment::DType;

use super::chain::{Chain, MAX_BLOCKS, TILES};
use super::loops::{Apply, Identity, InMemory, Kind, Lane, Operands, each};
use super::map::{Value, samples, samples_mut};
use super::step::Place;

/// 64 samples of eight bytes.
const WIDEST: usize = 2 * TILE_BYTES;

impl Chain {
    /// Blocks have at least `len` samples.
    pub(crate) fn run(
        &self,
        isa: Isa,
        blocks: &[&[u8]; MAX_BLOCKS],
        numbers: &[u8],
        saved: &mut [u8],
        len: usize,
        out: &mut [u8],
    ) {
        let size = if self.is_test { 1 } else { self.dtype.size() };
        let whole = len - len % self.tile();
        let mut parts = [&[][..]; MAX_BLOCKS];
        for ((part, block), dtype) in parts.iter_mut().zip(blocks).zip(&self.blocks) {
            *part = &block[..whole * dtype.size()];
        }
        let (tiles, tail) = out.split_at_mut(whole * size);
        run_tiles(self, isa, &parts, numbers, saved, tiles);
        if whole < len {
            // The last tile, padded.
            let mut rests = [[Value::default(); WIDEST / size_of::<Value>()]; MAX_BLOCKS];
            for ((rest, block), dtype) in rests.iter_mut().zip(blocks).zip(&self.blocks) {
                let left = &block[whole * dtype.size()..len * dtype.size()];
                bytemuck::cast_slice_mut(rest)[..left.len()].copy_from_slice(left);
            }
            let mut parts = [&[][..]; MAX_BLOCKS];
            for ((part, rest), dtype) in parts.iter_mut().zip(&rests).zip(&self.blocks) {
                *part = &bytemuck::cast_slice(rest)[..self.tile() * dtype.size()];
            }
            let mut last = [Value::default(); TILE_BYTES / size_of::<Value>()];
            let last: &mut [u8] = bytemuck::cast_slice_mut(&mut last);
            run_tiles(
                self,
                isa,
                &parts,
                numbers,
                saved,
                &mut last[..self.tile() * size],
            );
            tail.copy_from_slice(&last[..tail.len()]);
        }
    }

    fn tile(&self) -> usize {
        TILE_BYTES / self.dtype.size()
    }
}

fn run_tiles(
    chain: &Chain,
    isa: Isa,
    blocks: &[&[u8]; MAX_BLOCKS],
    numbers: &[u8],
    saved: &mut [u8],
    out: &mut [u8],
) {
    match chain.dtype {
        DType::F32 => walks::<f32>(chain, isa, blocks, numbers, saved, out),
        _ => walks::<f64>(chain, isa, blocks, numbers, saved, out),
    }
}

struct Convert<'a, F, T>(&'a [F], &'a mut [T]);
struct Masks<'a, T>(&'a [u8], &'a mut [T]);
struct Bools<'a, T>(&'a [T], &'a mut [u8]);

macro_rules! kernels {
    ($($kernel:ident<$($of:ty),*>, |$from:ident, $out:ident| $each:expr;)*) => {$(
        impl Kernel for $kernel<'_, $($of),*> {
            type Output = ();

            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn run<L: Level>(self, _level: L) {
                for ($out, &$from) in self.1.iter_mut().zip(self.0) {
                    $each;
                }
            }
        }
    )*};
}

macro_rules! lanes {
    ($($float:ident $bits:ident $dtype:ident $tile:ident, $($from:ident $type:ident),*;)*) => {$(
        kernels! {
            $(Convert<$type, $float>, |x, out| *out = x as $float;)*
            Masks<$float>, |x, out| *out = $float::from_bits($bits::from(x != 0).wrapping_neg());
            Bools<$float>, |x, out| *out = (x.to_bits() >> ($bits::BITS - 1)) as u8;
        }

        impl Lane for $float {
            const DTYPE: DType = DType::$dtype;

            fn is_nan(self) -> bool {
                self != self
            }

            fn convert(isa: Isa, from: DType, block: &[u8], first: usize, out: &mut [Self]) {
                match from {
                    $(DType::$from => isa.run_narrow(Convert::<$type, $float>(&samples(block)[first..], out)),)*
                    _ => isa.run_narrow(Masks(&block[first..], out)),
                }
            }

            fn bools(isa: Isa, masks: &[Self], out: &mut [u8]) {
                isa.run_narrow(Bools(masks, out));
            }

            fn each<A: Apply, X: Kind, B: Apply, Y: Kind, Z: Kind>(isa: Isa, operands: &Operands) {
                if isa.has_avx2() {
                    isa.run_avx2(Loop::<$float, A, X, B, Y, Z>(operands, PhantomData));
                } else if B::IS_OPERATION {
                    // The result may overwrite operands of the second operation.
                    let mut between = [0u64; TILE_BYTES / 8];
                    let to = between.as_mut_ptr().cast();
                    for tile in 0..operands.tiles {
                        let one = operands.tile(tile);
                        Self::plain::<A>(&Operands { to, ..one });
                        let from = (to.cast_const(), 0);
                        Self::plain::<B>(&Operands { from, x: one.y, ..one });
                    }
                } else {
                    Self::plain::<A>(operands);
                }
            }

            fn plain<A: Apply>(operands: &Operands) {
                Isa::BASELINE.run_plain(Loop::<$float, A, InMemory, Identity, InMemory, InMemory>(operands, PhantomData));
            }
        }

        impl<A: Apply, X: Kind, B: Apply, Y: Kind, Z: Kind> Kernel for Loop<'_, $float, A, X, B, Y, Z> {
            type Output = ();

            #[inline(always)]
            fn run<L: Level>(self, level: L) {
                each::<L::$tile, A, X, B, Y, Z>(level.tiles(), self.0);
            }
        }
    )*};
}

lanes! {
    f32 u32 F32 F32, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, F64 f64;
    f64 u64 F64 F64, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, F32 f32;
}

struct Loop<'a, T: Lane, A, X, B, Y, Z>(&'a Operands, PhantomData<(T, A, X, B, Y, Z)>);

struct Part<'a> {
    tiles: usize,
    numbers: &'a [u8],
    blocks: &'a [&'a [u8]; MAX_BLOCKS],
    first: usize,
    saved: *mut u8,
    /// Capacity for saved results, in multiples of [`TILES`].
    rooms: usize,
}

impl Part<'_> {
    fn at(&self, place: Place) -> (*const u8, usize) {
        match place {
            Place::Number(at) => {
                let number = &self.numbers[usize::from(at) * TILE_BYTES..][..TILE_BYTES];
                (number.as_ptr(), 0)
            }
            Place::Saved(at) => (self.room(usize::from(at)).cast_const(), TILE_BYTES),
            Place::Block(at) => {
                let tiles = &self.blocks[usize::from(at)][self.first..][..self.tiles * TILE_BYTES];
                (tiles.as_ptr(), TILE_BYTES)
            }
        }
    }

    fn room(&self, at: usize) -> *mut u8 {
        assert!(at < self.rooms && self.tiles <= TILES);
        // SAFETY: `rooms` times TILES tiles follow.
        unsafe { self.saved.add(at * TILES * TILE_BYTES) }
    }
}

fn walks<T: Lane>(
    chain: &Chain,
    isa: Isa,
    blocks: &[&[u8]; MAX_BLOCKS],
    numbers: &[u8],
    saved: &mut [u8],
    out: &mut [u8],
) {
    for (block, _) in blocks
        .iter()
        .zip(&chain.blocks)
        .filter(|&(_, &of)| of == T::DTYPE)
    {
        // Panics if misaligned.
        let _: &[T] = samples(block);
    }
    if !chain.is_test {
        let _: &[T] = samples(out);
    }
    let is_nan = |&at: &u8| {
        samples::<T>(&numbers[usize::from(at) * TILE_BYTES..][..size_of::<T>()])[0].is_nan()
    };
    let walks = match chain.compared.iter().any(is_nan) {
        true => &chain.careful,
        false => &chain.walks,
    };
    let in_tile = TILE_BYTES / size_of::<T>();
    let bytes = if chain.is_test { in_tile } else { TILE_BYTES };
    let result = chain.saved - 1;
    for (part, out) in out.chunks_mut(TILES * bytes).enumerate() {
        let (tiles, first) = (out.len() / bytes, part * TILES);
        for convert in &chain.converts {
            let into = &mut saved[usize::from(convert.saved) * TILES * TILE_BYTES..];
            let into = samples_mut(&mut into[..tiles * TILE_BYTES]);
            let block = blocks[usize::from(convert.block)];
            T::convert(isa, convert.from, block, first * in_tile, into);
        }
        let part = Part {
            tiles,
            numbers,
            blocks,
            first: first * TILE_BYTES,
            rooms: saved.len() / (TILES * TILE_BYTES),
            saved: saved.as_mut_ptr(),
        };
        for walk in walks {
            let to = match walk.to {
                Some(to) => part.room(usize::from(to)),
                None if chain.is_test => part.room(result),
                None => out.as_mut_ptr(),
            };
            let operands = Operands {
                tiles,
                from: part.at(walk.from),
                x: part.at(walk.x),
                y: part.at(walk.y),
                z: part.at(walk.z),
                to,
            };
            (walk.run)(isa, &operands);
        }
        if chain.is_test {
            let masks = &saved[result * TILES * TILE_BYTES..][..tiles * TILE_BYTES];
            T::bools(isa, samples(masks), out);
        }
    }
}
