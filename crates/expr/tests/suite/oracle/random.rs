//! Random expressions that NumPy and this crate support.

use isochrony_expr::{Binary, Expr, Memory, Op, Reduction, Scalar, Unary};
use isochrony_segment::{Complex64, DType};

use super::result;

/// Allowed operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ops {
    /// With uniquely rounded results.
    Exact,
    /// All.
    All,
}

#[derive(Debug, Clone)]
struct Subexpression {
    expr: Expr,
    kind: &'static str,
    shape: u8,
}

const CONSTANT: u8 = 0;
const WINDOW: u8 = 1;
const SAMPLE: u8 = 2;

fn name(dtype: DType) -> &'static str {
    dtype.name()
}

fn constant(choice: u32) -> Subexpression {
    let integers = [0i64, 1, 2, 3, 5, 7, 100, 127];
    let floats = [0.0, 0.5, -1.5, 3.0, 100.25, -0.125, 1e30, f64::INFINITY];
    let value = integers[(choice / 16 % 8) as usize];
    let float = floats[(choice / 16 % 8) as usize];
    let (expr, kind) = match choice % 8 {
        0 | 1 => (Expr::from(value), "int"),
        2 | 3 => (Expr::from(float), "float"),
        4 => (Expr::from(Complex64::new(float, 1.0)), "complex"),
        5 => (Expr::from(value % 2 == 0), "bool"),
        _ => {
            let dtype = DType::ALL[choice as usize / 256 % DType::ALL.len()];
            (Expr::typed(Scalar::Int(value), dtype), name(dtype))
        }
    };
    Subexpression {
        expr,
        kind,
        shape: CONSTANT,
    }
}

fn allowed(op: Op, ops: Ops, kinds: &[&str]) -> bool {
    let complex = kinds.iter().any(|kind| kind.starts_with("complex"));
    let float = kinds.iter().any(|kind| kind.starts_with("float"));
    let exact = ops == Ops::Exact;
    match op {
        Op::Unary(Unary::Abs) => !(exact && complex),
        Op::Unary(Unary::Sqrt) => !complex,
        Op::Unary(
            Unary::Exp
            | Unary::Expm1
            | Unary::Log
            | Unary::Log1p
            | Unary::Log2
            | Unary::Log10
            | Unary::Sin
            | Unary::Cos
            | Unary::Tan
            | Unary::Tanh,
        ) => !exact && !complex,
        Op::Unary(Unary::Angle) => !exact,
        Op::Unary(Unary::Round | Unary::Rint) => !complex,
        // Integers only with a constant.
        Op::Binary(Binary::Pow) => !exact && float && !complex,
        Op::Binary(Binary::Arctan2 | Binary::Hypot) => !exact,
        Op::Reduce(Reduction::Sum | Reduction::Mean) => !(exact && (float || complex)),
        Op::Reduce(Reduction::Std | Reduction::Var) => {
            !exact || ["bool", "int8", "int16", "uint8", "uint16"].contains(&kinds[0])
        }
        Op::Reduce(Reduction::Rms) => !exact,
        _ => true,
    }
}

fn result_of(op: Op, kinds: &[&str]) -> Option<DType> {
    match op {
        Op::Reduce(Reduction::Count) => Some(DType::I64),
        Op::Reduce(Reduction::Rms) => match kinds[0] {
            "float32" | "complex64" => Some(DType::F32),
            _ => Some(DType::F64),
        },
        _ => result(op.name(), kinds),
    }
}

/// One step per choice.
pub(crate) fn expression(input: DType, ops: Ops, choices: &[u32]) -> Expr {
    expression_of(&[(input, true)], ops, choices)
}

/// Dtype of each input, and whether it has a value per sample or per window.
pub(crate) fn expression_of(inputs: &[(DType, bool)], ops: Ops, choices: &[u32]) -> Expr {
    let input = |(place, &(dtype, per_sample)): (usize, &(DType, bool))| Subexpression {
        expr: Expr::input_at(place as u8),
        kind: name(dtype),
        shape: if per_sample { SAMPLE } else { WINDOW },
    };
    let mut subexpressions: Vec<Subexpression> = inputs.iter().enumerate().map(input).collect();
    for &choice in choices {
        if let Some(next) = step(&subexpressions, ops, choice) {
            subexpressions.push(next);
        }
    }
    let last = subexpressions
        .into_iter()
        .rev()
        .find(|subexpressions| subexpressions.shape != CONSTANT);
    last.unwrap().expr
}

