//! Result types against a table from NumPy (`fixtures/numpy_types.py`).

use std::collections::BTreeMap;

use isochrony_expr::{Binary, Expr, ExprError, Op, Program, Reduction, Unary};
use isochrony_segment::{Complex64, DType};

#[derive(serde::Deserialize)]
struct Table {
    numpy: String,
    types: BTreeMap<String, String>,
}

fn table() -> Table {
    serde_json::from_str(include_str!("fixtures/numpy_types.json")).unwrap()
}

/// Supported by NumPy and deliberately rejected.
fn refused(name: &str, operands: &[&str]) -> bool {
    let complex = operands
        .iter()
        .any(|operand| operand.starts_with("complex"));
    let functions = [
        "sqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "tanh",
        "round", "rint", "pow",
    ];
    (complex && functions.contains(&name)) || (name == "pow" && operands == ["bool", "int"])
}

fn operand(name: &str, input: &Expr) -> Expr {
    match name {
        "int" => Expr::from(2),
        "float" => Expr::from(2.5),
        "complex" => Expr::from(Complex64::new(0.0, 2.5)),
        dtype => input.astype(dtype.parse().unwrap()),
    }
}

fn expression(name: &str, operands: &[&str]) -> Expr {
    let input = Expr::input();
    let op = match name {
        "where" => Op::Where,
        _ => Op::named(name).unwrap(),
    };
    let mut args: Vec<Expr> = operands.iter().map(|name| operand(name, &input)).collect();
    if op == Op::Where {
        args.insert(0, input.astype(DType::Bool));
    }
    Expr::apply(op, args).unwrap()
}

#[test]
fn every_result_has_numpys_dtype_or_an_error_that_says_why_not() {
    let table = table();
    assert!(table.numpy.starts_with("2."), "{}", table.numpy);
    let mut compared = 0;
    for (case, expected) in &table.types {
        let (name, operands) = case.strip_suffix(')').unwrap().split_once('(').unwrap();
        let operands: Vec<&str> = operands.split(", ").collect();
        let expr = expression(name, &operands).wrapping();
        // Operands are converted from any dtype.
        let input = if operands
            .iter()
            .any(|operand| operand.starts_with("complex"))
        {
            DType::Bool
        } else {
            DType::I64
        };
        let signed_exponent = name == "pow"
            && operands[1].starts_with("int")
            && operands[1] != "int"
            && !operands[0].contains("float")
            && !operands[0].contains("complex");
        let got = Program::compile(&expr, input);
        match (expected.as_str(), got) {
            ("error", Err(ExprError::UnsupportedOperand { .. })) => {}
            ("uint64", Ok(program)) => {
                assert_eq!(
                    (name, program.output().dtype),
                    ("sum", DType::I64),
                    "{case}"
                );
            }
            ("error", got) => panic!("{case}: NumPy refuses, we give {got:?}"),
            ("float16", Err(ExprError::MissingDType { numpy, .. })) => {
                assert_eq!(numpy, expected, "{case}");
            }
            (_, Err(ExprError::UnsupportedOperand { .. })) if refused(name, &operands) => {}
            // Negative exponents are errors in NumPy, too, but at run time.
            (_, Err(ExprError::NeedsConstant { .. })) if signed_exponent => {}
            (_, Ok(program)) => {
                assert_eq!(program.output().dtype.name(), expected, "{case}");
                compared += 1;
            }
            (_, Err(error)) => panic!("{case}: NumPy gives {expected}, we {error}"),
        }
    }
    assert!(compared > 2500, "{compared}");
}

#[test]
fn the_table_covers_every_operation() {
    let table = table();
    let names = Unary::ALL.iter().map(|op| op.name());
    let names = names.chain(Binary::ALL.iter().map(|op| op.name()));
    let names = names.chain(Reduction::ALL.iter().map(|op| op.name()));
    for name in names {
        let known = table
            .types
            .keys()
            .any(|case| case.starts_with(&format!("{name}(")));
        // These two have no single NumPy function.
        assert!(known || ["count", "rms"].contains(&name), "{name}");
    }
}
