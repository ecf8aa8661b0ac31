//! Methods of arrays, and stateful operations across windows.

use isochrony_expr::{Memory, Op, Reduction, Unary};
use isochrony_segment::DType;
use pyo3::prelude::*;

use super::{Expr, apply, operand};
use crate::errors::Result;
use crate::signal::options::dtype_text;

/// Reductions of a window.
macro_rules! reductions {
    ($($doc:literal $method:ident $op:ident;)*) => {
        #[pymethods]
        impl Expr {
            $(
                #[doc = $doc]
                fn $method(&self) -> Result<Self> {
                    apply(Op::Reduce(Reduction::$op), [self.written.clone()])
                }
            )*
        }
    };
}

reductions! {
    "Mean of a window." mean Mean;
    "Population standard deviation of a window, as NumPy's without ddof." std Std;
    "Population variance of a window." var Var;
    "Smallest value of a window; NaN if one is." min Min;
    "Largest value of a window; NaN if one is." max Max;
    "Sum of a window." sum Sum;
    "How many values of a window are not zero: of a condition, how often it holds." count Count;
    "Root of the mean square of a window." rms Rms;
    "Whether any value of a window is not zero." any Any;
    "Whether no value of a window is zero." all All;
}

#[pymethods]
impl Expr {
    /// Integer arithmetic wraps around in the operands' dtype, as in NumPy.
    fn wrapping(&self) -> Self {
        self.written.wrapping().into()
    }

    /// The nearest integer, halves to even.
    fn round(&self) -> Result<Self> {
        self.unary(Unary::Round)
    }

    /// Complex conjugate.
    fn conj(&self) -> Result<Self> {
        self.unary(Unary::Conj)
    }

    /// Real part.
    #[getter]
    fn real(&self) -> Result<Self> {
        self.unary(Unary::Real)
    }

    /// Imaginary part; zero for real values.
    #[getter]
    fn imag(&self) -> Result<Self> {
        self.unary(Unary::Imag)
    }

    /// Converts to another dtype. Floats beyond an integer's range give its limits, and NaN zero.
    ///
    /// Parameters:
    ///     dtype: as for NumPy.
    fn astype(&self, dtype: &Bound<'_, PyAny>) -> Result<Self> {
        let (dtype, _) = DType::parse(&dtype_text(dtype)?)?;
        apply(Op::Cast(dtype), [self.written.clone()])
    }

    /// Limited to `low` and `high`.
    fn clip(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(low)?, operand(high)?];
        apply(Op::Clip, args)
    }

    /// `yes` where this is not zero, else `no`: NumPy's ``where(self, yes, no)``.
    #[pyo3(name = "where")]
    fn choose(&self, yes: &Bound<'_, PyAny>, no: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(yes)?, operand(no)?];
        apply(Op::Where, args)
    }

    /// Exponentially weighted mean over windows: ``y += alpha * (x - y)``, starting with the first value.
    ///
    /// Parameters:
    ///     alpha: weight of the newest window, above 0, at most 1; a constant.
    fn ewm(&self, alpha: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(alpha)?];
        apply(Op::Memory(Memory::Ewm), args)
    }

    /// True from the window that exceeds `high` until one falls below `low`.
    fn hysteresis(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(low)?, operand(high)?];
        apply(Op::Memory(Memory::Hysteresis), args)
    }

    /// The value of the previous window; `first` if there is none.
    fn previous(&self, first: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(first)?];
        apply(Op::Memory(Memory::Previous), args)
    }

    /// Number of windows with a non-zero value so far, this one included.
    fn counter(&self) -> Result<Self> {
        apply(Op::Memory(Memory::Counter), [self.written.clone()])
    }
}
