//! Messages and occurrences of every error.

use std::collections::BTreeMap;

use isochrony_expr::{Expr, ExprError, Frames, Graph, Input, Op, Program, RowField, RowProgram};
use isochrony_segment::{Bool8, Complex64, DType};

fn s() -> Expr {
    Expr::input()
}

fn refusal(expr: &Expr, input: DType) -> ExprError {
    Program::compile(expr, input).unwrap_err()
}

fn saved(nodes: &str) -> String {
    let read: Result<Graph, _> = serde_json::from_str(&format!("{{\"nodes\": [{nodes}]}}"));
    read.unwrap_err().to_string()
}

fn rows(expr: &Expr) -> Result<RowProgram, ExprError> {
    let fields = [("mean", Some(DType::F64)), ("list", None)].map(|(name, dtype)| RowField {
        name: name.into(),
        dtype,
    });
    RowProgram::compile(expr, &fields)
}

/// Each variant as it occurs, and parts of its message.
fn examples() -> Vec<(ExprError, Vec<&'static str>)> {
    let program = Program::compile(&(s() + 1).wrapping(), DType::I16).unwrap();
    let other = Program::compile(&(s() + 1).wrapping(), DType::I16).unwrap();
    let (mut scratch, mut state) = (program.scratch(), program.state());
    let inputs = [Input::samples(DType::I16), Input::values(DType::I16)];
    let two = Program::compile_inputs(&(s() + Expr::input_at(1)), &inputs).unwrap();
    let samples = [1i16, 2, 3];
    let floats = [1.0f32];
    let frames = Frames::stretch(&samples);
    let mut out = [0i16; 3];
    let mut bytes = [0u64; 2];
    let bytes: &mut [u8] = bytemuck::bytes_of_mut(&mut bytes);
    vec![
        (Graph::new([]).unwrap_err(), vec!["no nodes", "give"]),
        (
            Graph::new((0..70_000).map(|_| (Op::Input(0), vec![]))).unwrap_err(),
            vec!["65537", "65536", "in parts"],
        ),
        (
            ExprError::UnknownOperation {
                node: 3,
                name: "median".into(),
            },
            vec!["node 3", "\"median\"", "mean, std", "hysteresis"],
        ),
        (
            Graph::new([(Op::Where, vec![0, 1, 2])]).unwrap_err(),
            vec!["node 0", "where", "argument 0", "earlier"],
        ),
        (
            Expr::apply(Op::Where, [s()]).unwrap_err(),
            vec!["where", "takes 3", "got 1"],
        ),
        (
            ExprError::MissingField {
                node: 1,
                op: "cast",
                field: "dtype",
            },
            vec!["node 1", "cast", "lacks \"dtype\"", "beside"],
        ),
        (
            ExprError::StrayField {
                node: 2,
                op: "add",
                field: "value",
                owner: "constant",
            },
            vec![
                "node 2",
                "add",
                "\"value\"",
                "only constant",
                "leave it out",
            ],
        ),
        (
            "0x3".parse::<isochrony_expr::Scalar>().unwrap_err(),
            vec!["\"0x3\"", "True", "2.5", "Python"],
        ),
        (
            refusal(&(s() & 3), DType::F32),
            vec!["s & 3", "and", "float32 and a Python int", "astype"],
        ),
        (
            refusal(&(s().sqrt() + 1), DType::U8),
            vec!["sqrt(s)", "uint8", "float16", ".astype(\"float32\")"],
        ),
        (
            refusal(&s().mean().max(), DType::I16),
            vec![
                "s.mean().max()",
                "max",
                "one value per window",
                "leave max out",
            ],
        ),
        (
            refusal(&s().ewm(0.5), DType::F32),
            vec!["s.ewm(0.5)", "samples", "s.mean().ewm"],
        ),
        (
            refusal(&s().mean().ewm(s().std()), DType::F32),
            vec!["alpha", "constant", "one value per window", "number"],
        ),
        (
            refusal(&s().mean().ewm(1.5), DType::F32),
            vec!["alpha", "above 0", "got 1.5", "range"],
        ),
        (
            refusal(&s().minimum(300), DType::U8),
            vec!["minimum(s, 300)", "300", "uint8", "astype"],
        ),
        (
            refusal(&(Expr::from(1) + 2), DType::U8),
            vec!["1 + 2", "input"],
        ),
        (
            Frames::new(&samples, 0, 1).unwrap_err(),
            vec!["0 samples", "one every 1", "3 samples", "at least 1"],
        ),
        (
            program
                .run(
                    &mut scratch,
                    &mut state,
                    &Frames::stretch(&floats),
                    &mut out,
                )
                .unwrap_err(),
            vec!["int16", "float32", "compile it for float32"],
        ),
        (
            program
                .run(&mut scratch, &mut state, &frames, &mut [0.0f64; 3])
                .unwrap_err(),
            vec!["int16", "float64", "pass an output of int16"],
        ),
        (
            program
                .run(&mut scratch, &mut state, &frames, &mut out[..1])
                .unwrap_err(),
            vec!["6 bytes", "output 2", "pass"],
        ),
        (
            program
                .run_bytes(&mut scratch, &mut state, &frames, &mut bytes[1..7])
                .unwrap_err(),
            vec!["output", "int16", "multiple of 2", "aligned"],
        ),
        (
            program
                .run(&mut other.scratch(), &mut state, &frames, &mut out)
                .unwrap_err(),
            vec!["scratch", "another program", "this program"],
        ),
        (
            refusal(&Expr::field("mean"), DType::I16),
            vec!["r.mean", "samples", "s.mean()"],
        ),
        (
            rows(&Expr::field("a b").gt(3)).unwrap_err(),
            vec!["\"a b\"", "mean, list"],
        ),
        (
            rows(&Expr::field("list")).unwrap_err(),
            vec!["\"list\"", "list in each row", "reduce"],
        ),
        (
            rows(&Expr::field("mean").max()).unwrap_err(),
            vec!["r.mean.max()", "max", "window", "group_by"],
        ),
        (
            rows(&Expr::field("mean").gt(3))
                .unwrap()
                .run(&[], 1, &mut [0])
                .unwrap_err(),
            vec!["column 0", "0 bytes", "expected 8", "each row"],
        ),
        (
            refusal(&(s() + Expr::input_at(1)), DType::I16),
            vec!["s + s1", "takes 2", "got 1"],
        ),
        (
            two.run_inputs(
                &mut two.scratch(),
                &mut two.state(),
                &[frames, frames],
                &mut [0; 6],
            )
            .unwrap_err(),
            vec!["input 1", "1 windows of 3", "1 of 1", "one value a window"],
        ),
    ]
}