fn step(subexpressions: &[Subexpression], ops: Ops, choice: u32) -> Option<Subexpression> {
    // Mostly the latest, for depth.
    let pick = |bits: u32| -> &Subexpression {
        let back = [0, 0, 0, 1, 1, 2, 3, bits as usize / 8][bits as usize % 8];
        &subexpressions[subexpressions.len() - 1 - back.min(subexpressions.len() - 1)]
    };
    let a = pick(choice >> 8 & 63);
    let many = choice >> 20;
    match choice % 16 {
        0..3 => {
            let op = Unary::ALL[many as usize % Unary::ALL.len()];
            apply(Op::Unary(op), std::slice::from_ref(a), ops)
        }
        3..8 => {
            let op = Op::Binary(Binary::ALL[many as usize % Binary::ALL.len()]);
            let b = if choice & 16 == 0 {
                constant(choice >> 14)
            } else {
                pick(choice >> 14 & 63).clone()
            };
            let mut args = [a.clone(), b];
            if choice & 32 == 0 {
                args.reverse();
            }
            apply(op, &args, ops)
        }
        8..11 => {
            let op = Reduction::ALL[many as usize % Reduction::ALL.len()];
            let sampled = subexpressions
                .iter()
                .rev()
                .find(|subexpressions| subexpressions.shape == SAMPLE)?;
            let on = if a.shape == SAMPLE { a } else { sampled };
            apply(Op::Reduce(op), std::slice::from_ref(on), ops)
        }
        11 | 12 => {
            let condition = pick(choice >> 14 & 63);
            let b = if choice & 16 == 0 {
                constant(choice >> 14)
            } else {
                pick(choice >> 20 & 63).clone()
            };
            let dtype = if a.kind == b.kind {
                a.kind.parse().ok()?
            } else {
                result("where", &[a.kind, b.kind])?
            };
            if condition.shape == CONSTANT {
                return None;
            }
            Some(Subexpression {
                expr: condition.expr.select(&a.expr, &b.expr),
                kind: name(dtype),
                shape: condition.shape.max(a.shape).max(b.shape),
            })
        }
        13 => {
            let dtype = DType::ALL[many as usize % DType::ALL.len()];
            let from: DType = a.kind.parse().ok()?;
            let loses = from.is_complex() && !dtype.is_complex() && dtype != DType::Bool;
            (!loses).then(|| Subexpression {
                expr: a.expr.astype(dtype),
                kind: name(dtype),
                shape: a.shape,
            })
        }
        _ => {
            let value = subexpressions
                .iter()
                .rev()
                .find(|subexpressions| subexpressions.shape == WINDOW)?;
            let complex = value.kind.starts_with("complex");
            let op = Memory::ALL[many as usize % 4];
            let (expr, kind) = match op {
                Memory::Ewm if !complex => {
                    let kind = if value.kind == "float32" {
                        "float32"
                    } else {
                        "float64"
                    };
                    (value.expr.ewm(0.25), kind)
                }
                Memory::Counter => (value.expr.counter(), "int64"),
                Memory::Previous => {
                    let kind = result("where", &[value.kind, "int"])?;
                    (value.expr.previous(3), name(kind))
                }
                _ => return None,
            };
            Some(Subexpression {
                expr,
                kind,
                shape: WINDOW,
            })
        }
    }
}

fn apply(op: Op, args: &[Subexpression], ops: Ops) -> Option<Subexpression> {
    let kinds: Vec<&str> = args
        .iter()
        .map(|subexpressions| subexpressions.kind)
        .collect();
    let weak = |kind: &str| ["int", "float", "complex"].contains(&kind);
    // Without a dtype, numbers are Python's.
    if kinds.iter().all(|kind| weak(kind)) || !allowed(op, ops, &kinds) {
        return None;
    }
    let dtype = result_of(op, &kinds)?;
    let shape = match op {
        Op::Reduce(_) => WINDOW,
        _ => args
            .iter()
            .map(|subexpressions| subexpressions.shape)
            .max()?,
    };
    // NumPy's integers wrap.
    let expr = Expr::apply(
        op.wrapping(),
        args.iter()
            .map(|subexpressions| subexpressions.expr.clone()),
    )
    .ok()?;
    Some(Subexpression {
        expr,
        kind: name(dtype),
        shape,
    })
}
