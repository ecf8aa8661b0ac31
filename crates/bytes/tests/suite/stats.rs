//! Statistics against loops with wide integers or compensated sums.

use crate::common::{cuts, noise, run};
use isochrony_bytes::{Chain, Outcome, Statistics, Value};
use proptest::prelude::*;

fn stats(dtype: &str, bytes: &[u8], cuts: &[usize]) -> Statistics {
    match &run(&[&format!("stats:{dtype}")], bytes, cuts).unwrap().0[..] {
        [Outcome::Statistics(statistics)] => statistics.clone(),
        other => panic!("{other:?}"),
    }
}

/// NaN equals itself.
fn same(a: &Statistics, b: &Statistics) -> bool {
    let bits = |value: &Value| match value {
        Value::Float(value) => i128::from(value.to_bits()),
        Value::Int(value) => *value,
        other => panic!("{other:?}"),
    };
    (a.count, a.nonfinite) == (b.count, b.nonfinite)
        && (bits(&a.min), bits(&a.max)) == (bits(&b.min), bits(&b.max))
        && (a.mean.to_bits(), a.m2.to_bits()) == (b.mean.to_bits(), b.m2.to_bits())
}

/// A compensated sum (Neumaier 1974).
fn exact_sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut error) = (0.0f64, 0.0f64);
    for value in values {
        let next = sum + value;
        error += if sum.abs() >= value.abs() {
            (sum - next) + value
        } else {
            (value - next) + sum
        };
        sum = next;
    }
    sum + error
}

/// Finite samples as numbers.
fn numbers(dtype: &str, bytes: &[u8]) -> Vec<f64> {
    let big = dtype.starts_with('>');
    let kind = dtype.trim_start_matches(['<', '>']);
    let size: usize = kind[1..].parse().unwrap();
    bytes
        .chunks_exact(size)
        .map(|sample| {
            let mut wide = [0; 8];
            wide[..size].copy_from_slice(sample);
            if big {
                wide[..size].reverse();
            }
            let bits = u64::from_le_bytes(wide);
            match kind.as_bytes()[0] {
                b'u' => bits as f64,
                b'i' => ((bits << (64 - 8 * size)) as i64 >> (64 - 8 * size)) as f64,
                _ if size == 4 => f64::from(f32::from_bits(bits as u32)),
                _ => f64::from_bits(bits),
            }
        })
        .filter(|number| number.is_finite())
        .collect()
}

const DTYPES: [&str; 14] = [
    "i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<i8", ">i8", "<f4", ">f4", "<f8", ">f8",
];

#[test]
fn every_dtype_and_order_agrees_with_a_slow_loop() {
    let bytes = noise(8 * 30_011);
    // Arbitrary exponents would make sums infinite.
    let tame = |dtype: &str| -> Vec<u8> {
        let size: usize = dtype[2..].parse().unwrap();
        bytes
            .chunks_exact(8)
            .flat_map(|b| {
                let number = f64::from(i32::from_le_bytes(b[..4].try_into().unwrap())) / 65_536.0;
                let mut sample = if size == 4 {
                    (number as f32).to_le_bytes().to_vec()
                } else {
                    number.to_le_bytes().to_vec()
                };
                if dtype.starts_with('>') {
                    sample.reverse();
                }
                sample
            })
            .collect()
    };
    for dtype in DTYPES {
        let bytes = if dtype.contains('f') {
            tame(dtype)
        } else {
            bytes.clone()
        };
        let numbers = numbers(dtype, &bytes);
        let n = numbers.len() as f64;
        let mean = exact_sum(numbers.iter().copied()) / n;
        let m2 = exact_sum(numbers.iter().map(|x| (x - mean) * (x - mean)));
        let got = stats(dtype, &bytes, &[1, 4096, 100_003]);
        assert_eq!((got.count, got.nonfinite), (numbers.len() as u64, 0));
        let extreme = |value: &Value| match value {
            Value::Int(value) => *value as f64,
            Value::Float(value) => *value,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            extreme(&got.min),
            numbers.iter().copied().fold(f64::INFINITY, f64::min)
        );
        assert_eq!(
            extreme(&got.max),
            numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        );
        // The error of a mean is relative to the spread.
        let std = (m2 / n).sqrt();
        assert!(
            (got.mean - mean).abs() <= 1e-13 * std,
            "{dtype} {} {mean}",
            got.mean
        );
        assert!((got.m2 - m2).abs() <= 1e-12 * m2, "{dtype} {} {m2}", got.m2);
        assert_eq!(got.std(), (got.m2 / n).sqrt());
    }
}

