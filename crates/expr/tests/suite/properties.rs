//! Random expressions on random samples, against a slow evaluator and each other.

use crate::oracle::number::Num;
use crate::oracle::random::{Ops, expression, expression_of};
use crate::oracle::{Memories, evaluate, evaluate_inputs, numbers};
use isochrony_expr::{Expr, Frames, Input, Isa, Program};
use isochrony_segment::{Bool8, Complex32, Complex64, DType, Sample, dispatch};
use proptest::prelude::*;

fn samples<T: Sample>(raw: &[u64]) -> Vec<T> {
    let one = |raw: u64| -> T {
        let small = (raw >> 8) as i8;
        let float = match raw % 16 {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::from(small) * 1e30,
            3 => 0.0,
            4..8 => f64::from(small) / 8.0,
            _ => f64::from((raw >> 16) as i32) / 65536.0,
        };
        let other = f64::from((raw >> 40) as i16) / 16.0;
        let integer = if raw.is_multiple_of(3) {
            i64::from(small)
        } else {
            raw as i64
        };
        let mut bytes = [0u8; 16];
        match T::DTYPE {
            DType::F32 => bytes[..4].copy_from_slice(&(float as f32).to_ne_bytes()),
            DType::F64 => bytes[..8].copy_from_slice(&float.to_ne_bytes()),
            DType::C64 => {
                bytes[..4].copy_from_slice(&(float as f32).to_ne_bytes());
                bytes[4..8].copy_from_slice(&(other as f32).to_ne_bytes());
            }
            DType::C128 => {
                bytes[..8].copy_from_slice(&float.to_ne_bytes());
                bytes[8..].copy_from_slice(&other.to_ne_bytes());
            }
            _ => bytes[..8].copy_from_slice(&integer.to_ne_bytes()),
        }
        bytemuck::pod_read_unaligned(&bytes[..size_of::<T>()])
    };
    raw.iter().map(|&raw| one(raw)).collect()
}

