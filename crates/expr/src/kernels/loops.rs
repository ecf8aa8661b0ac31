//! Loops over tiles for combinations of operations and operand locations.

#![allow(unsafe_code)] // Results may lie where operands were, which slices cannot say.

use bytemuck::Pod;
use isochrony_dsp::{Isa, TILE_BYTES, Tile};
use isochrony_segment::DType;

use super::step::{Code, Place, Step};

/// Pointers to tiles, with strides in bytes.
pub(super) struct Operands {
    pub(super) tiles: usize,
    pub(super) from: (*const u8, usize),
    pub(super) x: (*const u8, usize),
    pub(super) y: (*const u8, usize),
    /// Second operand of a selection.
    pub(super) z: (*const u8, usize),
    pub(super) to: *mut u8,
}

impl Operands {
    pub(super) fn tile(&self, tile: usize) -> Self {
        let at = |of: (*const u8, usize)| (of.0.wrapping_add(tile * of.1), of.1);
        Self {
            tiles: 1,
            from: at(self.from),
            x: at(self.x),
            y: at(self.y),
            z: at(self.z),
            to: self.to.wrapping_add(tile * TILE_BYTES),
        }
    }
}

pub(super) type LoopFn = fn(Isa, &Operands);

pub(super) trait Kind {
    type Held<'a, V: Tile + 'a>: Copy;

    /// Loaded before the loop.
    ///
    /// # Safety
    /// There is a tile, which is not written while the result lives.
    unsafe fn hold<'a, V: Tile + 'a>(level: V::Level, at: *const V::Memory) -> Self::Held<'a, V>;

    /// The operand of a tile.
    ///
    /// # Safety
    /// There is a tile, which is not written while the result lives.
    unsafe fn of<'a, V: Tile + 'a>(
        level: V::Level,
        held: Self::Held<'a, V>,
        at: *const V::Memory,
    ) -> V::Operand<'a>;
}

/// An operand held in a register.
pub(super) struct InRegister;

/// An operand read from memory.
pub(super) struct InMemory;

impl Kind for InRegister {
    type Held<'a, V: Tile + 'a> = V::Operand<'a>;

    #[inline(always)]
    unsafe fn hold<'a, V: Tile + 'a>(level: V::Level, at: *const V::Memory) -> V::Operand<'a> {
        // SAFETY: by the caller's contract.
        V::number(level, unsafe { &*at })
    }

    #[inline(always)]
    unsafe fn of<'a, V: Tile + 'a>(
        _level: V::Level,
        held: V::Operand<'a>,
        _at: *const V::Memory,
    ) -> V::Operand<'a> {
        held
    }
}

impl Kind for InMemory {
    type Held<'a, V: Tile + 'a> = ();

    #[inline(always)]
    unsafe fn hold<'a, V: Tile + 'a>(_level: V::Level, _at: *const V::Memory) {}

    #[inline(always)]
    unsafe fn of<'a, V: Tile + 'a>(
        level: V::Level,
        _held: (),
        at: *const V::Memory,
    ) -> V::Operand<'a> {
        // SAFETY: by the caller's contract.
        V::operand(level, unsafe { &*at })
    }
}

#[inline(always)]
pub(super) fn each<V: Tile, A: Apply, X: Kind, B: Apply, Y: Kind, Z: Kind>(
    level: V::Level,
    operands: &Operands,
) {
    let Operands {
        tiles,
        from,
        x,
        y,
        z,
        to,
    } = *operands;
    // SAFETY: operands have as many tiles, or one and a stride of zero; numbers are never written; no other reference
    // outlives an operation. Bytes are aligned to cache lines, or to samples of a block.
    unsafe {
        let at = |of: (*const u8, usize), tile: usize| of.0.add(tile * of.1).cast::<V::Memory>();
        let held = (
            X::hold::<V>(level, at(x, 0)),
            Y::hold::<V>(level, at(y, 0)),
            Z::hold::<V>(level, at(z, 0)),
        );
        for tile in 0..tiles {
            let mut acc = V::load(level, &*at(from, tile));
            A::apply(
                &mut acc,
                X::of::<V>(level, held.0, at(x, tile)),
                Z::of::<V>(level, held.2, at(z, tile)),
            );
            if B::IS_OPERATION {
                B::apply(
                    &mut acc,
                    Y::of::<V>(level, held.1, at(y, tile)),
                    Z::of::<V>(level, held.2, at(z, tile)),
                );
            }
            acc.store(&mut *to.add(tile * TILE_BYTES).cast::<V::Memory>());
        }
    }
}

/// `z` is the other operand of a selection.
pub(super) trait Apply {
    /// False for [`Identity`].
    const IS_OPERATION: bool = true;

    fn apply<V: Tile>(tile: &mut V, x: V::Operand<'_>, z: V::Operand<'_>);
}

/// Leaves the accumulator unchanged.
pub(super) struct Identity;

impl Apply for Identity {
    const IS_OPERATION: bool = false;

