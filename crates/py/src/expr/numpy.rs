//! NumPy's functions of expressions.

use isochrony_expr::{Binary, Expr as NativeExpr, Op, Reduction, Unary};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::expression::{Expr, untraceable};
use super::{apply, operand};
use crate::errors::Result;

fn ufunc_op(name: &str) -> Option<Op> {
    Some(match name {
        "negative" => Op::Unary(Unary::Neg),
        "absolute" => Op::Unary(Unary::Abs),
        "invert" => Op::Unary(Unary::Invert),
        "sqrt" => Op::Unary(Unary::Sqrt),
        "exp" => Op::Unary(Unary::Exp),
        "expm1" => Op::Unary(Unary::Expm1),
        "log" => Op::Unary(Unary::Log),
        "log1p" => Op::Unary(Unary::Log1p),
        "log2" => Op::Unary(Unary::Log2),
        "log10" => Op::Unary(Unary::Log10),
        "sin" => Op::Unary(Unary::Sin),
        "cos" => Op::Unary(Unary::Cos),
        "tan" => Op::Unary(Unary::Tan),
        "tanh" => Op::Unary(Unary::Tanh),
        "floor" => Op::Unary(Unary::Floor),
        "ceil" => Op::Unary(Unary::Ceil),
        "trunc" => Op::Unary(Unary::Trunc),
        "rint" => Op::Unary(Unary::Rint),
        "isnan" => Op::Unary(Unary::IsNan),
        "isfinite" => Op::Unary(Unary::IsFinite),
        "conjugate" => Op::Unary(Unary::Conj),
        "add" => Op::Binary(Binary::Add),
        "subtract" => Op::Binary(Binary::Sub),
        "multiply" => Op::Binary(Binary::Mul),
        "divide" => Op::Binary(Binary::Div),
        "floor_divide" => Op::Binary(Binary::FloorDiv),
        "remainder" => Op::Binary(Binary::Mod),
        "fmod" => Op::Binary(Binary::Fmod),
        "power" => Op::Binary(Binary::Pow),
        "less" => Op::Binary(Binary::Lt),
        "less_equal" => Op::Binary(Binary::Le),
        "greater" => Op::Binary(Binary::Gt),
        "greater_equal" => Op::Binary(Binary::Ge),
        "equal" => Op::Binary(Binary::Eq),
        "not_equal" => Op::Binary(Binary::Ne),
        "bitwise_and" => Op::Binary(Binary::And),
        "bitwise_or" => Op::Binary(Binary::Or),
        "bitwise_xor" => Op::Binary(Binary::Xor),
        "arctan2" => Op::Binary(Binary::Arctan2),
        "hypot" => Op::Binary(Binary::Hypot),
        "minimum" => Op::Binary(Binary::Minimum),
        "maximum" => Op::Binary(Binary::Maximum),
        _ => return None,
    })
}

fn function_op(name: &str) -> Option<Op> {
    Some(match name {
        "where" => Op::Where,
        "clip" => Op::Clip,
        "real" => Op::Unary(Unary::Real),
        "imag" => Op::Unary(Unary::Imag),
        "angle" => Op::Unary(Unary::Angle),
        "round" | "around" => Op::Unary(Unary::Round),
        "mean" => Op::Reduce(Reduction::Mean),
        "std" => Op::Reduce(Reduction::Std),
        "var" => Op::Reduce(Reduction::Var),
        "min" | "amin" => Op::Reduce(Reduction::Min),
        "max" | "amax" => Op::Reduce(Reduction::Max),
        "sum" => Op::Reduce(Reduction::Sum),
        "any" => Op::Reduce(Reduction::Any),
        "all" => Op::Reduce(Reduction::All),
        "count_nonzero" => Op::Reduce(Reduction::Count),
        _ => return None,
    })
}

fn unknown(name: &str) -> crate::errors::Error {
    untraceable(format!(
        "np.{name} cannot be part of an expression; use arithmetic, np.abs, np.sqrt, np.exp, np.expm1, np.log, \
         np.log1p, np.log2, np.log10, np.sin, np.cos, np.tan, np.tanh, np.arctan2, np.hypot, np.fmod, np.floor, \
         np.ceil, np.trunc, np.rint, np.minimum, np.maximum, np.clip, np.where, \
         np.isnan, np.isfinite, np.real, np.imag, np.angle, np.conj or a reduction such as np.mean"
    ))
}

fn arguments(
    name: &str,
    op: Op,
    args: &Bound<'_, PyTuple>,
    options: usize,
) -> Result<Vec<NativeExpr>> {
    if args.len() != op.arguments() || options > 0 {
        let takes = op.arguments();
        return Err(untraceable(format!(
            "np.{name} in an expression takes {takes} argument(s) by position and no options; leave the others out"
        )));
    }
    args.iter().map(|arg| operand(&arg)).collect()
}

/// `numpy.<name>(*inputs)`.
pub(super) fn ufunc(
    name: &str,
    method: &str,
    inputs: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> Result<Expr> {
    if method != "__call__" {
        return Err(unknown(&format!("{name}.{method}")));
    }
    let options = kwargs.map_or(0, PyDictMethods::len);
    if name == "square" {
        let [value] = &arguments(name, Op::Unary(Unary::Neg), inputs, options)?[..] else {
            return Err(unknown(name));
        };
        return apply(Op::Binary(Binary::Mul), [value.clone(), value.clone()]);
    }
    let op = ufunc_op(name).ok_or_else(|| unknown(name))?;
    apply(op, arguments(name, op, inputs, options)?)
}

/// `numpy.<name>(*args)`; not universal.
pub(super) fn function(
    name: &str,
    args: &Bound<'_, PyTuple>,
    kwargs: &Bound<'_, PyDict>,
) -> Result<Expr> {
    let op = function_op(name).ok_or_else(|| unknown(name))?;
    apply(op, arguments(name, op, args, kwargs.len())?)
}