/// One rounding, at the end.
#[test]
fn integers_are_exact() {
    let bytes: Vec<u8> = [i32::MIN, i32::MAX, i32::MAX, 7]
        .repeat(50_000)
        .iter()
        .flat_map(|sample| sample.to_le_bytes())
        .collect();
    let got = stats("<i4", &bytes, &[3, 123_457]);
    let n = 200_000i128;
    let sum = (i128::from(i32::MIN) + 2 * i128::from(i32::MAX) + 7) * 50_000;
    let squares: i128 = [i32::MIN, i32::MAX, i32::MAX, 7]
        .map(|x| i128::from(x) * i128::from(x))
        .iter()
        .sum::<i128>()
        * 50_000;
    assert_eq!(got.mean, sum as f64 / n as f64);
    let m2 = (squares * n - sum * sum) as f64 / n as f64;
    assert!((got.m2 - m2).abs() <= m2 * f64::EPSILON, "{} {m2}", got.m2);
    assert_eq!(
        (got.min, got.max),
        (Value::Int(-2_147_483_648), Value::Int(2_147_483_647))
    );
}

#[test]
fn samples_that_are_not_finite_are_counted_apart() {
    let samples = [1.0f32, f32::NAN, 3.0, f32::INFINITY, f32::NEG_INFINITY];
    let bytes: Vec<u8> = samples.iter().flat_map(|s| s.to_be_bytes()).collect();
    let got = stats(">f4", &bytes, &[6]);
    assert_eq!(
        (got.count, got.nonfinite, got.mean, got.m2),
        (2, 3, 2.0, 2.0)
    );
    assert_eq!((got.min, got.max), (Value::Float(1.0), Value::Float(3.0)));
}

#[test]
fn an_empty_stream_has_no_extremes() {
    for dtype in DTYPES {
        let got = stats(dtype, &[], &[0]);
        assert_eq!(got.count, 0);
        assert!(got.mean.is_nan() && got.std().is_nan(), "{dtype}");
        for extreme in [got.min, got.max] {
            assert!(matches!(extreme, Value::Float(number) if number.is_nan()));
        }
    }
}

#[test]
fn a_stream_that_ends_inside_a_sample_is_refused() {
    let error = run(&["stats:<f8"], &[0; 27], &[13]).unwrap_err();
    assert_eq!((error.code(), error.offset()), ("partial_sample", Some(24)));
    assert!(error.to_string().contains("3 of its 8 bytes"), "{error}");
}

/// Buffers of mapped files begin anywhere.
#[test]
fn addresses_that_are_not_aligned_change_nothing() {
    let bytes = noise(100_001);
    let chain = Chain::parse(&["stats:<f4"]).unwrap();
    let aligned = chain.run(&bytes[..80_000]).unwrap();
    let mut moved = vec![0; 80_003];
    for shift in 1..4 {
        moved[shift..][..80_000].copy_from_slice(&bytes[..80_000]);
        assert_eq!(
            format!("{:?}", chain.run(&moved[shift..][..80_000]).unwrap()),
            format!("{aligned:?}")
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Arbitrary bits, with NaN and infinities.
    #[test]
    fn any_cutting_equals_one_pass(cuts in cuts(160_000), dtype in prop::sample::select(DTYPES.to_vec())) {
        let bytes = noise(160_000);
        let whole = stats(dtype, &bytes, &[]);
        prop_assert!(same(&stats(dtype, &bytes, &cuts), &whole));
    }

    /// Then buffers are scanned in blocks.
    #[test]
    fn company_changes_nothing(cuts in cuts(600_000)) {
        let bytes = noise(600_000);
        let names = ["stats:<f4", "crc32c", "stats:>i2", "blake3"];
        let (together, _) = run(&names, &bytes, &cuts).unwrap();
        for (name, together) in names.iter().zip(together) {
            let (alone, _) = run(&[name], &bytes, &[]).unwrap();
            prop_assert_eq!(format!("{:?}", alone[0]), format!("{together:?}"));
        }
    }
}
