//! Rust operators of expressions and numbers.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Sub};

use isochrony_segment::Complex64;

use super::Expr;
use crate::{Binary, Op, Unary};

macro_rules! operators {
    ($($trait:ident $method:ident => $op:ident;)*) => {$(
        impl<T: Into<Expr>> $trait<T> for Expr {
            type Output = Expr;

            fn $method(self, other: T) -> Expr {
                self.with(Op::Binary(Binary::$op), [other.into()])
            }
        }

        impl<T: Into<Expr>> $trait<T> for &Expr {
            type Output = Expr;

            fn $method(self, other: T) -> Expr {
                self.with(Op::Binary(Binary::$op), [other.into()])
            }
        }
        operators!(@ $trait $method: bool i8 i16 i32 i64 u8 u16 u32 f32 f64 Complex64);
    )*};
    (@ $trait:ident $method:ident: $($type:ty)*) => {$(
        impl $trait<Expr> for $type {
            type Output = Expr;

            fn $method(self, other: Expr) -> Expr {
                Expr::from(self).$method(other)
            }
        }

        impl $trait<&Expr> for $type {
            type Output = Expr;

            fn $method(self, other: &Expr) -> Expr {
                Expr::from(self).$method(other)
            }
        }
    )*};
}

operators! {
    Add add => Add;
    Sub sub => Sub;
    Mul mul => Mul;
    Div div => Div;
    Rem rem => Mod;
    BitAnd bitand => And;
    BitOr bitor => Or;
    BitXor bitxor => Xor;
}

macro_rules! from {
    ($($type:ty)*) => {$(
        impl From<$type> for Expr {
            fn from(value: $type) -> Self {
                Self::constant(value)
            }
        }
    )*};
}

from!(bool i8 i16 i32 i64 u8 u16 u32 f32 f64 Complex64);

impl Neg for Expr {
    type Output = Self;

    fn neg(self) -> Self {
        -&self
    }
}

impl Neg for &Expr {
    type Output = Expr;

    fn neg(self) -> Expr {
        self.with(Op::Unary(Unary::Neg), [])
    }
}

impl Not for Expr {
    type Output = Self;

    fn not(self) -> Self {
        !&self
    }
}

impl Not for &Expr {
    type Output = Expr;

    fn not(self) -> Expr {
        self.with(Op::Unary(Unary::Invert), [])
    }
}
