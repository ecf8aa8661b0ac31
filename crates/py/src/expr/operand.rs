//! Operands: expressions and numbers.

use isochrony_expr::{Expr as NativeExpr, Scalar};
use isochrony_segment::{Complex64, DType};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt};

use super::expression::{Expr, untraceable};
use crate::errors::Result;

/// A Python number, which takes the dtype of the other operand.
fn weak(object: &Bound<'_, PyAny>) -> Result<Option<Scalar>> {
    Ok(Some(if object.is_instance_of::<PyBool>() {
        Scalar::Bool(object.extract()?)
    } else if object.is_instance_of::<PyInt>() {
        match object.extract() {
            Ok(value) => Scalar::Int(value),
            Err(_) => {
                return Err(untraceable(format!(
                    "{object} does not fit int64, the largest integer of a signal; write it as a float"
                )));
            }
        }
    } else if object.is_instance_of::<PyFloat>() {
        Scalar::Float(object.extract()?)
    } else if object.is_instance_of::<PyComplex>() {
        let part = |name| -> PyResult<f64> { object.getattr(name)?.extract() };
        Scalar::Complex(Complex64::new(part("real")?, part("imag")?))
    } else {
        return Ok(None);
    }))
}

pub(super) fn operand(object: &Bound<'_, PyAny>) -> Result<NativeExpr> {
    if let Ok(expr) = object.cast::<Expr>() {
        return Ok(expr.get().written.clone());
    }
    // First: NumPy's float64 is a float, but keeps its dtype.
    let dtype = object.getattr_opt("dtype")?;
    let whole = object.getattr_opt("shape")?;
    match (dtype, whole) {
        (Some(dtype), Some(shape)) => {
            if shape.len()? != 0 {
                return Err(untraceable(format!(
                    "an expression takes numbers, got an array of shape {shape}: windows have no positions to match; \
                     give a number"
                )));
            }
            let (dtype, _) = DType::parse(&dtype.getattr("str")?.extract::<String>()?)?;
            if let Some(value) = weak(&object.call_method0("item")?)? {
                return Ok(NativeExpr::typed(value, dtype));
            }
        }
        _ => {
            if let Some(value) = weak(object)? {
                return Ok(NativeExpr::constant(value));
            }
        }
    }
    let kind = object.get_type().name()?;
    Err(untraceable(format!(
        "an expression takes numbers and expressions, got {kind}; give one of these"
    )))
}
