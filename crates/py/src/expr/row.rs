//! The argument of traced functions of rows.

use isochrony_expr::Expr as NativeExpr;
use isochrony_flow::Fields;
use pyo3::prelude::*;

use crate::errors::{PackageError, Result};
use crate::expr::Expr;

/// A row whose fields are expressions: ``r.mean``, or ``r["mean"]`` if the name is not a Python identifier.
#[pyclass(frozen, module = "isochrony", name = "Row")]
pub(crate) struct Row {
    fields: Fields,
}

impl From<Fields> for Row {
    fn from(fields: Fields) -> Self {
        Self { fields }
    }
}

impl Row {
    fn field(&self, name: &str, class: &'static str) -> Result<Expr> {
        if self.fields.find(name).is_some() {
            return Ok(NativeExpr::field(name).into());
        }
        let message = format!(
            "the rows have no field {name:?}; they have {}",
            self.fields.names()
        );
        Err(PackageError::new(class, "unknown_field", message).into())
    }
}

#[pymethods]
impl Row {
    fn __getattr__(&self, name: &str) -> Result<Expr> {
        self.field(name, "TraceAttributeError")
    }

    fn __getitem__(&self, name: &str) -> Result<Expr> {
        self.field(name, "TraceError")
    }

    fn __repr__(&self) -> String {
        format!("Row({})", self.fields)
    }
}
