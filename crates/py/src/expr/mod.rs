//! `isochrony.Expr`: traced Python functions of samples.
//!
//! A plan calls `lambda s: s.std() > 10` once, with an [`Expr`]. What needs a value (`if`, `and`, `len`, `float`) is an
//! error with the alternative.
//!
//! Python numbers take the dtype of the other operand, NumPy scalars keep theirs (NEP 50). Comparison is traced, so
//! expressions hash by identity.

mod expression;
mod methods;
mod numpy;
mod operand;
mod operators;
mod refusals;
pub(crate) mod row;

use isochrony_expr::{Binary, Expr as NativeExpr, Op, Unary};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors::{PackageError, Result};

pub(crate) use expression::Expr;
use expression::untraceable;
use operand::operand;

/// Traces a function of `arguments`, or takes an expression.
pub(crate) fn traced<'py>(
    operator: &str,
    function: &Bound<'py, PyAny>,
    arguments: Vec<Bound<'py, PyAny>>,
) -> Result<NativeExpr> {
    if let Ok(expr) = function.cast::<Expr>() {
        return Ok(expr.get().written.clone());
    }
    if !function.is_callable() {
        let kind = function.get_type().name()?;
        return Err(untraceable(format!(
            "{operator} takes a function of the samples, got {kind}; write lambda s: ..."
        )));
    }
    let result = function.call1(PyTuple::new(function.py(), arguments)?)?;
    operand(&result).map_err(|_| {
        let kind = result.get_type().name();
        let kind = kind.map_or_else(|_| String::new(), |name| name.to_string());
        untraceable(format!(
            "the function given to {operator} returned {kind}; return an expression of its argument, as in \
             lambda s: s.std() > 10"
        ))
    })
}

impl Expr {
    fn unary(&self, op: Unary) -> Result<Self> {
        apply(Op::Unary(op), [self.written.clone()])
    }

    fn binary(&self, op: Binary, other: &Bound<'_, PyAny>) -> Result<Self> {
        apply(Op::Binary(op), [self.written.clone(), operand(other)?])
    }

    fn reflected(&self, op: Binary, other: &Bound<'_, PyAny>) -> Result<Self> {
        apply(Op::Binary(op), [operand(other)?, self.written.clone()])
    }
}

fn apply(op: Op, args: impl IntoIterator<Item = NativeExpr>) -> Result<Expr> {
    let written = NativeExpr::apply(op, args);
    Ok(written
        .map_err(|error| PackageError::new("PlanError", error.code(), error.to_string()))?
        .into())
}

#[pymethods]
impl Expr {
    /// The samples of a window, or a sample: the argument that a plan passes to `map` and `filter` functions.
    ///
    /// Returns:
    ///     An `Expr`, to build an expression without a function.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> s = iso.Expr.input()
    /// >>> iso.scan(np.array([1.0, -2.0, 3.0]), rate=100).map(abs(s) * 2).collect()
    /// array([2., 4., 6.])
    #[staticmethod]
    fn input() -> Self {
        NativeExpr::input().into()
    }

    /// NumPy's elementwise functions.
    #[pyo3(signature = (ufunc, method, *inputs, **kwargs))]
    fn __array_ufunc__(
        &self,
        ufunc: &Bound<'_, PyAny>,
        method: &str,
        inputs: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self> {
        let name: String = ufunc.getattr("__name__")?.extract()?;
        numpy::ufunc(&name, method, inputs, kwargs)
    }

    /// NumPy's other functions.
    fn __array_function__(
        &self,
        func: &Bound<'_, PyAny>,
        types: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: &Bound<'_, PyDict>,
    ) -> Result<Self> {
        let _ = types;
        let name: String = func.getattr("__name__")?.extract()?;
        numpy::function(&name, args, kwargs)
    }

    fn __str__(&self) -> String {
        self.written.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Expr({})", self.written)
    }
}
