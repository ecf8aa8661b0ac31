//! Elementary functions against 640-bit fixed point.

use crate::exact::{Exact, ulps_f32, ulps_f64};
use isochrony_dsp::math;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok();
    let cases = asked.and_then(|cases| cases.parse().ok()).unwrap_or(400);
    ProptestConfig {
        cases,
        ..ProptestConfig::default()
    }
}

type Reference = fn(&Exact) -> Exact;
type Wide = fn(f64) -> f64;

struct Function {
    name: &'static str,
    wide: fn(f64) -> f64,
    narrow: fn(f32) -> f32,
    reference: Reference,
    bound: f64,
}

const POSITIVE: [Function; 3] = [
    Function {
        name: "ln",
        wide: math::ln,
        narrow: math::ln_f32,
        reference: Exact::ln,
        bound: 1.0,
    },
    Function {
        name: "log2",
        wide: math::log2,
        narrow: math::log2_f32,
        reference: Exact::log2,
        bound: 1.0,
    },
    Function {
        name: "log10",
        wide: math::log10,
        narrow: math::log10_f32,
        reference: Exact::log10,
        bound: 1.0,
    },
];

const ANY: [Function; 6] = [
    Function {
        name: "exp",
        wide: math::exp,
        narrow: math::exp_f32,
        reference: Exact::exp,
        bound: 1.0,
    },
    Function {
        name: "exp_m1",
        wide: math::exp_m1,
        narrow: math::exp_m1_f32,
        reference: Exact::exp_m1,
        bound: 1.0,
    },
    Function {
        name: "tanh",
        wide: math::tanh,
        narrow: math::tanh_f32,
        reference: Exact::tanh,
        bound: 2.0,
    },
    Function {
        name: "sin",
        wide: math::sin,
        narrow: math::sin_f32,
        reference: Exact::sin,
        bound: 1.0,
    },
    Function {
        name: "cos",
        wide: math::cos,
        narrow: math::cos_f32,
        reference: Exact::cos,
        bound: 1.0,
    },
    Function {
        name: "tan",
        wide: math::tan,
        narrow: math::tan_f32,
        reference: Exact::tan,
        bound: 2.0,
    },
];

const NARROW_BOUND: f64 = 0.51;

fn check(function: &Function, x: f64) -> Result<(), TestCaseError> {
    let Function { name, .. } = function;
    let exact = (function.reference)(&Exact::of(x));
    let y = (function.wide)(x);
    let error = ulps_f64(y, &exact);
    prop_assert!(
        error <= function.bound,
        "{name}({x:?}) = {y:?}: {error} ulp"
    );
    let x = x as f32;
    let y = (function.narrow)(x);
    if x.is_normal() && y.is_finite() {
        let exact = (function.reference)(&Exact::of(x.into()));
        let error = ulps_f32(y, &exact);
        prop_assert!(
            error <= NARROW_BOUND,
            "{name}_f32({x:?}) = {y:?}: {error} ulp"
        );
    }
    Ok(())
}

fn near() -> impl Strategy<Value = f64> {
    prop_oneof![
        -2.0f64..2.0,
        -20.0f64..20.0,
        -85.0f64..85.0,
        (-60i32..0, 0.5f64..1.0).prop_map(|(e, m)| m * 2f64.powi(e)),
        (-60i32..0, -1.0f64..-0.5).prop_map(|(e, m)| m * 2f64.powi(e)),
    ]
}

