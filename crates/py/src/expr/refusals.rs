//! Operations that need values: errors with the alternative.

use isochrony_expr::Expr as NativeExpr;
use pyo3::prelude::*;

use super::expression::{Expr, untraceable};
use crate::errors::{PackageError, Result};

fn quoted(written: &NativeExpr) -> String {
    let text = written.to_string();
    match text.char_indices().nth(100) {
        Some((cut, _)) => format!("`{}...`", &text[..cut]),
        None => format!("`{text}`"),
    }
}

impl Expr {
    pub(super) fn no<T>(&self, what: &str, mend: &str) -> Result<T> {
        let at = quoted(&self.written);
        Err(untraceable(format!(
            "{at} has no {what} while a plan is built, since it stands for values that are computed when the plan runs; {mend}"
        )))
    }
}

#[pymethods]
impl Expr {
    fn __bool__(&self) -> Result<bool> {
        self.no(
            "truth value",
            "write & | ~ for and, or, not, (a < s) & (s < b) for a < s < b, and condition.where(yes, no) for if",
        )
    }

    fn __len__(&self) -> Result<usize> {
        self.no("length", "count what you look for, such as (s > 3).count()")
    }

    fn __iter__(&self) -> Result<Py<PyAny>> {
        self.no("elements to loop over", "use reductions, such as s.max()")
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> Result<Py<PyAny>> {
        let _ = key;
        self.no(
            "elements",
            "use reductions, such as s.max(), or cut other windows with rewindow",
        )
    }

    fn __contains__(&self, item: &Bound<'_, PyAny>) -> Result<bool> {
        let _ = item;
        self.no("elements", "write (s == value).any()")
    }

    fn __float__(&self) -> Result<f64> {
        self.no(
            "number",
            "use NumPy's functions, such as np.sqrt(s), in place of math's, and s.astype(\"float64\")",
        )
    }

    fn __int__(&self) -> Result<i64> {
        self.no("number", "write s.astype(\"int64\")")
    }

    fn __index__(&self) -> Result<i64> {
        self.no("number", "write s.astype(\"int64\")")
    }

    fn __complex__(&self) -> Result<f64> {
        self.no("number", "write s.astype(\"complex128\")")
    }

    fn __getattr__(&self, name: &str) -> Result<Py<PyAny>> {
        let message = format!(
            "{} has no {name:?}; expressions have mean std var min max sum count rms any all, astype clip where round \
             conj real imag, ewm hysteresis previous counter, operators, and NumPy's functions, such as np.sqrt(s)",
            quoted(&self.written)
        );
        Err(PackageError::new("TraceAttributeError", "no_such_operation", message).into())
    }
}
