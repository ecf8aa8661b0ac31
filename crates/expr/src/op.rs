//! Operations: names, argument counts, notation.

use std::sync::LazyLock;

use isochrony_segment::DType;

use crate::{Name, Scalar};

macro_rules! operations {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident => $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All variants.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Stable name, in files and in Python.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

operations! {
    /// Unary elementwise operations. Angles are in radians.
    Unary {
        /// Negation.
        Neg => "neg",
        /// Magnitude.
        Abs => "abs",
        /// Logical not of bools, bitwise not of integers.
        Invert => "invert",
        /// Square root.
        Sqrt => "sqrt",
        /// Exponential.
        Exp => "exp",
        /// Exponential less one, accurate near zero.
        Expm1 => "expm1",
        /// Natural logarithm.
        Log => "log",
        /// Natural logarithm of `1 + x`, accurate near zero.
        Log1p => "log1p",
        /// Logarithm to base two.
        Log2 => "log2",
        /// Logarithm to base ten.
        Log10 => "log10",
        /// Sine.
        Sin => "sin",
        /// Cosine.
        Cos => "cos",
        /// Tangent.
        Tan => "tan",
        /// Hyperbolic tangent.
        Tanh => "tanh",
        /// Rounds down.
        Floor => "floor",
        /// Rounds up.
        Ceil => "ceil",
        /// Rounds towards zero.
        Trunc => "trunc",
        /// The nearest integer, halves to even.
        Round => "round",
        /// Nearest integer, halves to even, as a float even for integers.
        Rint => "rint",
        /// Whether a part is NaN.
        IsNan => "isnan",
        /// Whether all parts are finite.
        IsFinite => "isfinite",
        /// Real part.
        Real => "real",
        /// Imaginary part; zero for real numbers.
        Imag => "imag",
        /// Complex conjugate.
        Conj => "conj",
        /// Argument, in (-pi, pi].
        Angle => "angle",
    }
}

operations! {
    /// Binary elementwise operations.
    Binary {
        /// Sum; logical or for bools.
        Add => "add",
        /// Difference.
        Sub => "sub",
        /// Product; logical and for bools.
        Mul => "mul",
        /// True quotient, a float.
        Div => "div",
        /// Quotient rounded down; integers divided by zero give zero.
        FloorDiv => "floordiv",
        /// Remainder with the sign of the divisor; integers modulo zero give zero.
        Mod => "mod",
        /// Remainder with the sign of the dividend, as in C; integers by zero give zero.
        Fmod => "fmod",
        /// Power.
        Pow => "pow",
        /// Less; complex numbers by real, then imaginary part.
        Lt => "lt",
        /// Less or equal.
        Le => "le",
        /// Greater.
        Gt => "gt",
        /// Greater or equal.
        Ge => "ge",
        /// Equal.
        Eq => "eq",
        /// Not equal.
        Ne => "ne",
        /// Logical or bitwise and.
        And => "and",
        /// Logical or bitwise or.
        Or => "or",
        /// Logical or bitwise exclusive or.
        Xor => "xor",
        /// Angle of the point (second, first), in [-pi, pi].
        Arctan2 => "arctan2",
        /// Length of the vector.
        Hypot => "hypot",
        /// Minimum; NaN if one is.
        Minimum => "minimum",
        /// Maximum; NaN if one is.
        Maximum => "maximum",
    }
}

operations! {
    /// As [`Unary`] and [`Binary`], but integers wrap; see [`Expr::wrapping`](crate::Expr::wrapping).
    Wrapping {
        /// Negation.
        Neg => "wrapping_neg",
        /// Magnitude; that of the lowest integer is itself.
        Abs => "wrapping_abs",
        /// Sum.
        Add => "wrapping_add",
        /// Difference.
        Sub => "wrapping_sub",
        /// Product.
        Mul => "wrapping_mul",
        /// Quotient rounded down.
        FloorDiv => "wrapping_floordiv",
        /// Power.
        Pow => "wrapping_pow",
    }
}

operations! {
    /// Reductions of a window's samples to one value.
    Reduction {
        /// Arithmetic mean.
        Mean => "mean",
        /// Population standard deviation (`ddof=0`).
        Std => "std",
        /// Population variance (`ddof=0`).
        Var => "var",
        /// Minimum; NaN if one is.
        Min => "min",
        /// Maximum; NaN if one is.
        Max => "max",
        /// Sum.
        Sum => "sum",
        /// Number of non-zero samples (NumPy's `count_nonzero`).
        Count => "count",
        /// Root mean square of the magnitudes.
        Rms => "rms",
        /// Whether any is non-zero.
        Any => "any",
        /// Whether all are non-zero.
        All => "all",
    }
}

operations! {
    /// Stateful operations on one value per window. Breaks reset them.
    Memory {
        /// Exponentially weighted mean: `y += alpha * (x - y)`, from the first value; arguments x and alpha in (0, 1].
        /// NaN is skipped; a mean that infinities made NaN restarts.
        Ewm => "ewm",
        /// True from where x exceeds `high` until it falls below `low`; arguments x, low, high.
        Hysteresis => "hysteresis",
        /// Value of the previous window; arguments x and the value for the first window.
        Previous => "previous",
        /// Number of windows so far with a non-zero x; counts this one.
        Counter => "counter",
    }
}

impl Wrapping {
    /// The operation without wrapping.
    #[must_use]
    pub const fn plain(self) -> Op {
        match self {
            Self::Neg => Op::Unary(Unary::Neg),
            Self::Abs => Op::Unary(Unary::Abs),
            Self::Add => Op::Binary(Binary::Add),
            Self::Sub => Op::Binary(Binary::Sub),
            Self::Mul => Op::Binary(Binary::Mul),
            Self::FloorDiv => Op::Binary(Binary::FloorDiv),
            Self::Pow => Op::Binary(Binary::Pow),
        }
    }
}

/// An operation of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Samples of an input; 0 is the first.
    Input(u8),
    /// A field of rows.
    Field(Name),
    /// A number; with a dtype it is strong like samples, else it takes theirs.
    Constant(Scalar, Option<DType>),
    /// Conversion to a dtype, as NumPy's `astype`. Floats saturate to an integer's range and NaN gives zero (undefined
    /// in NumPy).
    Cast(DType),
    /// One operand.
    Unary(Unary),
    /// Two operands.
    Binary(Binary),
    /// Wrapping integer arithmetic.
    Wrapping(Wrapping),
    /// Second argument where the first is non-zero, else the third.
    Where,
    /// First argument, clamped to the second and the third.
    Clip,
    /// Reduction of a window.
    Reduce(Reduction),
    /// Stateful operation over windows.
    Memory(Memory),
}

