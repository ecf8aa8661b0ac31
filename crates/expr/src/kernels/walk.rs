//! How the walks of a chain run: a loop for each operation and for each two that often follow each other.
//!
//! Invariant: a pointer of [`Part::at`] is that of so many tiles as the part has (or of one that is read for each), in
//! memory that nobody else touches while the chain runs. References are made of it for one operation at a time, so that
//! a walk may leave its result where an operand was.
//!
//! Loops of two operations exist for AVX2 only, which AVX-512 takes, too: they wait for memory as much as for vectors.
//! Each is a function of its own, because a compiler takes minutes over one function with all of them.
#![allow(unsafe_code)] // Results may lie where operands were, which slices cannot say.

use std::marker::PhantomData;

use bytemuck::Pod;
use isochrony_dsp::{Isa, Kernel, Level, TILE_BYTES, Tile};
use isochrony_segment::DType;

use super::chain::{Chain, Code, MOST_BLOCKS, Place, Step, TILES};
use super::map::{samples, samples_mut};

/// Computes whole tiles.
pub(super) fn run(
    chain: &Chain,
    isa: Isa,
    blocks: &[&[u8]; MOST_BLOCKS],
    numbers: &[u8],
    saved: &mut [u8],
    out: &mut [u8],
) {
    match chain.dtype {
        DType::F32 => walks::<f32>(chain, isa, blocks, numbers, saved, out),
        _ => walks::<f64>(chain, isa, blocks, numbers, saved, out),
    }
}

/// A float that chains compute in.
trait Lane: Pod {
    const DTYPE: DType;
    type Memory: Pod + AsRef<[Self]>;

    fn is_nan(self) -> bool;
    /// A block of another dtype from the `first` sample on.
    fn convert(isa: Isa, from: DType, block: &[u8], first: usize, out: &mut [Self]);
    /// Masks as bools.
    fn bools(isa: Isa, masks: &[Self], out: &mut [u8]);
    fn one<A: Apply>(isa: Isa, operands: &Operands<Self::Memory>);
    /// Only where [`Isa::has_avx2`].
    fn two<A: Apply, B: Apply>(isa: Isa, operands: &Operands<Self::Memory>);
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
    ($($float:ident $bits:ident $dtype:ident $tile:ident $len:literal, $($from:ident $type:ident),*;)*) => {$(
        kernels! {
            $(Convert<$type, $float>, |x, out| *out = x as $float;)*
            Masks<$float>, |x, out| *out = $float::from_bits($bits::from(x != 0).wrapping_neg());
            Bools<$float>, |x, out| *out = (x.to_bits() >> ($bits::BITS - 1)) as u8;
        }

        impl Lane for $float {
            const DTYPE: DType = DType::$dtype;
            type Memory = [$float; $len];

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

            fn one<A: Apply>(isa: Isa, operands: &Operands<Self::Memory>) {
                isa.run_narrow(Loop::<$float, A, Nothing>(operands, PhantomData));
            }

            fn two<A: Apply, B: Apply>(isa: Isa, operands: &Operands<Self::Memory>) {
                isa.run_avx2(Loop::<$float, A, B>(operands, PhantomData));
            }
        }

        impl<A: Apply, B: Apply> Kernel for Loop<'_, $float, A, B> {
            type Output = ();

            #[inline(always)]
            fn run<L: Level>(self, level: L) {
                each::<L::$tile, A, B>(level, self.0);
            }
        }
    )*};
}

lanes! {
    f32 u32 F32 F32 64, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, F64 f64;
    f64 u64 F64 F64 32, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, F32 f32;
}

/// A pointer and how far the next tile is.
type Tiles<M> = (*const M, usize);

/// What a loop reads and writes.
struct Operands<M> {
    tiles: usize,
    from: Tiles<M>,
    /// Of both operations, the second one of choices behind the first.
    x: [Tiles<M>; 2],
    y: [Tiles<M>; 2],
    to: *mut M,
}

struct Loop<'a, T: Lane, A, B>(&'a Operands<T::Memory>, PhantomData<(A, B)>);