fn run(program: &Program, isa: Isa, frames: &[Frames<'_>]) -> Vec<u8> {
    let (mut scratch, mut state) = (program.scratch_on(isa), program.state());
    let size = program.output().dtype.size();
    let mut all = Vec::new();
    for frames in frames {
        // Aligned for any dtype.
        let mut out = vec![0u128; (program.results(frames) * size).div_ceil(16)];
        let out: &mut [u8] = bytemuck::cast_slice_mut(&mut out);
        let out = &mut out[..program.results(frames) * size];
        program
            .run_bytes(&mut scratch, &mut state, frames, out)
            .unwrap();
        all.extend_from_slice(out);
    }
    all
}

fn result_numbers(dtype: DType, bytes: &[u8]) -> Vec<Num> {
    dispatch!(dtype, T => {
        let samples: Vec<T> = bytemuck::pod_collect_to_vec(bytes);
        numbers(&samples)
    })
}

fn same(a: Num, b: Num) -> bool {
    let part = |a: f64, b: f64| {
        a == b && a.is_sign_negative() == b.is_sign_negative() || a.is_nan() && b.is_nan()
    };
    a.dtype == b.dtype && a.int == b.int && part(a.re, b.re) && part(a.im, b.im)
}

/// NaN bits depend on the CPU.
fn canonical(dtype: DType, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match dtype {
        DType::F32 | DType::C64 => {
            for part in bytes.as_chunks_mut::<4>().0 {
                if f32::from_ne_bytes(*part).is_nan() {
                    *part = f32::NAN.to_ne_bytes();
                }
            }
        }
        DType::F64 | DType::C128 => {
            for part in bytes.as_chunks_mut::<8>().0 {
                if f64::from_ne_bytes(*part).is_nan() {
                    *part = f64::NAN.to_ne_bytes();
                }
            }
        }
        _ => {}
    }
    bytes
}

#[derive(Debug, Clone)]
struct Case {
    input: DType,
    choices: Vec<u32>,
    raw: Vec<u64>,
    window: usize,
    hop: usize,
}

fn cases(most: usize) -> impl Strategy<Value = Case> {
    let window = prop_oneof![4 => 1usize..70, 1 => 1000usize..1100, 1 => 2040usize..2060];
    (
        0..11usize,
        prop::collection::vec(any::<u32>(), 1..most),
        window,
        1usize..5,
    )
        .prop_flat_map(|(input, choices, window, count)| {
            let raw = prop::collection::vec(any::<u64>(), window * count);
            (Just(input), Just(choices), Just(window), raw, 1..window + 3)
        })
        .prop_map(|(input, choices, window, raw, hop)| Case {
            input: DType::ALL[input],
            choices,
            raw,
            window,
            hop,
        })
}

fn against_oracle<T: Sample>(case: &Case, expr: &Expr) -> Result<(), TestCaseError> {
    let samples: Vec<T> = samples(&case.raw);
    let program = Program::compile(expr, T::DTYPE);
    let program = program.map_err(|error| TestCaseError::fail(format!("{expr}: {error}")))?;
    let frames = Frames::new(&samples, case.window, case.hop).unwrap();
    let bytes = run(&program, Isa::best(), &[frames]);
    let got = result_numbers(program.output().dtype, &bytes);
    let mut memories = Memories::new();
    let mut expected = Vec::new();
    for window in 0..frames.count() {
        let window = &samples[window * case.hop..][..case.window];
        expected.extend(evaluate(expr, &numbers(window), &mut memories).numbers);
    }
    prop_assert_eq!(got.len(), expected.len(), "{}", expr);
    for (at, (&got, &expected)) in got.iter().zip(&expected).enumerate() {
        prop_assert!(
            same(got, expected),
            "{}: result {} is {:?}, not {:?}",
            expr,
            at,
            got,
            expected
        );
    }
    Ok(())
}

/// The second input has samples or one value per window, every `hops[k]` of its samples.
fn two_against_oracle(
    case: &Case,
    other: DType,
    per_sample: bool,
    hops: [usize; 2],
) -> Result<(), TestCaseError> {
    let dtypes = [case.input, other];
    let inputs = [(case.input, true), (other, per_sample)];
    let expr = expression_of(&inputs, Ops::Exact, &case.choices);
    let widths = [case.window, if per_sample { case.window } else { 1 }];
    let types = inputs.map(|(dtype, sampled)| match sampled {
        true => Input::samples(dtype),
        false => Input::values(dtype),
    });
    let program = Program::compile_inputs(&expr, &types);
    let program = program.map_err(|error| TestCaseError::fail(format!("{expr}: {error}")))?;
    let turned: Vec<u64> = case.raw.iter().rev().copied().collect();
    let raws = [&case.raw, &turned];
    let values: Vec<(Vec<u128>, Vec<Num>)> = (0..2)
        .map(|k| {
            dispatch!(dtypes[k], T => {
                let samples: Vec<T> = samples(raws[k]);
                let mut aligned = vec![0u128; raws[k].len()];
                let bytes: &[u8] = bytemuck::cast_slice(&samples);
                bytemuck::cast_slice_mut(&mut aligned)[..bytes.len()].copy_from_slice(bytes);
                (aligned, numbers(&samples))
            })
        })
        .collect();
    let fitting = |k: usize| (case.raw.len() - widths[k]) / hops[k] + 1;
    let count = fitting(0).min(fitting(1));
    let frames: Vec<Frames<'_>> = (0..2)
        .map(|k| {
            let bytes = bytemuck::cast_slice(&values[k].0);
            Frames::from_bytes(bytes, dtypes[k], widths[k], hops[k], count).unwrap()
        })
        .collect();
    let mut memories = Memories::new();
    let mut expected = Vec::new();
    for window in 0..count {
        let of = |k: usize| &values[k].1[window * hops[k]..][..widths[k]];
        let inputs = [(of(0), true), (of(1), per_sample)];
        expected.extend(evaluate_inputs(&expr, &inputs, &mut memories).numbers);
    }
    let size = program.output().dtype.size();
    for isa in Isa::available() {
        let (mut scratch, mut state) = (program.scratch_on(isa), program.state());
        let mut out = vec![0u128; (expected.len() * size).div_ceil(16)];
        let out = &mut bytemuck::cast_slice_mut(&mut out)[..expected.len() * size];
        let ran = program.run_inputs(&mut scratch, &mut state, &frames, out);
        prop_assert!(ran.is_ok(), "{}: {:?}", expr, ran);
        let got = result_numbers(program.output().dtype, out);
        for (at, (&got, &expected)) in got.iter().zip(&expected).enumerate() {
            prop_assert!(
                same(got, expected),
                "{expr}: result {at} is {got:?}, not {expected:?}"
            );
        }
    }
    Ok(())
}

fn against_itself<T: Sample>(case: &Case, expr: &Expr) -> Result<(), TestCaseError> {
    let samples: Vec<T> = samples(&case.raw);
    let program = Program::compile(expr, T::DTYPE);
    let program = program.map_err(|error| TestCaseError::fail(format!("{expr}: {error}")))?;
    let dtype = program.output().dtype;
    let frames = Frames::new(&samples, case.window, case.hop).unwrap();
    let whole = canonical(dtype, &run(&program, Isa::BASELINE, &[frames]));
    for isa in Isa::available() {
        let got = canonical(dtype, &run(&program, isa, &[frames]));
        prop_assert!(whole == got, "{} on {}", expr, isa.name());
    }
    let single: Vec<Frames<'_>> = (0..frames.count())
        .map(|window| {
            let window = &samples[window * case.hop..][..case.window];
            Frames::new(window, case.window, 1).unwrap()
        })
        .collect();
    let got = canonical(dtype, &run(&program, Isa::best(), &single));
    prop_assert!(whole == got, "{} one window at a time", expr);
    let saved = serde_json::to_string(expr).unwrap();
    let read: Expr = serde_json::from_str(&saved).unwrap();
    prop_assert_eq!(&read, expr);
    let again = Program::compile(&read, T::DTYPE).unwrap();
    let got = canonical(dtype, &run(&again, Isa::best(), &[frames]));
    prop_assert!(whole == got, "{} saved and read", expr);
    Ok(())
}

/// `PROPTEST_CASES=100000` runs more.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok();
    let cases = asked.and_then(|cases| cases.parse().ok()).unwrap_or(1000);
    ProptestConfig {
        cases,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// The evaluator does not fold constants, share parts, or group windows and samples.
    #[test]
    fn interpreter_equals_slow_evaluator(case in cases(14)) {
        let expr = expression(case.input, Ops::Exact, &case.choices);
        dispatch!(case.input, T => against_oracle::<T>(&case, &expr))?;
    }

    #[test]
    fn several_inputs_equal_slow_evaluator(
        case in cases(14), other in 0..11usize, per_sample: bool, hop in 1usize..9,
    ) {
        two_against_oracle(&case, DType::ALL[other], per_sample, [case.hop, hop])?;
    }

    #[test]
    fn any_instruction_set_split_of_windows_or_saved_copy_gives_the_same_bits(case in cases(20)) {
        let expr = expression(case.input, Ops::All, &case.choices);
        dispatch!(case.input, T => against_itself::<T>(&case, &expr))?;
    }

    #[test]
    fn any_chunking_of_a_range_gives_the_same_bits(case in cases(12), cut in 0usize..3000) {
        let s = Expr::input();
        let expr = expression(case.input, Ops::All, &case.choices.iter().map(|choice| {
            if (8..11).contains(&(choice % 16)) || choice % 16 > 13 { choice & !15 } else { *choice }
        }).collect::<Vec<_>>());
        let expr = expr.isfinite() & s.isfinite();
        let samples: Vec<f64> = samples(&case.raw);
        if let Ok(program) = Program::compile(&expr, DType::F64) && !program.needs_windows() {
            let (a, b) = samples.split_at(cut.min(samples.len()));
            let whole = run(&program, Isa::best(), &[Frames::stretch(&samples)]);
            let parts = run(&program, Isa::best(), &[Frames::stretch(a), Frames::stretch(b)]);
            prop_assert_eq!(whole, parts);
        }
    }
}

#[test]
fn evaluator_gives_known_answers() {
    let s = Expr::input();
    let one = |expr: &Expr, samples: &[Num]| evaluate(expr, samples, &mut Memories::new()).numbers;
    let bytes = numbers(&[-7i8, 7, i8::MIN]);
    assert_eq!(
        one(&s.floordiv(2), &bytes)
            .iter()
            .map(|n| n.int)
            .collect::<Vec<_>>(),
        [-4, 3, -64]
    );
    assert_eq!(
        one(&(&s % -3), &bytes)
            .iter()
            .map(|n| n.int)
            .collect::<Vec<_>>(),
        [-1, -2, -2]
    );
    assert_eq!(
        one(&-&s, &bytes).iter().map(|n| n.int).collect::<Vec<_>>(),
        [7, -7, -128]
    );
    assert_eq!(one(&s.sum(), &bytes)[0].int, -128);
    assert_eq!(one(&s.var(), &numbers(&[1i16, 3]))[0].re, 1.0);
    assert_eq!(one(&s.mean(), &numbers(&[1.5f32, 2.5]))[0].re, 2.0);
    assert_eq!(
        one(
            &s.std(),
            &numbers(&[Complex32::new(0.0, 1.0), Complex32::new(0.0, 3.0)])
        )[0]
        .re,
        1.0
    );
    let third = one(&(&s / 3), &numbers(&[1.0f32]))[0];
    assert_eq!(
        (third.dtype, third.re),
        (DType::F32, f64::from(1.0f32 / 3.0))
    );
    let quotient = one(
        &(&s / Complex64::new(3.0, 4.0)),
        &numbers(&[Complex64::new(25.0, 0.0)]),
    )[0];
    assert_eq!((quotient.re, quotient.im), (3.0, -4.0));
    assert_eq!(
        one(&(&s % 0.1), &numbers(&[1.0f64]))[0].re,
        0.099_999_999_999_999_95
    );
    assert_eq!(one(&s.floordiv(0.1), &numbers(&[1.0f64]))[0].re, 9.0);
    assert_eq!(one(&(!&s), &numbers(&[Bool8::from(true)]))[0].int, 0);
    assert!(one(&s.max(), &numbers(&[1.0f64, f64::NAN, 2.0]))[0].is_nan());
    assert_eq!(
        one(&s.astype(DType::U8), &numbers(&[-3.7f64, 300.0, f64::NAN]))
            .iter()
            .map(|n| n.int)
            .collect::<Vec<_>>(),
        [0, 255, 0]
    );
}
