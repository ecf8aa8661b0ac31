//! `isochrony.Expr`.

use isochrony_expr::Expr as NativeExpr;
use pyo3::prelude::*;

use crate::errors::{Error, PackageError};

/// A computation on the samples of a window, or on each sample: an expression, not a value.
///
/// Arithmetic, comparisons, ``& | ^ ~``, `abs`, `round`, and NumPy's elementwise functions (``np.sqrt(s)``,
/// ``np.where(s > 0, s, 0)``) work as on an array and give an expression. Reductions (``s.mean()``) give one value per
/// window; `ewm`, `hysteresis`, `previous` and `counter` carry state from window to window, and restart after a gap or
/// a clock step. Types are NumPy's (NEP 50), except that integer arithmetic takes a dtype that holds every result, so
/// that it does not wrap (see `wrapping`). ``==`` gives an expression too, and hashing is by identity.
///
/// Raises:
///     isochrony.PlanError: what needs a value while the plan is built, such as `if`, `and`, `s[0]` or `float(s)`.
///
/// >>> import isochrony as iso, numpy as np
/// >>> windows = iso.scan(np.array([1.0, -2.0, 3.0, 0.0, 4.0, 0.0]), rate=100).rewindow(3)
/// >>> windows.map(lambda s: s - s.mean()).collect()
/// array([[ 0.33333333, -2.66666667,  2.33333333],
///        [-1.33333333,  2.66666667, -1.33333333]])
/// >>> windows.filter(lambda s: (s.max() > 3) & (s.std() > 1)).collect()
/// array([[0., 4., 0.]])
#[pyclass(frozen, module = "isochrony", name = "Expr")]
pub(crate) struct Expr {
    pub(crate) written: NativeExpr,
}

impl From<NativeExpr> for Expr {
    fn from(written: NativeExpr) -> Self {
        Self { written }
    }
}

pub(super) fn untraceable(message: String) -> Error {
    let message = format!(
        "{message}; a function that cannot be an expression runs as isochrony.py(f) or isochrony.jit(f)"
    );
    PackageError::new("TraceError", "untraceable", message).into()
}