const INPUT: &str = "input";
const FIELD: &str = "field";
const CONSTANT: &str = "constant";
const CAST: &str = "cast";
const WHERE: &str = "where";
const CLIP: &str = "clip";

impl Op {
    /// Stable name, in files and in Python.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input(_) => INPUT,
            Self::Field(_) => FIELD,
            Self::Constant(..) => CONSTANT,
            Self::Cast(_) => CAST,
            Self::Unary(op) => op.name(),
            Self::Binary(op) => op.name(),
            Self::Wrapping(op) => op.name(),
            Self::Where => WHERE,
            Self::Clip => CLIP,
            Self::Reduce(op) => op.name(),
            Self::Memory(op) => op.name(),
        }
    }

    /// The wrapping form; the operation itself without one.
    #[must_use]
    pub const fn wrapping(self) -> Self {
        Self::Wrapping(match self {
            Self::Unary(Unary::Neg) => Wrapping::Neg,
            Self::Unary(Unary::Abs) => Wrapping::Abs,
            Self::Binary(Binary::Add) => Wrapping::Add,
            Self::Binary(Binary::Sub) => Wrapping::Sub,
            Self::Binary(Binary::Mul) => Wrapping::Mul,
            Self::Binary(Binary::FloorDiv) => Wrapping::FloorDiv,
            Self::Binary(Binary::Pow) => Wrapping::Pow,
            other => return other,
        })
    }

    /// Number of arguments.
    #[must_use]
    pub const fn arguments(self) -> usize {
        match self {
            Self::Input(_) | Self::Field(_) | Self::Constant(..) => 0,
            Self::Cast(_) | Self::Unary(_) | Self::Reduce(_) => 1,
            Self::Memory(Memory::Counter) | Self::Wrapping(Wrapping::Neg | Wrapping::Abs) => 1,
            Self::Binary(_) | Self::Wrapping(_) | Self::Memory(Memory::Ewm | Memory::Previous) => 2,
            Self::Where | Self::Clip | Self::Memory(Memory::Hysteresis) => 3,
        }
    }

    /// Names of all operations.
    #[must_use]
    pub fn names() -> &'static [&'static str] {
        static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| {
            let mut names = vec![INPUT, FIELD, CONSTANT, CAST, WHERE, CLIP];
            names.extend(Unary::ALL.iter().map(|op| op.name()));
            names.extend(Binary::ALL.iter().map(|op| op.name()));
            names.extend(Wrapping::ALL.iter().map(|op| op.name()));
            names.extend(Reduction::ALL.iter().map(|op| op.name()));
            names.extend(Memory::ALL.iter().map(|op| op.name()));
            names
        });
        &NAMES
    }

    /// The operation with a name, except `field`, `constant` and `cast`; `input` is the first.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        fn find<T: Copy>(all: &[T], name: &str, of: impl Fn(T) -> &'static str) -> Option<T> {
            all.iter().copied().find(|&op| of(op) == name)
        }
        match name {
            INPUT => return Some(Self::Input(0)),
            WHERE => return Some(Self::Where),
            CLIP => return Some(Self::Clip),
            _ => {}
        }
        find(Unary::ALL, name, Unary::name)
            .map(Self::Unary)
            .or_else(|| find(Binary::ALL, name, Binary::name).map(Self::Binary))
            .or_else(|| find(Wrapping::ALL, name, Wrapping::name).map(Self::Wrapping))
            .or_else(|| find(Reduction::ALL, name, Reduction::name).map(Self::Reduce))
            .or_else(|| find(Memory::ALL, name, Memory::name).map(Self::Memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_unique_and_finds_its_operation() {
        let names = Op::names();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name}");
            match Op::named(name) {
                Some(op) => assert_eq!(op.name(), *name),
                None => assert!([FIELD, CONSTANT, CAST].contains(name), "{name}"),
            }
        }
        assert_eq!(Op::named("median"), None);
    }

    #[test]
    fn wrapping_operations_match_their_plain_forms() {
        for &op in Wrapping::ALL {
            let plain = op.plain();
            assert_eq!(plain.wrapping(), Op::Wrapping(op));
            assert_eq!(plain.arguments(), Op::Wrapping(op).arguments());
            assert_eq!(op.name(), format!("wrapping_{}", plain.name()));
        }
        assert_eq!(Op::Binary(Binary::Mod).wrapping(), Op::Binary(Binary::Mod));
    }
}
