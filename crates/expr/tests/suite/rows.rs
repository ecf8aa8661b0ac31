//! Expressions of fields against those of samples, and against plain loops.

use isochrony_expr::{Expr, Frames, Name, Program, RowField, RowProgram};
use isochrony_segment::{DType, Sample};
use proptest::prelude::*;

fn field(name: &str, dtype: DType) -> RowField {
    RowField {
        name: name.into(),
        dtype: Some(dtype),
    }
}

type Written = fn(&Expr) -> Expr;

/// Elementwise expressions.
const EXPRESSIONS: [Written; 10] = [
    |x| x + 1,
    |x| x.gt(3),
    |x| (x * x - x) / 7,
    |x| x.floordiv(3) % 5,
    |x| (x.gt(2) & x.lt(9)).select(x, 0),
    |x| x.clip(-2, 5).astype(DType::F32).sqrt(),
    |x| x.maximum(x.minimum(4) + 2),
    |x| x.astype(DType::F64).pow(3).isfinite() | x.equal(1),
    |x| x.abs().hypot(3.5),
    |x| (x + x) * (x - 1) + (x * 2 - x) * (x + 3),
];

fn as_samples<T: Sample>(x: &[T]) {
    for (at, written) in EXPRESSIONS.iter().enumerate() {
        let of_samples = Program::compile(&written(&Expr::input()), T::DTYPE);
        let fields = [field("other", DType::F64), field("x", T::DTYPE)];
        let of_rows = RowProgram::compile(&written(&Expr::field("x")), &fields);
        let (of_samples, mut of_rows) = match (of_samples, of_rows) {
            (Ok(a), Ok(b)) => (a, b),
            (Err(a), Err(b)) if a.code() == b.code() => continue,
            (a, b) => panic!("expression {at}: {a:?} {b:?}"),
        };
        assert_eq!(of_rows.output(), of_samples.output().dtype);
        assert_eq!(of_rows.columns(), [1]);
        let size = of_rows.output().size();
        // Words are aligned for every dtype.
        let (mut a, mut b) = (vec![0u64; x.len()], vec![0u64; x.len()]);
        let a = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut a)[..x.len() * size];
        let b = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut b)[..x.len() * size];
        if !x.is_empty() {
            let (mut scratch, mut state) = (of_samples.scratch(), of_samples.state());
            of_samples
                .run_bytes(&mut scratch, &mut state, &Frames::stretch(x), a)
                .unwrap();
        }
        of_rows.run(&[bytemuck::cast_slice(x)], x.len(), b).unwrap();
        assert_eq!(a, b, "expression {at} of {}", T::DTYPE);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn rows_and_samples_give_the_same_bits(
        x in prop::collection::vec(-20i16..20, 0..40),
        repeat in prop_oneof![Just(1usize), Just(60)],
    ) {
        let x = x.repeat(repeat);
        as_samples(&x);
        as_samples(&x.iter().map(|&x| i32::from(x)).collect::<Vec<_>>());
        as_samples(&x.iter().map(|&x| x as u8).collect::<Vec<_>>());
        as_samples(&x.iter().map(|&x| f32::from(x) / 3.0).collect::<Vec<_>>());
        as_samples(&x.iter().map(|&x| if x == 7 { f64::NAN } else { f64::from(x) }).collect::<Vec<_>>());
    }
}

#[test]
fn fields_promote_by_numpys_rules() {
    let r = Expr::field;
    let expr = (r("a") * r("b")).gt(r("c")) | r("flag");
    assert_eq!(expr.to_string(), "(r.a * r.b > r.c) | r.flag");
    let fields = [
        field("flag", DType::Bool),
        field("a", DType::I16),
        field("b", DType::F32),
        field("c", DType::I64),
    ];
    let mut program = RowProgram::compile(&expr, &fields).unwrap();
    let count = 2500;
    let a: Vec<i16> = (0..count).map(|k| (k * 7 % 31) as i16).collect();
    let b: Vec<f32> = (0..count).map(|k| (k % 9) as f32 / 4.0).collect();
    let c: Vec<i64> = (0..count).map(|k| k as i64 % 23).collect();
    let flag: Vec<u8> = (0..count).map(|k| u8::from(k % 50 == 0)).collect();
    let all: [&[u8]; 4] = [
        &flag,
        bytemuck::cast_slice(&a),
        bytemuck::cast_slice(&b),
        bytemuck::cast_slice(&c),
    ];
    let columns: Vec<&[u8]> = program.columns().iter().map(|&at| all[at]).collect();
    let mut out = vec![0u8; count];
    program.run(&columns, count, &mut out).unwrap();
    for k in 0..count {
        let want = f64::from(f32::from(a[k]) * b[k]) > c[k] as f64 || flag[k] == 1;
        assert_eq!(out[k] == 1, want, "row {k}");
    }
}

#[test]
fn names_read_back_from_files_and_print_as_python() {
    let expr = (Expr::field("a b") + Expr::field("_x1")) / Expr::field("1st");
    assert_eq!(expr.to_string(), r#"(r["a b"] + r._x1) / r["1st"]"#);
    let saved = serde_json::to_string(&expr).unwrap();
    assert!(saved.contains(r#"{"op":"field","name":"a b"}"#), "{saved}");
    let read: Expr = serde_json::from_str(&saved).unwrap();
    assert_eq!(read, expr);
    assert_eq!(Name::new("a b").as_str(), "a b");
}