    #[inline(always)]
    fn apply<V: Tile>(_tile: &mut V, _x: V::Operand<'_>, _z: V::Operand<'_>) {}
}

macro_rules! operations {
    ($($name:ident |$tile:ident, $x:ident, $z:ident| $apply:expr;)*) => {$(
        struct $name;

        impl Apply for $name {
            #[inline(always)]
            fn apply<V: Tile>($tile: &mut V, $x: V::Operand<'_>, $z: V::Operand<'_>) {
                $apply
            }
        }
    )*};
}

operations! {
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

/// A float dtype of chains, and its loops, which `walk.rs` compiles.
pub(super) trait Lane: Pod {
    const DTYPE: DType;

    fn is_nan(self) -> bool;
    fn convert(isa: Isa, from: DType, block: &[u8], first: usize, out: &mut [Self]);
    /// Masks as bools.
    fn bools(isa: Isa, masks: &[Self], out: &mut [u8]);
    /// Loop of two operations; without AVX2, of the first one.
    fn each<A: Apply, X: Kind, B: Apply, Y: Kind, Z: Kind>(isa: Isa, operands: &Operands);
    fn plain<A: Apply>(operands: &Operands);
}

fn is_number(place: Place) -> bool {
    matches!(place, Place::Number(_))
}

pub(super) fn one(dtype: DType, step: &Step) -> LoopFn {
    match dtype {
        DType::F32 => one_of::<f32>(step),
        _ => one_of::<f64>(step),
    }
}

pub(super) fn two(dtype: DType, first: &Step, second: &Step) -> Option<LoopFn> {
    match dtype {
        DType::F32 => two_of::<f32>(first, second),
        _ => two_of::<f64>(first, second),
    }
}

fn one_of<T: Lane>(step: &Step) -> LoopFn {
    macro_rules! any {
        ($($name:ident)*) => {
            match step.code {
                $(Code::$name => T::each::<$name, InMemory, Identity, InMemory, InMemory>,)*
                Code::Load | Code::Save => T::each::<Identity, InMemory, Identity, InMemory, InMemory>,
            }
        };
    }
    macro_rules! number {
        ($($name:ident)*) => {
            match step.code {
                $(Code::$name => return T::each::<$name, InRegister, Identity, InMemory, InMemory>,)*
                _ => {}
            }
        };
    }
    if is_number(step.x) {
        number!(Add Sub SubFrom Mul Div DivInto SmallerNumber LargerNumber);
        number!(Less LessEqual Greater GreaterEqual);
    }
    any!(
        Add Sub SubFrom Mul Div DivInto Smaller SmallerNumber SmallerFrom Larger LargerNumber LargerFrom Sqrt Abs
        Negate Less LessEqual Greater GreaterEqual Equal NotEqual And Or Xor Invert Select
    )
}

fn two_of<T: Lane>(first: &Step, second: &Step) -> Option<LoopFn> {
    macro_rules! pairs {
        ($x:ident $y:ident, [$($first:ident)*], $seconds:tt) => {
            match first.code {
                $(Code::$first => pairs!(@ $first, $x $y, $seconds),)*
                _ => None,
            }
        };
        (@ $first:ident, $x:ident $y:ident, [$($second:ident)*]) => {
            match second.code {
                $(Code::$second => Some(T::each::<$first, $x, $second, $y, InMemory> as LoopFn),)*
                _ => None,
            }
        };
    }
    macro_rules! chosen {
        ($($first:ident)*) => {
            match first.code {
                $(Code::$first => Some(match (is_number(second.x), is_number(second.other)) {
                    (true, true) => T::each::<$first, InRegister, Select, InRegister, InRegister> as LoopFn,
                    (true, false) => T::each::<$first, InRegister, Select, InRegister, InMemory>,
                    (false, true) => T::each::<$first, InRegister, Select, InMemory, InRegister>,
                    (false, false) => T::each::<$first, InRegister, Select, InMemory, InMemory>,
                }),)*
                _ => None,
            }
        };
    }
    let alone = |code| matches!(code, Code::Sqrt | Code::Abs);
    let x = is_number(first.x) || alone(first.code);
    let y = is_number(second.x) || alone(second.code);
    if second.code == Code::Select {
        return x.then(|| chosen!(Less LessEqual Greater GreaterEqual))?;
    }
    match (x, y) {
        (true, true) => pairs!(
            InRegister InRegister,
            [Add Sub Mul Div SmallerNumber LargerNumber Sqrt Abs],
            [Add Sub Mul Div SmallerNumber LargerNumber Abs Less LessEqual Greater GreaterEqual]
        ),
        (false, true) => pairs!(
            InMemory InRegister,
            [Add Sub Mul],
            [Add Sub Mul SmallerNumber LargerNumber Less LessEqual Greater GreaterEqual]
        ),
        (true, false) => pairs!(
            InRegister InMemory,
            [Add Sub Mul SmallerNumber LargerNumber],
            [Add Sub Mul]
        ),
        (false, false) => None,
    }
}
