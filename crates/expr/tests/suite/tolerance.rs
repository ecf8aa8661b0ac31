//! Error bounds of sums and functions, from dtype and length.

use isochrony_expr::{Expr, Frames, Program};
use isochrony_segment::{Complex32, DType, Sample};
use proptest::prelude::*;

const EPSILON: f64 = f64::EPSILON / 2.0;

type Function = fn(f64) -> f64;

/// Longest sequence of additions of a lane and the tree.
fn additions(n: usize) -> f64 {
    (n / 32 + 8) as f64
}

fn run<T: Sample, O: Sample>(expr: &Expr, samples: &[T]) -> Vec<O> {
    let program = Program::compile(expr, T::DTYPE).unwrap();
    let frames = Frames::new(samples, samples.len(), 1).unwrap();
    let mut out = vec![O::default(); program.results(&frames)];
    let (mut scratch, mut state) = (program.scratch(), program.state());
    program
        .run(&mut scratch, &mut state, &frames, &mut out)
        .unwrap();
    out
}

/// Neumaier's compensated sum.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() {
            (sum - next) + value
        } else {
            (value - next) + sum
        };
        sum = next;
    }
    sum + lost
}

/// `unit`: rounding of the result's dtype.
fn check(values: &[f64], unit: f64, got: [f64; 5]) -> Result<(), TestCaseError> {
    let n = values.len() as f64;
    let adds = additions(values.len());
    let total = sum(values.iter().copied());
    let magnitude = sum(values.iter().map(|x| x.abs()));
    let mean = total / n;
    let near = |what: &str, got: f64, expected: f64, bound: f64| {
        let bound = bound + 2.0 * unit * expected.abs() + f64::MIN_POSITIVE;
        prop_assert!(
            (got - expected).abs() <= bound,
            "{}: {} {} {}",
            what,
            got,
            expected,
            bound
        );
        Ok(())
    };
    near("sum", got[0], total, adds * EPSILON * magnitude)?;
    let deviations = sum(values.iter().map(|x| (x - values[0]).abs()));
    near(
        "mean",
        got[1],
        mean,
        (adds + 2.0) * EPSILON * deviations / n + 2.0 * EPSILON * mean.abs(),
    )?;
    // Of deviations from the first sample.
    let shifted = sum(values.iter().map(|x| (x - values[0]).powi(2)));
    // A mean far from zero is not precise enough.
    let middle = sum(values.iter().map(|x| x - values[0])) / n;
    let var = sum(values.iter().map(|x| (x - values[0] - middle).powi(2))) / n;
    let bound = 3.0 * (adds + 4.0) * EPSILON * shifted / n;
    near("var", got[2], var, bound)?;
    let of_std = if var > 4.0 * bound {
        bound / var.sqrt()
    } else {
        2.0 * bound.sqrt()
    };
    near("std", got[3], var.sqrt(), of_std)?;
    let square = sum(values.iter().map(|x| x * x)) / n;
    near(
        "rms",
        got[4],
        square.sqrt(),
        (adds + 4.0) * EPSILON * square.sqrt(),
    )
}