fn positive() -> impl Strategy<Value = f64> {
    prop_oneof![
        0.4f64..2.5,
        (-30i32..0, -1.0f64..1.0).prop_map(|(e, m)| 1.0 + m * 2f64.powi(e)),
        (-290i32..1020, 0.5f64..1.0).prop_map(|(e, m)| m * 2f64.powi(e)),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn functions_are_within_their_bounds(x in near()) {
        for function in &ANY {
            check(function, x)?;
        }
    }

    #[test]
    fn logarithms_are_within_their_bounds(x in positive()) {
        for function in &POSITIVE {
            check(function, x)?;
        }
        let less = x - 1.0;
        if less > -1.0 && less.abs() > 1e-18 {
            let reference = |x: &Exact| x.plus_one().ln();
            let narrow = math::ln_1p_f32;
            check(&Function { name: "ln_1p", wide: math::ln_1p, narrow, reference, bound: 1.0 }, less)?;
        }
    }

    #[test]
    fn large_angles_and_exponents_are_within_their_bounds(angle in -1e6f64..1e6, x in -700f64..709.0) {
        for function in &ANY[3..] {
            check(function, angle)?;
        }
        // Near multiples of a quarter turn, where cancellation is worst.
        let quarter = (angle / 2.0).round() * std::f64::consts::FRAC_PI_2;
        for function in &ANY[3..] {
            check(function, quarter)?;
        }
        for (wide, exact) in [
            (math::exp(x), Exact::of(x).exp()),
            (math::exp_m1(x), Exact::of(x).exp_m1()),
            (math::tanh(x), Exact::of(x).tanh()),
        ] {
            prop_assert!(ulps_f64(wide, &exact) <= 1.0, "{} {}", x, wide);
        }
    }

    #[test]
    fn powers_are_within_their_bounds(x in positive(), part in -0.99f64..0.99) {
        let most = 700.0 / x.ln().abs().max(1e-3);
        for y in [part * most, (part * most).round(), 1.5, -0.75] {
            let exact = Exact::pow(x, y);
            let power = math::pow(x, y);
            if exact.is_normal() {
                let error = ulps_f64(power, &exact);
                prop_assert!(error <= 1.0, "{x:?} ** {y:?} = {power:?}: {error} ulp");
            }
            let (x, y) = (x as f32, y as f32);
            if !x.is_normal() {
                continue;
            }
            let exact = Exact::pow(x.into(), y.into());
            let power = math::pow_f32(x, y);
            if exact.is_normal_f32() {
                let error = ulps_f32(power, &exact);
                prop_assert!(error <= NARROW_BOUND, "{x:?} ** {y:?} = {power:?}: {error} ulp");
            }
        }
    }

    #[test]
    fn remainders_are_exact(
        a in any::<f64>(), b in any::<f64>(), x in -1e9f64..1e9, y in -1e3f64..1e3, times in -1000i32..1000,
    ) {
        for (a, b) in [(a, b), (x, y), (y, x), (f64::from(times) * y, y), (a, y), (x, 1.0)] {
            if !math::is_uneven(a, b) {
                prop_assert_eq!(math::fmod(a, b).to_bits(), (a % b).to_bits(), "{} {}", a, b);
            }
            let (a, b) = (a as f32, b as f32);
            if !math::is_uneven_f32(a, b) {
                prop_assert_eq!(math::fmod_f32(a, b).to_bits(), (a % b).to_bits(), "{} {}", a, b);
            }
        }
    }

    #[test]
    fn edges_of_powers_are_those_of_c(base in edge(), exponent in edge()) {
        if !math::is_steep(exponent) {
            let (got, expected) = (math::pow(base, exponent), base.powf(exponent));
            let same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
            let near = (got - expected).abs() <= expected.abs() * f64::EPSILON + 5e-324;
            prop_assert!(same || near, "{base:?} ** {exponent:?}: {got:?} {expected:?}");
            let (base, exponent) = (base as f32, exponent as f32);
            let (got, expected) = (math::pow_f32(base, exponent), base.powf(exponent));
            let same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
            let near = (got - expected).abs() <= expected.abs() * f32::EPSILON + 1e-45;
            prop_assert!(same || near, "{base:?} ** {exponent:?}: {got:?} {expected:?}");
        }
    }
}

fn edge() -> impl Strategy<Value = f64> {
    let of = [
        0.0,
        1.0,
        2.0,
        3.0,
        0.5,
        1.5,
        1e300,
        1e-300,
        5e-324,
        f64::INFINITY,
        f64::NAN,
        1e15,
        1e15 + 1.0,
        f64::MIN_POSITIVE,
        1023.0,
        1074.0,
        1075.0,
    ];
    (0..of.len(), any::<bool>()).prop_map(move |(at, minus)| if minus { -of[at] } else { of[at] })
}

#[test]
fn special_values_are_those_of_c() {
    let edges = [
        0.0,
        5e-324,
        1e-310,
        f64::MIN_POSITIVE,
        1e-20,
        1.0,
        709.782712893384,
        709.7827128933841,
        745.1332191019411,
        745.1332191019412,
        746.0,
        1e5,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];
    type Case = (&'static str, Wide, Wide, fn(f32) -> f32);
    let all: [Case; 10] = [
        ("exp", math::exp, f64::exp, math::exp_f32),
        ("exp_m1", math::exp_m1, f64::exp_m1, math::exp_m1_f32),
        ("tanh", math::tanh, f64::tanh, math::tanh_f32),
        ("ln", math::ln, f64::ln, math::ln_f32),
        ("ln_1p", math::ln_1p, f64::ln_1p, math::ln_1p_f32),
        ("log2", math::log2, f64::log2, math::log2_f32),
        ("log10", math::log10, f64::log10, math::log10_f32),
        ("sin", math::sin, f64::sin, math::sin_f32),
        ("cos", math::cos, f64::cos, math::cos_f32),
        ("tan", math::tan, f64::tan, math::tan_f32),
    ];
    for (name, ours, theirs, narrow) in all {
        for x in edges.into_iter().flat_map(|x| [x, -x]) {
            if !(math::is_far(x) && ["sin", "cos", "tan"].contains(&name)) {
                let (got, expected) = (ours(x), theirs(x));
                let same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
                let unit = expected.abs() * f64::EPSILON + 5e-324;
                let near = (got - expected).abs() <= unit
                    && got.is_sign_negative() == expected.is_sign_negative();
                assert!(same || near, "{name}({x:?}): {got:?} {expected:?}");
            }
            let x = x as f32;
            if !(math::is_far_f32(x) && ["sin", "cos", "tan"].contains(&name)) {
                let (got, expected) = (narrow(x), theirs(x.into()) as f32);
                let same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
                assert!(same, "{name}_f32({x:?}): {got:?} {expected:?}");
            }
        }
    }
    for n in -300..300 {
        assert_eq!(math::log2(2f64.powi(n)), f64::from(n));
        assert_eq!(math::log10(format!("1e{n}").parse().unwrap()), f64::from(n));
        assert_eq!(math::pow(2.0, n.into()), 2f64.powi(n));
    }
    for n in 0..20 {
        assert_eq!(math::pow(3.0, n.into()), 3f64.powi(n));
        assert_eq!(math::pow(-10.0, n.into()), (-10f64).powi(n));
    }
}
