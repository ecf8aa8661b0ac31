//! Methods of arrays, and stateful operations across windows.

use isochrony_expr::{Memory, Op, Reduction, Unary};
use isochrony_segment::DType;
use pyo3::prelude::*;

use super::{Expr, apply, operand};
use crate::errors::Result;
use crate::signal::options::dtype_text;

macro_rules! reductions {
    ($($(#[$doc:meta])* $method:ident $op:ident;)*) => {
        #[pymethods]
        impl Expr {
            $(
                $(#[$doc])*
                fn $method(&self) -> Result<Self> {
                    apply(Op::Reduce(Reduction::$op), [self.written.clone()])
                }
            )*
        }
    };
}

reductions! {
    /// Mean of the values of a window.
    ///
    /// Returns:
    ///     An `Expr`: one value per window, float32 for float32, else float64 (complex of complex samples). NaN if any
    ///     value is NaN.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([1.0, 2.0, 3.0, 6.0]), rate=100).rewindow(2)
    /// >>> windows.map(lambda s: s.mean()).collect()[:, 0]
    /// array([1.5, 4.5])
    mean Mean;

    /// Population standard deviation of a window, like `numpy.std`: the divisor is the number of values.
    ///
    /// Returns:
    ///     An `Expr`: one value per window, float32 for float32, else float64. NaN if any value is NaN.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([1.0, 2.0, 3.0, 7.0]), rate=100).rewindow(2)
    /// >>> windows.map(lambda s: s.std()).collect()[:, 0]
    /// array([0.5, 2. ])
    std Std;

    /// Population variance of a window, like `numpy.var`: the divisor is the number of values.
    ///
    /// Returns:
    ///     An `Expr`: one value per window, float32 for float32, else float64. NaN if any value is NaN.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([1.0, 2.0, 3.0, 7.0]), rate=100).rewindow(2)
    /// >>> windows.map(lambda s: s.var()).collect()[:, 0]
    /// array([0.25, 4.  ])
    var Var;

    /// Smallest value of a window.
    ///
    /// Returns:
    ///     An `Expr`: one value per window, of the values' dtype. NaN if any value is NaN; complex values are ordered
    ///     by real, then by imaginary part, as in NumPy.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([1.0, 2.0, 7.0, 3.0]), rate=100).rewindow(2)
    /// >>> windows.map(lambda s: s.min()).collect()[:, 0]
    /// array([1., 3.])
    min Min;

    /// Largest value of a window.
    ///
    /// Returns:
    ///     An `Expr`: one value per window, of the values' dtype. NaN if any value is NaN; complex values are ordered
    ///     by real, then by imaginary part, as in NumPy.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([1.0, 2.0, 7.0, 3.0]), rate=100).rewindow(2)
    /// >>> windows.map(lambda s: s.max()).collect()[:, 0]
    /// array([2., 7.])
    max Max;

    /// Sum of the values of a window.
    ///
    /// Returns:
    ///     An `Expr`: one value per window, int64 of bools and integers; floats and complex values keep their dtype.
    ///     NaN if any value is NaN.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([1.0, 2.0, 7.0, 3.0]), rate=100).rewindow(2)
    /// >>> windows.map(lambda s: s.sum()).collect()[:, 0]
    /// array([ 3., 10.])
    sum Sum;

    /// Counts the non-zero values of a window: of a condition, how often it holds.
    ///
    /// Returns:
    ///     An `Expr`: one value per window, int64; NaN counts as non-zero.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([1.0, -2.0, 7.0, 3.0]), rate=100).rewindow(2)
    /// >>> windows.map(lambda s: (s > 0).count()).collect()[:, 0]
    /// array([1, 2])
    count Count;

    /// Root mean square of a window.
    ///
    /// Returns:
    ///     An `Expr`: one value per window, float32 for float32, else float64. NaN if any value is NaN.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([3.0, 4.0, 0.0, 1.0]), rate=100).rewindow(2)
    /// >>> windows.map(lambda s: s.rms()).collect()[:, 0]
    /// array([3.53553391, 0.70710678])
    rms Rms;

    /// Whether any value of a window is non-zero: of a condition, whether it holds at least once.
    ///
    /// Returns:
    ///     An `Expr`: one value per window, bool; NaN counts as non-zero.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([1.0, -2.0, 7.0, 3.0]), rate=100).rewindow(2)
    /// >>> windows.map(lambda s: (s < 0).any()).collect()[:, 0]
    /// array([ True, False])
    any Any;

    /// Whether all values of a window are non-zero: of a condition, whether it holds throughout.
    ///
    /// Returns:
    ///     An `Expr`: one value per window, bool; NaN counts as non-zero.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([1.0, -2.0, 7.0, 3.0]), rate=100).rewindow(2)
    /// >>> windows.map(lambda s: (s > 0).all()).collect()[:, 0]
    /// array([False,  True])
    all All;
}

#[pymethods]
impl Expr {
    /// The same expression with integer arithmetic that wraps around in the operands' dtype, as in NumPy.
    ///
    /// Returns:
    ///     An `Expr` of the same shape and dtype. Without `wrapping`, integer arithmetic takes the narrowest dtype that
    ///     holds every result: here int16.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> counts = iso.scan(np.array([100, 20], "i1"), rate=100)
    /// >>> counts.map(lambda s: (s + s).wrapping()).collect()
    /// array([-56,  40], dtype=int8)
    fn wrapping(&self) -> Self {
        self.written.wrapping().into()
    }

    /// Rounds to the nearest integer, halves to even.
    ///
    /// Returns:
    ///     An `Expr` of the same shape and dtype.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> iso.scan(np.array([0.5, 1.5, -2.7]), rate=100).map(lambda s: s.round()).collect()
    /// array([ 0.,  2., -3.])
    fn round(&self) -> Result<Self> {
        self.unary(Unary::Round)
    }

    /// The complex conjugate of each value.
    ///
    /// Returns:
    ///     An `Expr` of the same shape and dtype; real values stay as they are.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> iso.scan(np.array([1 + 2j, -1j]), rate=100).map(lambda s: s.conj()).collect()
    /// array([ 1.-2.j, -0.+1.j])
    fn conj(&self) -> Result<Self> {
        self.unary(Unary::Conj)
    }

    /// Real part of each value.
    ///
    /// >>> z = iso.scan(np.array([1 + 2j, 3 - 4j]), rate=100)
    /// >>> z.map(lambda s: s.real).collect()
    /// array([1., 3.])
    #[getter]
    fn real(&self) -> Result<Self> {
        self.unary(Unary::Real)
    }

    /// Imaginary part of each value; zero for real values.
    ///
    /// >>> z = iso.scan(np.array([1 + 2j, 3 - 4j]), rate=100)
    /// >>> z.map(lambda s: s.imag).collect()
    /// array([ 2., -4.])
    #[getter]
    fn imag(&self) -> Result<Self> {
        self.unary(Unary::Imag)
    }

    /// Converts to another dtype. Floats beyond the range of an integer dtype become its limits; NaN becomes 0.
    ///
    /// Parameters:
    ///     dtype: any dtype that signals can have, in NumPy's spellings, such as "float32" or np.int16.
    ///
    /// Returns:
    ///     An `Expr` of the same shape, of that dtype; floats are cut off towards zero.
    ///
    /// Raises:
    ///     isochrony.SegmentError: a dtype that signals cannot have, such as uint64 (also TypeError).
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> iso.scan(np.array([1.9, -2.5, 1e6, np.nan]), rate=100).map(lambda s: s.astype("int16")).collect()
    /// array([    1,    -2, 32767,     0], dtype=int16)
    fn astype(&self, dtype: &Bound<'_, PyAny>) -> Result<Self> {
        let (dtype, _) = DType::parse(&dtype_text(dtype)?)?;
        apply(Op::Cast(dtype), [self.written.clone()])
    }

    /// Limits values to the range from `low` to `high`.
    ///
    /// Parameters:
    ///     low: least value of the result, a number or an expression.
    ///     high: largest value of the result, a number or an expression.
    ///
    /// Returns:
    ///     An `Expr` of the same shape; NaN stays NaN.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> iso.scan(np.array([0.5, -7.0, 9.0, np.nan]), rate=100).map(lambda s: s.clip(-1, 1)).collect()
    /// array([ 0.5, -1. ,  1. ,  nan])
    fn clip(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(low)?, operand(high)?];
        apply(Op::Clip, args)
    }

    /// Chooses by a condition: `yes` where this is not zero, else `no`, like `np.where(self, yes, no)`.
    ///
    /// Parameters:
    ///     yes: a number or an expression.
    ///     no: likewise.
    ///
    /// Returns:
    ///     An `Expr` of the condition's shape, of the dtype that NumPy gives `yes` and `no` together.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> iso.scan(np.array([1.0, -2.0, 3.0]), rate=100).map(lambda s: (s > 0).where(s, 0)).collect()
    /// array([1., 0., 3.])
    #[pyo3(name = "where")]
    fn choose(&self, yes: &Bound<'_, PyAny>, no: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(yes)?, operand(no)?];
        apply(Op::Where, args)
    }

    /// Exponentially weighted mean over windows: ``y += alpha * (x - y)``, starting with the first value.
    ///
    /// Parameters:
    ///     alpha: weight of the newest window, above 0, at most 1; a constant.
    ///
    /// Returns:
    ///     An `Expr`: one value per window, float64 (float32 for float32). Edges: begins again with the first window
    ///     after a gap or a clock step.
    ///
    /// Raises:
    ///     isochrony.PlanError: `alpha` is out of range or not a constant, or there are several values per window:
    ///         reduce the window first, as in ``s.mean().ewm(0.5)``.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([0.0, 0.0, 8.0, 8.0, 8.0, 8.0]), rate=100).rewindow(2)
    /// >>> windows.map(lambda s: s.mean().ewm(0.5)).collect()[:, 0]
    /// array([0., 4., 6.])
    fn ewm(&self, alpha: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(alpha)?];
        apply(Op::Memory(Memory::Ewm), args)
    }

    /// Two-threshold trigger: True from the window whose value exceeds `high` until one falls below `low`.
    ///
    /// Parameters:
    ///     low: the lower threshold, a number or an expression with one value per window.
    ///     high: the upper threshold, likewise.
    ///
    /// Returns:
    ///     An `Expr`: one bool per window. Edges: False at first, and again after a gap or a clock step.
    ///
    /// Raises:
    ///     isochrony.PlanError: several values per window; reduce it first.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([0.0, 5.0, 2.0, 0.5, 2.0]), rate=100).rewindow(1)
    /// >>> windows.map(lambda s: s.mean().hysteresis(1, 4)).collect()[:, 0]
    /// array([False,  True,  True, False, False])
    fn hysteresis(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(low)?, operand(high)?];
        apply(Op::Memory(Memory::Hysteresis), args)
    }

    /// The value of the previous window.
    ///
    /// Parameters:
    ///     first: value for a window that has no previous one, a number.
    ///
    /// Returns:
    ///     An `Expr`: one value per window, of the same dtype. Edges: `first` at the start, and after a gap or a clock
    ///     step.
    ///
    /// Raises:
    ///     isochrony.PlanError: several values per window, or `first` is not a constant.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([1.0, 3.0, 2.0, 2.0]), rate=100).rewindow(1)
    /// >>> windows.map(lambda s: s.mean() - s.mean().previous(0)).collect()[:, 0]
    /// array([ 1.,  2., -1.,  0.])
    fn previous(&self, first: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(first)?];
        apply(Op::Memory(Memory::Previous), args)
    }

    /// Counts windows with a non-zero value, up to and including this one.
    ///
    /// Returns:
    ///     An `Expr`: one int64 per window. Edges: counts from 0 again after a gap or a clock step.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> windows = iso.scan(np.array([1.0, 5.0, 2.0, 6.0]), rate=100).rewindow(1)
    /// >>> windows.map(lambda s: (s.max() > 4).counter()).collect()[:, 0]
    /// array([0, 1, 1, 2])
    fn counter(&self) -> Result<Self> {
        apply(Op::Memory(Memory::Counter), [self.written.clone()])
    }
}