#[inline(always)]
fn each<V: Tile, A: Apply, B: Apply>(level: V::Level, operands: &Operands<V::Memory>) {
    let Operands {
        tiles,
        from,
        x,
        y,
        to,
    } = *operands;
    for tile in 0..tiles {
        // SAFETY: operands have at least as many tiles, or one if the next is no way off; none of these references
        // lives longer than an operation.
        unsafe {
            let mut acc = V::load(level, &*from.0.add(tile * from.1));
            A::apply(
                &mut acc,
                &*x[0].0.add(tile * x[0].1),
                &*x[1].0.add(tile * x[1].1),
            );
            B::apply(
                &mut acc,
                &*y[0].0.add(tile * y[0].1),
                &*y[1].0.add(tile * y[1].1),
            );
            acc.store(&mut *to.add(tile));
        }
    }
}

/// An operation; `z` is the other operand of a choice.
trait Apply {
    fn apply<V: Tile>(tile: &mut V, x: &V::Memory, z: &V::Memory);
}

macro_rules! operations {
    ($($name:ident |$tile:ident, $x:ident, $z:ident| $apply:expr;)*) => {$(
        struct $name;

        impl Apply for $name {
            #[inline(always)]
            fn apply<V: Tile>($tile: &mut V, $x: &V::Memory, $z: &V::Memory) {
                $apply
            }
        }
    )*};
}

operations! {
    Nothing |_tile, _x, _z| ();
    Add |tile, x, _z| tile.add(x);
    Sub |tile, x, _z| tile.sub(x);
    SubFrom |tile, x, _z| tile.sub_from(x);
    Mul |tile, x, _z| tile.mul(x);
    Div |tile, x, _z| tile.div(x);
    DivInto |tile, x, _z| tile.div_into(x);
    Smaller |tile, x, _z| tile.smaller(x);
    SmallerNumber |tile, x, _z| tile.smaller_number(x);
    SmallerFrom |tile, x, _z| tile.smaller_from(x);
    Larger |tile, x, _z| tile.larger(x);
    LargerNumber |tile, x, _z| tile.larger_number(x);
    LargerFrom |tile, x, _z| tile.larger_from(x);
    Sqrt |tile, _x, _z| tile.sqrt();
    Abs |tile, _x, _z| tile.abs();
    Negate |tile, _x, _z| tile.negate();
    Less |tile, x, _z| tile.less(x);
    LessEqual |tile, x, _z| tile.less_equal(x);
    Greater |tile, x, _z| tile.greater(x);
    GreaterEqual |tile, x, _z| tile.greater_equal(x);
    Equal |tile, x, _z| tile.equal(x);
    NotEqual |tile, x, _z| tile.not_equal(x);
    And |tile, x, _z| tile.and(x);
    Or |tile, x, _z| tile.or(x);
    Xor |tile, x, _z| tile.xor(x);
    Invert |tile, _x, _z| tile.invert();
    Select |tile, x, z| tile.select(x, z);
}

type LoopFn<M> = fn(Isa, &Operands<M>);

/// The loop of one operation.
fn one<T: Lane>(code: Code) -> LoopFn<T::Memory> {
    macro_rules! each {
        ($($name:ident)*) => {
            match code {
                $(Code::$name => T::one::<$name>,)*
                Code::Load | Code::Save => T::one::<Nothing>,
            }
        };
    }
    each!(
        Add Sub SubFrom Mul Div DivInto Smaller SmallerNumber SmallerFrom Larger LargerNumber LargerFrom Sqrt Abs
        Negate Less LessEqual Greater GreaterEqual Equal NotEqual And Or Xor Invert Select
    )
}

/// The loop of two operations, if there is one.
fn two<T: Lane>(first: Code, second: Code) -> Option<LoopFn<T::Memory>> {
    macro_rules! then {
        ($first:ident, $($second:ident)*) => {
            match second {
                $(Code::$second => T::two::<$first, $second>,)*
                _ => return None,
            }
        };
    }
    macro_rules! computes {
        ($($first:ident)*) => {
            match first {
                $(Code::$first => then!(
                    $first,
                    Add Sub SubFrom Mul Div DivInto SmallerNumber LargerNumber Sqrt Abs
                    Less LessEqual Greater GreaterEqual
                ),)*
                Code::Less => then!(Less, Select And Or),
                Code::LessEqual => then!(LessEqual, Select And Or),
                Code::Greater => then!(Greater, Select And Or),
                Code::GreaterEqual => then!(GreaterEqual, Select And Or),
                _ => return None,
            }
        };
    }
    Some(computes!(Add Sub SubFrom Mul Div DivInto SmallerNumber LargerNumber Sqrt Abs))
}

