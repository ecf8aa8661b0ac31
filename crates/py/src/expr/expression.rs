//! `isochrony.Expr`.

use isochrony_expr::Expr as NativeExpr;
use pyo3::prelude::*;

use crate::errors::{Error, PackageError};

/// A computation on the samples of a window, or on each sample: an expression, not a value.
///
/// Arithmetic, comparisons, ``& | ^ ~``, `abs`, `round`, and NumPy's elementwise functions (``np.sqrt(s)``,
/// ``np.where(s > 0, s, 0)``) work as on an array and give an expression. Reductions (``s.mean()``) give one value per
/// window; `ewm`, `hysteresis`, `previous` and `counter` carry state from window to window, and restart after a gap or
/// a clock step. Types are NumPy's (NEP 50). ``==`` gives an expression too, and hashing is by identity.
///
/// Raises:
///     isochrony.PlanError: what cannot be computed later: a truth value, an element, a number.
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
    let message =
        format!("{message}; what no expression says runs as isochrony.py(f) or isochrony.jit(f)");
    PackageError::new("TraceError", "untraceable", message).into()
}