#[test]
fn every_message_says_what_where_and_how_to_mend_it() {
    let mut met: BTreeMap<&str, usize> = BTreeMap::new();
    for (error, parts) in examples() {
        // A new variant does not compile before it has an index.
        let place = match error {
            ExprError::NoNodes => 0,
            ExprError::TooLarge { .. } => 1,
            ExprError::UnknownOperation { .. } => 2,
            ExprError::ForwardReference { .. } => 3,
            ExprError::ArgumentCount { .. } => 4,
            ExprError::MissingField { .. } => 5,
            ExprError::StrayField { .. } => 6,
            ExprError::UnknownConstant { .. } => 7,
            ExprError::UnsupportedOperand { .. } => 8,
            ExprError::MissingDType { .. } => 9,
            ExprError::NeedsSamples { .. } => 10,
            ExprError::NeedsWindows { .. } => 11,
            ExprError::NeedsConstant { .. } => 12,
            ExprError::ParameterRange { .. } => 13,
            ExprError::ConstantOutOfRange { .. } => 14,
            ExprError::NoInput { .. } => 15,
            ExprError::FramesOutOfBounds { .. } => 16,
            ExprError::InputDType { .. } => 17,
            ExprError::OutputDType { .. } => 18,
            ExprError::OutputLength { .. } => 19,
            ExprError::Misaligned { .. } => 20,
            ExprError::ForeignScratch { .. } => 21,
            ExprError::FieldOfSamples { .. } => 22,
            ExprError::UnknownField { .. } => 23,
            ExprError::ListField { .. } => 24,
            ExprError::NotOfRows { .. } => 25,
            ExprError::ColumnLength { .. } => 26,
            ExprError::InputCount { .. } => 27,
            ExprError::InputFrames { .. } => 28,
            other => panic!("{other:?} has no example"),
        };
        assert_eq!(met.insert(error.code(), place), None, "{error:?}");
        let message = error.to_string();
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }
    assert_eq!(met.len(), 29);
}

#[test]
fn typing_refuses_what_numpy_refuses_and_what_signals_cannot_have() {
    for (expr, input, code) in [
        (s() - s(), DType::Bool, "unsupported_operand"),
        (-s(), DType::Bool, "unsupported_operand"),
        (!s(), DType::F32, "unsupported_operand"),
        (s().floor(), DType::C64, "unsupported_operand"),
        (s() % 2, DType::C128, "unsupported_operand"),
        (s().exp(), DType::C64, "unsupported_operand"),
        (s().astype(DType::F32), DType::C64, "unsupported_operand"),
        (s().mean().ewm(0.5), DType::C64, "unsupported_operand"),
        (s().round(), DType::Bool, "missing_dtype"),
        (s().arctan2(1), DType::I8, "missing_dtype"),
        (s().pow(-1), DType::I16, "parameter_range"),
        (s().pow(s()), DType::I16, "needs_constant"),
        (s().pow(s().max()), DType::I16, "needs_constant"),
        (s().mean().ewm(0), DType::F32, "parameter_range"),
        (s().mean().ewm(f64::NAN), DType::F32, "parameter_range"),
        (s().mean().hysteresis(s(), 1), DType::F32, "needs_constant"),
        (s().mean().previous(s().min()), DType::F32, "needs_constant"),
        (
            s() + Expr::typed(128, DType::I8),
            DType::I8,
            "constant_out_of_range",
        ),
        (s().minimum(-1), DType::U8, "constant_out_of_range"),
        (Expr::from(3).sqrt(), DType::I8, "no_input"),
        (Expr::from(3).mean() + s(), DType::I8, "needs_samples"),
        (Expr::from(3).counter() + s(), DType::I8, "needs_windows"),
        (
            s() * Complex64::new(1.0, 1.0) % 2,
            DType::F32,
            "unsupported_operand",
        ),
    ] {
        assert_eq!(refusal(&expr, input).code(), code, "{expr}");
    }
}

