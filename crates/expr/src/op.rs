//! Operations: their names, how many arguments they take, how they are written.

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
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable name, in files and in Python.
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
    /// Operations on one operand, each value by itself. Angles are in radians.
    Unary {
        /// Minus.
        Neg => "neg",
        /// Magnitude.
        Abs => "abs",
        /// Logical not of bools, bitwise not of integers.
        Invert => "invert",
        /// Square root.
        Sqrt => "sqrt",
        /// Exponential.
        Exp => "exp",
        /// Exponential less one, exact near zero.
        Expm1 => "expm1",
        /// Natural logarithm.
        Log => "log",
        /// Natural logarithm of one more, exact near zero.
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
        /// The next integer below.
        Floor => "floor",
        /// The next integer above.
        Ceil => "ceil",
        /// The next integer towards zero.
        Trunc => "trunc",
        /// The nearest integer, halves to even.
        Round => "round",
        /// The nearest integer, halves to even, as a float also of integers.
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
    /// Operations on two operands, each pair by itself.
    Binary {
        /// Sum; logical or of bools.
        Add => "add",
        /// Difference.
        Sub => "sub",
        /// Product; logical and of bools.
        Mul => "mul",
        /// True quotient, a float.
        Div => "div",
        /// Quotient rounded down; integers divided by zero give zero.
        FloorDiv => "floordiv",
        /// Remainder with the sign of the divisor; integers modulo zero give zero.
        Mod => "mod",
        /// Remainder with the sign of the dividend, as C has it; integers by zero give zero.
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
        /// The smaller; NaN if one is.
        Minimum => "minimum",
        /// The larger; NaN if one is.
        Maximum => "maximum",
    }
}

operations! {
    /// Arithmetic as [`Unary`] and [`Binary`] have it, but of integers in their common dtype, where it wraps: NumPy's
    /// rule. See [`Expr::wrapping`](crate::Expr::wrapping).
    Wrapping {
        /// Minus.
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
    /// What makes one value of the samples of a window.
    Reduction {
        /// Arithmetic mean.
        Mean => "mean",
        /// Population standard deviation (`ddof=0`).
        Std => "std",
        /// Population variance (`ddof=0`).
        Var => "var",
        /// Smallest; NaN if one is.
        Min => "min",
        /// Largest; NaN if one is.
        Max => "max",
        /// Sum.
        Sum => "sum",
        /// How many are not zero (NumPy's `count_nonzero`).
        Count => "count",
        /// Root of the mean square of the magnitudes.
        Rms => "rms",
        /// Whether one is not zero.
        Any => "any",
        /// Whether none is zero.
        All => "all",
    }
}

operations! {
    /// What follows one value per window from window to window. Breaks reset it.
    Memory {
        /// Exponentially weighted mean: `y += alpha * (x - y)`, beginning with the first value;
        /// arguments x and alpha in (0, 1]. A NaN leaves it as it was; where infinities made it NaN it begins anew.
        Ewm => "ewm",
        /// True from where x exceeds `high` until it falls below `low`; arguments x, low, high.
        Hysteresis => "hysteresis",
        /// The value of the window before; arguments x and what to give at the first window.
        Previous => "previous",
        /// How many windows so far, this one included, where x is not zero.
        Counter => "counter",
    }
}

impl Wrapping {
    /// The operation without the rule of integers.
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
    /// The samples of an input; 0 is the first.
    Input(u8),
    /// A field of rows.
    Field(Name),
    /// A number; with a dtype it is as strong as samples are, without it takes theirs.
    Constant(Scalar, Option<DType>),
    /// Conversion to a dtype, as NumPy's `astype`. Floats beyond an integer's range give its
    /// limits and NaN gives zero, where NumPy leaves it open.
    Cast(DType),
    /// One operand.
    Unary(Unary),
    /// Two operands.
    Binary(Binary),
    /// One or two operands, integers wrapping.
    Wrapping(Wrapping),
    /// Second argument where the first is not zero, else the third.
    Where,
    /// First argument, but not below the second and not above the third.
    Clip,
    /// One value of a window.
    Reduce(Reduction),
    /// A memory of windows.
    Memory(Memory),
}

const INPUT: &str = "input";
const FIELD: &str = "field";
const CONSTANT: &str = "constant";
const CAST: &str = "cast";
const WHERE: &str = "where";
const CLIP: &str = "clip";

impl Op {
    /// The stable name, in files and in Python.
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

    /// The same with integers that wrap; operations that cannot wrap as they are.
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

    /// How many arguments it takes.
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

    /// The names of all operations.
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

    /// The operation with a name, for those that are nothing but a name: all but
    /// `field`, `constant` and `cast`; of inputs the first.
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
    fn every_wrapping_operation_is_that_of_its_plain_one() {
        for &op in Wrapping::ALL {
            let plain = op.plain();
            assert_eq!(plain.wrapping(), Op::Wrapping(op));
            assert_eq!(plain.arguments(), Op::Wrapping(op).arguments());
            assert_eq!(op.name(), format!("wrapping_{}", plain.name()));
        }
        assert_eq!(Op::Binary(Binary::Mod).wrapping(), Op::Binary(Binary::Mod));
    }
}
