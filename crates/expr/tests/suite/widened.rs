//! Widening and wrapping arithmetic against 128-bit integers.

use isochrony_expr::{Binary, Expr, Frames, Input, Op, Program, Unary};
use isochrony_segment::{DType, dispatch};
use proptest::prelude::*;

use crate::oracle::number::Num;
use crate::oracle::numbers;

const INTEGERS: [DType; 7] = [
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
];

/// Numbers cut to a dtype, every fourth at a limit, and their stored form.
fn values(raw: &[u64], dtype: DType) -> (Vec<u128>, Vec<Num>) {
    let bits = 8 * dtype.size();
    let cut = |(at, &raw): (usize, &u64)| match at % 4 {
        0 => [0, u64::MAX, 1 << (bits - 1), (1 << (bits - 1)) - 1][raw as usize % 4],
        _ => raw,
    };
    let bytes = raw.iter().enumerate().map(cut);
    let bytes: Vec<u8> = bytes
        .flat_map(|raw| raw.to_le_bytes()[..dtype.size()].to_vec())
        .collect();
    let mut aligned = vec![0u128; raw.len()];
    bytemuck::cast_slice_mut(&mut aligned)[..bytes.len()].copy_from_slice(&bytes);
    let known = dispatch!(dtype, T => {
        numbers::<T>(&bytemuck::cast_slice(&aligned)[..raw.len()])
    });
    (aligned, known)
}

/// Results in 128 bits.
fn run(expr: &Expr, dtypes: [DType; 2], stored: [&[u128]; 2], len: usize) -> (DType, Vec<i128>) {
    let program = Program::compile_inputs(expr, &dtypes.map(Input::samples)).unwrap();
    let (mut scratch, mut state) = (program.scratch(), program.state());
    let frames = [0, 1].map(|place| {
        let bytes = bytemuck::cast_slice(stored[place]);
        Frames::from_bytes(bytes, dtypes[place], len, len, 1).unwrap()
    });
    let dtype = program.output().dtype;
    let mut out = vec![0u128; len];
    let bytes = &mut bytemuck::cast_slice_mut(&mut out)[..len * dtype.size()];
    program
        .run_inputs(&mut scratch, &mut state, &frames, bytes)
        .unwrap();
    let results = dispatch!(dtype, T => numbers::<T>(&bytemuck::cast_slice(&out)[..len]));
    (dtype, results.iter().map(|number| number.int).collect())
}

fn limits(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.size();
    if dtype.name().starts_with('u') {
        (0, (1 << bits) - 1)
    } else {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    }
}

/// The exact result; of powers only if small.
fn exact(op: Binary, a: i128, b: i128) -> i128 {
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        _ if b == 0 => 0,
        _ if b < 0 => (-a).div_euclid(-b),
        _ => a.div_euclid(b),
    }
}

proptest! {
    #[test]
    fn results_are_exact_wherever_64_bits_hold_them(
        raw in prop::collection::vec(any::<u64>(), 1..60),
        which in prop::array::uniform2(prop::sample::select(&INTEGERS[..])),
        op in prop::sample::select(&[Binary::Add, Binary::Sub, Binary::Mul, Binary::FloorDiv][..]),
        constant in prop::option::of(prop_oneof![-3i64..300, any::<i64>()]),
    ) {
        let turned: Vec<u64> = raw.iter().rev().map(|raw| raw.rotate_left(17)).collect();
        let (one, a) = values(&raw, which[0]);
        let (other, b) = values(&turned, which[1]);
        let second = constant.map_or(Expr::input_at(1), Expr::from);
        let expr = Expr::apply(Op::Binary(op), [Expr::input(), second]).unwrap();
        let expr = Expr::input_at(1).equal(Expr::input_at(1)).select(&expr, &expr);
        let (dtype, got) = run(&expr, which, [&one, &other], raw.len());
        for ((a, b), got) in a.iter().zip(&b).zip(got) {
            let b = constant.map_or(b.int, i128::from);
            let expected = exact(op, a.int, b);
            if dtype == DType::I64 {
                // Wraps at the widest dtype.
                prop_assert_eq!(got, i128::from(expected as i64), "{} {:?} {}", a.int, op, b);
            } else {
                prop_assert_eq!(got, expected, "{} {:?} {}", a.int, op, b);
            }
        }
        // Only a quotient by -1 may exceed the dividend's dtype.
        let size = which[0].size();
        if let (Some(2..=127 | -128..=-2), Binary::FloorDiv) = (constant, op)
            && (!which[0].name().starts_with('u') || constant > Some(0))
        {
            prop_assert_eq!(dtype.size(), size, "{} // {:?}", which[0], constant);
        }
        // Minimal: the next narrower dtype does not hold all results.
        if let (None, Binary::Add) = (constant, op) {
            let [(least_a, most_a), (least_b, most_b)] = which.map(limits);
            let (least, most) = (least_a + least_b, most_a + most_b);
            let narrower = [DType::I8, DType::I16, DType::I32].into_iter().filter(|n| n.size() < dtype.size());
            for narrower in narrower {
                let (low, high) = limits(narrower);
                prop_assert!(least < low || most > high, "{narrower} would do instead of {dtype}");
            }
        }
    }

    #[test]
    fn minus_magnitude_and_powers_are_exact(
        raw in prop::collection::vec(any::<u64>(), 1..60),
        dtype in prop::sample::select(&INTEGERS[..]),
        exponent in 0u32..5,
    ) {
        let (stored, numbers) = values(&raw, dtype);
        let s = Expr::input();
        for (expr, exact) in [
            (-&s, Box::new(|n: i128| Some(-n)) as Box<dyn Fn(i128) -> Option<i128>>),
            (Expr::apply(Op::Unary(Unary::Abs), [s.clone()]).unwrap(), Box::new(|n| Some(n.abs()))),
            (s.pow(exponent), Box::new(move |n: i128| n.checked_pow(exponent))),
        ] {
            let (result, got) = run(&expr, [dtype, dtype], [&stored, &stored], raw.len());
            for (number, got) in numbers.iter().zip(got) {
                match exact(number.int) {
                    Some(expected) if result != DType::I64 => prop_assert_eq!(got, expected),
                    Some(expected) => prop_assert_eq!(got, i128::from(expected as i64)),
                    None => prop_assert_eq!(result, DType::I64),
                }
            }
        }
    }
}

#[test]
fn wrapping_expressions_keep_the_common_dtype_and_its_constants() {
    let s = Expr::input();
    let dtype =
        |expr: &Expr| Program::compile(expr, DType::I8).map(|program| program.output().dtype);
    let sum = &s + 200;
    assert_eq!(dtype(&sum).unwrap(), DType::I16);
    assert_eq!(
        dtype(&sum.wrapping()).unwrap_err().code(),
        "constant_out_of_range"
    );
    for expr in [&s + 100, &s * &s, -&s, s.abs(), s.floordiv(-1), s.pow(3)] {
        assert!(dtype(&expr).unwrap().size() > 1, "{expr}");
        assert_eq!(dtype(&expr.wrapping()).unwrap(), DType::I8, "{expr}");
    }
    // Wrapped parts stay so in a larger expression.
    assert_eq!((&s % 3).wrapping(), &s % 3);
    let mixed = (&s + 1).wrapping() + 1;
    assert_eq!(mixed.to_string(), "wrapping_add(s, 1) + 1");
    assert_eq!(dtype(&mixed).unwrap(), DType::I16);
    let saved = serde_json::to_string(&mixed).unwrap();
    assert_eq!(serde_json::from_str::<Expr>(&saved).unwrap(), mixed);
}