#[test]
fn saved_expressions_are_checked() {
    for (nodes, parts) in [
        ("", &["no nodes"][..]),
        (r#"{"op": "median", "args": [0]}"#, &["node 0", "median"]),
        (
            r#"{"op": "input", "value": "3"}"#,
            &["input", "value", "leave it out"],
        ),
        (
            r#"{"op": "input"}, {"op": "mean", "args": [0], "dtype": "int8"}"#,
            &["mean", "dtype"],
        ),
        (r#"{"op": "field"}"#, &["field", "lacks \"name\""]),
        (
            r#"{"op": "input", "name": "x"}"#,
            &["input", "\"name\"", "only field"],
        ),
        (
            r#"{"op": "field", "name": "x", "value": "3"}"#,
            &["\"value\"", "leave it out"],
        ),
        (r#"{"op": "constant"}"#, &["constant", "lacks \"value\""]),
        (
            r#"{"op": "constant", "value": "three"}"#,
            &["three", "not a constant"],
        ),
        (
            r#"{"op": "input"}, {"op": "cast", "args": [0]}"#,
            &["node 1", "cast", "dtype"],
        ),
        (
            r#"{"op": "input"}, {"op": "add", "args": [0]}"#,
            &["add", "takes 2", "got 1"],
        ),
        (
            r#"{"op": "mean", "args": [0]}"#,
            &["node 0", "mean", "earlier"],
        ),
        (r#"{"op": "input", "arg": []}"#, &["unknown field"]),
    ] {
        let message = saved(nodes);
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }
}

#[test]
fn saved_expressions_read_back_the_same() {
    let x = (s() - s().mean()) / s().std();
    let expr = (x.gt(Expr::typed(3, DType::F32)) & x.lt(f64::INFINITY))
        .any()
        .counter();
    let text = serde_json::to_string(&expr).unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"nodes":[{"op":"input"},{"op":"mean","args":[0]},{"op":"sub","args":[0,1]},"#,
            r#"{"op":"std","args":[0]},{"op":"div","args":[2,3]},"#,
            r#"{"op":"constant","value":"3","dtype":"float32"},{"op":"gt","args":[4,5]},"#,
            r#"{"op":"constant","value":"inf"},{"op":"lt","args":[4,7]},"#,
            r#"{"op":"and","args":[6,8]},{"op":"any","args":[9]},{"op":"counter","args":[10]}]}"#
        )
    );
    let read: Expr = serde_json::from_str(&text).unwrap();
    assert_eq!(read, expr);
    assert_ne!(read, expr.previous(0));
    let cast = s().astype(DType::C64) * Complex64::new(0.1, -0.0);
    let read: Expr = serde_json::from_str(&serde_json::to_string(&cast).unwrap()).unwrap();
    assert_eq!(read, cast);
}

#[test]
fn deep_expressions_do_not_overflow_the_stack() {
    let mut x = s();
    for _ in 0..50_000 {
        x = x + 1;
    }
    let text = serde_json::to_string(&x).unwrap();
    let read: Expr = serde_json::from_str(&text).unwrap();
    assert_eq!(read, x);
    assert!(x.to_string().len() < 2_000_000);
    let program = Program::compile(&x, DType::I64).unwrap();
    let mut out = [0i64];
    let (mut scratch, mut state) = (program.scratch(), program.state());
    program
        .run(
            &mut scratch,
            &mut state,
            &Frames::stretch(&[7i64]),
            &mut out,
        )
        .unwrap();
    assert_eq!(out, [50_007]);
    let truth = Program::compile(&s(), DType::Bool).unwrap();
    let mut out = [Bool8::default()];
    let (mut scratch, mut state) = (truth.scratch(), truth.state());
    let yes = [Bool8::from(true)];
    truth
        .run(&mut scratch, &mut state, &Frames::stretch(&yes), &mut out)
        .unwrap();
    assert_eq!(out, yes);
}
