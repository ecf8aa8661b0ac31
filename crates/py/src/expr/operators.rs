//! Python's operators.

use isochrony_expr::{Binary, Unary};
use pyo3::prelude::*;

use super::Expr;
use crate::errors::Result;

#[pymethods]
impl Expr {
    /// Sum.
    fn __add__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Add, other)
    }

    fn __radd__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Add, other)
    }

    /// Difference.
    fn __sub__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Sub, other)
    }

    fn __rsub__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Sub, other)
    }

    /// Product.
    fn __mul__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Mul, other)
    }

    fn __rmul__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Mul, other)
    }

    /// Quotient, a float.
    fn __truediv__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Div, other)
    }

    fn __rtruediv__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Div, other)
    }

    /// Quotient rounded down.
    fn __floordiv__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::FloorDiv, other)
    }

    fn __rfloordiv__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::FloorDiv, other)
    }

    /// Remainder with the sign of the divisor.
    fn __mod__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Mod, other)
    }

    fn __rmod__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Mod, other)
    }

    /// And: of bools logical, of integers bitwise.
    fn __and__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::And, other)
    }

    fn __rand__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::And, other)
    }

    /// Or: of bools logical, of integers bitwise.
    fn __or__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Or, other)
    }

    fn __ror__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Or, other)
    }

    /// Exclusive or: of bools logical, of integers bitwise.
    fn __xor__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Xor, other)
    }

    fn __rxor__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Xor, other)
    }
}

#[pymethods]
impl Expr {
    /// Power; an integer power of an integer must be a constant, not negative.
    fn __pow__(&self, other: &Bound<'_, PyAny>, modulo: Option<&Bound<'_, PyAny>>) -> Result<Self> {
        match modulo {
            None => self.binary(Binary::Pow, other),
            Some(_) => self.no("power modulo a number", "write (s**n) % m"),
        }
    }

    fn __rpow__(
        &self,
        other: &Bound<'_, PyAny>,
        modulo: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self> {
        match modulo {
            None => self.reflected(Binary::Pow, other),
            Some(_) => self.no("power modulo a number", "write (n**s) % m"),
        }
    }

    /// Less, value by value.
    fn __lt__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Lt, other)
    }

    /// Less or equal, value by value.
    fn __le__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Le, other)
    }

    /// Greater, value by value.
    fn __gt__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Gt, other)
    }

    /// Greater or equal, value by value.
    fn __ge__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Ge, other)
    }

    /// Equal, value by value.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Eq, other)
    }

    /// Not equal, value by value.
    fn __ne__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Ne, other)
    }

    /// By identity, since equality is computed later.
    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        // Objects lie at multiples of 16.
        slf.as_ptr().addr().rotate_right(4).cast_signed()
    }

    /// Minus.
    fn __neg__(&self) -> Result<Self> {
        self.unary(Unary::Neg)
    }

    /// Itself.
    fn __pos__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Not: of bools logical, of integers bitwise.
    fn __invert__(&self) -> Result<Self> {
        self.unary(Unary::Invert)
    }

    /// Magnitude.
    fn __abs__(&self) -> Result<Self> {
        self.unary(Unary::Abs)
    }

    /// The nearest integer, halves to even.
    #[pyo3(signature = (ndigits=None))]
    fn __round__(&self, ndigits: Option<&Bound<'_, PyAny>>) -> Result<Self> {
        match ndigits {
            None => self.unary(Unary::Round),
            Some(_) => self.no("rounding to digits", "scale it: round(s * 100) / 100"),
        }
    }
}
