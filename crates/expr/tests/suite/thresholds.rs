//! Long windows use thresholds where short ones compute the chain.

use isochrony_expr::{Expr, Frames, Program};
use isochrony_segment::{Bool8, Calibration, DType, Sample};
use proptest::prelude::*;

const PIECE: usize = 60;

fn run<T: Sample>(program: &Program, samples: &[T], piece: usize) -> Vec<Bool8> {
    let (mut scratch, mut state) = (program.scratch(), program.state());
    let mut out = vec![Bool8::default(); samples.len()];
    for (samples, out) in samples.chunks(piece).zip(out.chunks_mut(piece)) {
        let frames = Frames::stretch(samples);
        program.run(&mut scratch, &mut state, &frames, out).unwrap();
    }
    out
}

/// A step with a number of any magnitude, zero or NaN.
fn link(expr: &Expr, kind: u8, number: f64) -> Expr {
    match kind % 9 {
        0 => expr + number,
        1 => expr - number,
        2 => number - expr,
        3 => expr * number,
        4 => expr / number,
        5 => -expr,
        6 => expr.abs(),
        7 => expr.astype(DType::F64),
        _ => number + expr,
    }
}

fn compare(expr: &Expr, kind: u8, number: f64) -> Expr {
    match kind % 6 {
        0 => expr.gt(number),
        1 => expr.ge(number),
        2 => expr.lt(number),
        3 => expr.le(number),
        4 => Expr::from(number).gt(expr),
        _ => Expr::from(number).le(expr),
    }
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (-400i32..400).prop_map(|x| f64::from(x) / 16.0),
        4 => -3.0f64..3.0,
        2 => any::<f64>(),
        1 => prop::sample::select(vec![
            0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 5e-324, 1e-40, 1e300, f64::MAX, 1e38, 3.5e38,
        ]),
    ]
}

fn same<T: Sample>(
    links: &[(u8, f64)],
    by: (u8, f64),
    calibration: &Calibration,
    samples: &[T],
) -> Result<(), TestCaseError> {
    let chain = links.iter().fold(Expr::input(), |expr, &(kind, number)| {
        link(&expr, kind, number)
    });
    let one = compare(&chain, by.0, by.1);
    let bare = compare(&Expr::input(), by.0 / 6, by.1 / 2.0);
    let whole = Expr::from((by.1 as i8 / 2).abs());
    let integer = if by.0 < 128 {
        Expr::input().gt(&whole)
    } else {
        Expr::input().le(&whole)
    };
    let both = &one & compare(&chain, by.0 / 6, by.1 / 3.0);
    for expr in [&both & &bare, one, both, bare, integer] {
        same_as_pieces(&expr, calibration, samples)?;
    }
    Ok(())
}

fn same_as_pieces<T: Sample>(
    expr: &Expr,
    calibration: &Calibration,
    samples: &[T],
) -> Result<(), TestCaseError> {
    let program = Program::compile_calibrated(expr, T::DTYPE, calibration).unwrap();
    let long = run(&program, samples, samples.len());
    let short = run(&program, samples, PIECE);
    for (at, (long, short)) in long.iter().zip(&short).enumerate() {
        prop_assert_eq!(
            long,
            short,
            "{} of {:?} ({})",
            program,
            samples[at],
            calibration.scale()
        );
    }
    Ok(())
}

/// `PROPTEST_CASES=100000` runs more.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(1500)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn thresholds_equal_chains(
        links in prop::collection::vec((any::<u8>(), number()), 0..5),
        by in (any::<u8>(), number()),
        scale in prop_oneof![Just(1.0), Just(-0.125), Just(3e-7)],
        raw in prop::collection::vec((number(), any::<u64>()), 130..300),
    ) {
        let calibration = Calibration::new(scale, 0.0, "V").unwrap();
        let near: Vec<f64> = raw.iter().map(|&(x, bits)| match bits % 4 {
            0 => f64::from_bits(by.1.to_bits().wrapping_add(bits >> 60)),
            _ => x,
        }).collect();
        same(&links, by, &calibration, &near)?;
        same(&links, by, &calibration, &near.iter().map(|&x| x as f32).collect::<Vec<_>>())?;
        same(&links, by, &calibration, &near.iter().map(|&x| x as i16).collect::<Vec<_>>())?;
        same(&links, by, &calibration, &raw.iter().map(|&(_, bits)| bits as i32).collect::<Vec<_>>())?;
        same(&links, by, &calibration, &raw.iter().map(|&(_, bits)| bits as u8).collect::<Vec<_>>())?;
        same(&links, by, &calibration, &raw.iter().map(|&(_, bits)| bits as i64).collect::<Vec<_>>())?;
    }
}

/// No int32 makes the chain zero, so all exceed it.
#[test]
fn an_empty_interval_stays_empty_in_a_narrower_dtype() {
    let chain = (&(Expr::input() * 3e-7) - 11.1875).abs();
    let program = Program::compile(&chain.gt(0), DType::I32).unwrap();
    let samples: Vec<i32> = (37_291_600..37_291_800).collect();
    assert!(
        run(&program, &samples, samples.len())
            .into_iter()
            .all(bool::from)
    );
}