fn reductions() -> [Expr; 5] {
    let s = Expr::input();
    [s.sum(), s.mean(), s.var(), s.std(), s.rms()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn sums_of_floats_are_within_their_bound(
        raw in prop::collection::vec(-1e3f64..1e3, 1..3000),
        offset in prop_oneof![Just(0.0), Just(1e7), Just(-1e12)],
    ) {
        let values: Vec<f64> = raw.iter().map(|x| x + offset).collect();
        check(&values, EPSILON, reductions().map(|expr| run::<_, f64>(&expr, &values)[0]))?;
        let singles: Vec<f32> = values.iter().map(|&x| x as f32).collect();
        let values: Vec<f64> = singles.iter().map(|&x| x.into()).collect();
        let got = reductions().map(|expr| run::<_, f32>(&expr, &singles)[0].into());
        check(&values, f64::from(f32::EPSILON) / 2.0, got)?;
    }

    #[test]
    fn sums_of_wide_integers_are_within_their_bound(
        raw in prop::collection::vec(any::<i32>(), 1..2000),
        scale in prop_oneof![Just(1i64), Just(1 << 30)],
    ) {
        let samples: Vec<i64> = raw.iter().map(|&x| i64::from(x) * scale).collect();
        let exact: i128 = samples.iter().map(|&x| i128::from(x)).sum();
        let values: Vec<f64> = samples.iter().map(|&x| x as f64).collect();
        let [total, rest @ ..] = reductions();
        prop_assert_eq!(run::<_, i64>(&total, &samples)[0], exact as i64);
        let [mean, var, std, rms] = rest.map(|expr| run::<_, f64>(&expr, &samples)[0]);
        check(&values, 8.0 * EPSILON, [exact as f64, mean, var, std, rms])?;
    }

    #[test]
    fn complex_deviation_is_that_of_both_parts(
        raw in prop::collection::vec((-100f32..100.0, -100f32..100.0), 1..1500),
    ) {
        let samples: Vec<Complex32> = raw.iter().map(|&(re, im)| Complex32::new(re, im)).collect();
        let n = raw.len() as f64;
        let mean = |part: fn(&Complex32) -> f64| sum(samples.iter().map(part)) / n;
        let (re, im) = (mean(|x| x.re.into()), mean(|x| x.im.into()));
        let square = |x: &Complex32| (f64::from(x.re) - re).powi(2) + (f64::from(x.im) - im).powi(2);
        let var = sum(samples.iter().map(square)) / n;
        let s = Expr::input();
        let got = run::<_, Complex32>(&s.mean(), &samples)[0];
        prop_assert!((f64::from(got.re) - re).abs() < 1e-5 && (f64::from(got.im) - im).abs() < 1e-5);
        let got = f64::from(run::<_, f32>(&s.var(), &samples)[0]);
        prop_assert!((got - var).abs() <= 1e-6 * (1.0 + var), "{} {}", got, var);
    }

    #[test]
    fn functions_are_within_two_units_of_the_last_place(
        raw in prop::collection::vec(prop_oneof![-20f64..20.0, -1e6f64..1e6, 1e-9f64..1.0, Just(0.0)], 1..40),
    ) {
        let s = Expr::input();
        let functions: [(Expr, Function); 13] = [
            (s.exp(), f64::exp),
            (s.log(), f64::ln),
            (s.log10(), f64::log10),
            (s.log2(), f64::log2),
            (s.log1p(), f64::ln_1p),
            (s.expm1(), f64::exp_m1),
            (s.tanh(), f64::tanh),
            (s.abs().pow(0.375), |x| x.abs().powf(0.375)),
            (s.sin(), f64::sin),
            (s.cos(), f64::cos),
            (s.tan(), f64::tan),
            (s.sqrt(), f64::sqrt),
            (s.arctan2(2), |x| x.atan2(2.0)),
        ];
        let singles: Vec<f32> = raw.iter().map(|&x| x as f32).collect();
        for (expr, function) in functions {
            for (&x, y) in raw.iter().zip(run::<_, f64>(&expr, &raw)) {
                let expected = function(x);
                let unit = 4.0 * EPSILON * expected.abs() + f64::MIN_POSITIVE;
                let fine = (y - expected).abs() <= unit || y == expected || y.is_nan() && expected.is_nan();
                prop_assert!(fine, "{} of {}: {} {}", expr, x, y, expected);
            }
            for (&x, y) in singles.iter().zip(run::<_, f32>(&expr, &singles)) {
                let expected = function(x.into()) as f32;
                let unit = f32::EPSILON * expected.abs() + f32::MIN_POSITIVE;
                let fine = (y - expected).abs() <= unit || y == expected || y.is_nan() && expected.is_nan();
                prop_assert!(fine, "{} of {}: {} {}", expr, x, y, expected);
            }
        }
    }

    #[test]
    fn lengths_and_powers_are_within_their_bound(
        raw in prop::collection::vec((-300i32..300, -1e3f64..1e3), 1..40),
        power in 1i32..9,
    ) {
        let s = Expr::input();
        let values: Vec<f64> = raw.iter().map(|&(e, x)| x * 2f64.powi(3 * e)).collect();
        for (&x, y) in values.iter().zip(run::<_, f64>(&s.hypot(&s * 0.75), &values)) {
            prop_assert!((y - 1.25 * x.abs()).abs() <= 8.0 * EPSILON * y, "{} {}", x, y);
        }
        let small: Vec<f64> = raw.iter().map(|&(_, x)| x).collect();
        for (&x, y) in small.iter().zip(run::<_, f64>(&s.pow(power), &small)) {
            let expected = x.powf(f64::from(power));
            prop_assert!((y - expected).abs() <= 10.0 * EPSILON * expected.abs(), "{} {}", x, y);
        }
        for (&x, y) in small.iter().zip(run::<_, f64>(&s.abs().pow(2.5), &small)) {
            let expected = x.abs().powf(2.5);
            prop_assert!((y - expected).abs() <= 4.0 * EPSILON * expected, "{} {}", x, y);
        }
    }
}

#[test]
fn extremes_of_functions_are_those_of_ieee() {
    let s = Expr::input();
    let edge = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        800.0,
        -800.0,
    ];
    let exp = run::<_, f64>(&s.exp(), &edge);
    assert_eq!(
        (exp[0], exp[2], exp[3], exp[5], exp[6]),
        (1.0, f64::INFINITY, 0.0, f64::INFINITY, 0.0)
    );
    assert!(exp[4].is_nan());
    let log = run::<_, f64>(&s.log(), &edge);
    assert_eq!(
        (log[0], log[1], log[2]),
        (f64::NEG_INFINITY, f64::NEG_INFINITY, f64::INFINITY)
    );
    assert!(log[3].is_nan() && log[4].is_nan() && log[6].is_nan());
    let sin = run::<_, f64>(&s.sin(), &edge);
    assert!(sin[1].is_sign_negative() && sin[2].is_nan() && sin[3].is_nan());
    let hypot = run::<_, f64>(&s.hypot(f64::INFINITY), &edge);
    assert!(hypot.iter().all(|&y| y == f64::INFINITY), "{hypot:?}");
    assert_eq!(
        Program::compile(&s.exp(), DType::I16)
            .unwrap()
            .output()
            .dtype,
        DType::F32
    );
}