/// Memory of a part of a block.
struct Part<'a, T: Lane> {
    tiles: usize,
    numbers: &'a [T::Memory],
    own: &'a [&'a [T::Memory]; MOST_BLOCKS],
    /// Tile of the blocks that the part begins with.
    first: usize,
    saved: *mut T::Memory,
    /// So many times [`TILES`] are saved.
    rooms: usize,
}

impl<T: Lane> Part<'_, T> {
    fn at(&self, place: Place) -> Tiles<T::Memory> {
        match place {
            Place::Number(at) => (&raw const self.numbers[usize::from(at)], 0),
            Place::Saved(at) => (self.room(usize::from(at)).cast_const(), 1),
            Place::Block(at) => {
                let tiles = &self.own[usize::from(at)][self.first..][..self.tiles];
                (tiles.as_ptr(), 1)
            }
        }
    }

    fn room(&self, at: usize) -> *mut T::Memory {
        assert!(at < self.rooms && self.tiles <= TILES);
        // SAFETY: there are `rooms` times TILES tiles from there on.
        unsafe { self.saved.add(at * TILES) }
    }

    fn walk(&self, isa: Isa, from: Place, first: &Step, second: &Step, to: *mut T::Memory) {
        let mut operands = Operands {
            tiles: self.tiles,
            from: self.at(from),
            x: [self.at(first.x), self.at(first.other)],
            y: [self.at(second.x), self.at(second.other)],
            to,
        };
        if second.code == Code::Load {
            return one::<T>(first.code)(isa, &operands);
        }
        if isa.has_avx2()
            && let Some(both) = two::<T>(first.code, second.code)
        {
            return both(isa, &operands);
        }
        one::<T>(first.code)(isa, &operands);
        operands.from = (to.cast_const(), 1);
        operands.x = operands.y;
        one::<T>(second.code)(isa, &operands);
    }
}

fn walks<T: Lane>(
    chain: &Chain,
    isa: Isa,
    blocks: &[&[u8]; MOST_BLOCKS],
    numbers: &[u8],
    saved: &mut [u8],
    out: &mut [u8],
) {
    let numbers: &[T::Memory] = samples(numbers);
    let saved: &mut [T::Memory] = samples_mut(saved);
    let mut own = [&[][..]; MOST_BLOCKS];
    for ((own, block), &dtype) in own.iter_mut().zip(blocks).zip(&chain.blocks) {
        if dtype == T::DTYPE {
            *own = samples::<T::Memory>(block);
        }
    }
    // Extremes with a number that is not NaN are cheap.
    let refined = |step: &Step| Step {
        code: match (step.code, step.x) {
            (Code::Smaller | Code::Larger, Place::Number(at))
                if numbers[usize::from(at)].as_ref()[0].is_nan() =>
            {
                step.code
            }
            (Code::Smaller, Place::Number(_)) => Code::SmallerNumber,
            (Code::Larger, Place::Number(_)) => Code::LargerNumber,
            (code, _) => code,
        },
        ..*step
    };
    let in_tile = TILE_BYTES / size_of::<T>();
    let bytes = if chain.is_test { in_tile } else { TILE_BYTES };
    let result = chain.saved - 1;
    for (part, out) in out.chunks_mut(TILES * bytes).enumerate() {
        let (tiles, first) = (out.len() / bytes, part * TILES);
        for convert in &chain.converts {
            let into = &mut saved[usize::from(convert.saved) * TILES..][..tiles];
            let block = blocks[usize::from(convert.block)];
            let into = bytemuck::cast_slice_mut(into);
            T::convert(isa, convert.from, block, first * in_tile, into);
        }
        let part = Part::<T> {
            tiles,
            numbers,
            own: &own,
            first,
            rooms: saved.len() / TILES,
            saved: saved.as_mut_ptr(),
        };
        for walk in &chain.walks {
            let to = match walk.to {
                Some(to) => part.room(usize::from(to)),
                None if chain.is_test => part.room(result),
                None => samples_mut::<T::Memory>(out).as_mut_ptr(),
            };
            part.walk(
                isa,
                walk.from,
                &refined(&walk.first),
                &refined(&walk.second),
                to,
            );
        }
        if chain.is_test {
            let masks = &saved[result * TILES..][..tiles];
            T::bools(isa, bytemuck::cast_slice(masks), out);
        }
    }
}
