//! Window statistics against exact rational arithmetic.

use isochrony_dsp::Isa;
use isochrony_dsp::stats::{
    Accumulator, Extreme, Integer, LANES, Powers, Statistic, Summary, means_and_extremes_on,
    summaries, summary,
};
use isochrony_segment::{Bool8, Complex32, Complex64};
use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;

fn exact(value: f64) -> BigRational {
    BigRational::from_float(value).expect("finite")
}

/// Integers divided by `2^scale`: `m2 = (n sum(x^2) - sum(x)^2) / n`.
fn oracle(numbers: &[BigInt], scale: u32) -> (BigRational, BigRational) {
    let n = BigInt::from(numbers.len());
    let sum: BigInt = numbers.iter().sum();
    let squares: BigInt = numbers.iter().map(|x| x * x).sum();
    let m2 = &n * squares - &sum * &sum;
    let unit = BigInt::from(1) << scale;
    let mean = BigRational::new(sum, &n * &unit);
    (mean, BigRational::new(m2, n * &unit * unit))
}

/// Every finite f64 is a multiple of 2^-1074.
const FINEST: u32 = 1074;

fn scaled(value: f64) -> BigInt {
    let value = exact(value);
    value.numer() * ((BigInt::from(1) << FINEST) / value.denom())
}

/// In half units of the last place, and absolute.
fn close(got: f64, want: &BigRational, relative: f64, absolute: f64) -> Result<(), TestCaseError> {
    let zero = BigRational::from_integer(0.into());
    let size = if *want < zero { -want } else { want.clone() };
    let error = exact(got) - want;
    let error = if error < zero { -error } else { error };
    let bound = size * exact(relative) + exact(absolute);
    prop_assert!(error <= bound, "got {got}, want {want}");
    Ok(())
}

const U: f64 = f64::EPSILON / 2.0;

fn powers_are_those_of_the_summary<T: Integer>(
    samples: &[T],
    whole: &Summary<T::Extreme>,
) -> Result<(), TestCaseError> {
    for isa in Isa::available() {
        let mut powers = Powers::default();
        for piece in samples.chunks(1 + samples.len() / 3) {
            powers.push(isa, piece);
        }
        if !samples.is_empty() {
            prop_assert_eq!(powers.mean(), whole.mean);
            prop_assert_eq!(powers.variance(), whole.variance());
        }
    }
    Ok(())
}

/// Mean and M2 take two roundings each.
fn integers_are_exact<T>(samples: &[T]) -> Result<(), TestCaseError>
where
    T: Statistic<Extreme = T> + Integer<Extreme = T> + Extreme + Ord + Into<i64>,
{
    let got = summary(samples);
    powers_are_those_of_the_summary(samples, &got)?;
    let numbers: Vec<BigInt> = samples.iter().map(|&s| s.into().into()).collect();
    let (mean, m2) = oracle(&numbers, 0);
    prop_assert_eq!(Some(got.min), samples.iter().min().copied());
    prop_assert_eq!(Some(got.max), samples.iter().max().copied());
    prop_assert_eq!(got.count, samples.len() as u64);
    close(got.mean, &mean, 2.1 * U, 0.0)?;
    close(got.m2, &m2, 2.1 * U, 0.0)
}

/// The documented error bound.
fn floats_are_close(values: &[f64], got: &Summary<f64>) -> Result<(), TestCaseError> {
    let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    prop_assert_eq!(got.count, finite.len() as u64);
    let Some(&first) = finite.first() else {
        prop_assert!(got.min.is_nan() && got.max.is_nan() && got.mean.is_nan());
        return Ok(());
    };
    prop_assert_eq!(
        got.min,
        finite.iter().copied().fold(f64::INFINITY, f64::min)
    );
    prop_assert_eq!(
        got.max,
        finite.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    );
    let numbers: Vec<BigInt> = finite.iter().map(|&v| scaled(v)).collect();
    let (mean, m2) = oracle(&numbers, FINEST);
    let n = finite.len() as f64;
    let gamma = (n / LANES as f64 + 8.0) * U;
    let spread = finite.iter().map(|v| (v - first).abs()).sum::<f64>() / n;
    close(got.mean, &mean, 2.0 * U, 2.0 * gamma * spread)?;
    close(got.m2, &m2, 3.0 * gamma * (n + 1.0), 0.0)
}

fn same_bits<E: Extreme>(a: &Summary<E>, b: &Summary<E>) -> Result<(), TestCaseError> {
    let bits = |s: &Summary<E>| {
        let (min, max) = (s.min.to_f64().to_bits(), s.max.to_f64().to_bits());
        (min, max, s.count, s.mean.to_bits(), s.m2.to_bits())
    };
    prop_assert_eq!(bits(a), bits(b), "{:?} {:?}", a, b);
    Ok(())
}

fn any_chunking_and_cpu_equals_one_pass<T: Statistic>(
    samples: &[T],
    cuts: &[u16],
) -> Result<(), TestCaseError> {
    let whole = summary(samples);
    let mut ends: Vec<usize> = cuts
        .iter()
        .map(|&c| c as usize * (samples.len() + 1) / 65536)
        .collect();
    ends.extend([0, samples.len()]);
    ends.sort_unstable();
    for isa in isochrony_dsp::Isa::available() {
        let mut accumulator = Accumulator::on(isa);
        for window in ends.windows(2) {
            accumulator.push(&samples[window[0]..window[1]]);
        }
        same_bits(&accumulator.finish(), &whole)?;
        accumulator.reset();
        accumulator.push(samples);
        same_bits(&accumulator.finish(), &whole)?;
        if !samples.is_empty() {
            let mut means = [Summary::EMPTY];
            prop_assert_eq!(
                means_and_extremes_on(isa, samples, samples.len(), &mut means),
                Ok(1)
            );
            let m2 = whole.m2;
            same_bits(&Summary { m2, ..means[0] }, &whole)?;
        }
    }
    Ok(())
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        20 => -1.0f64..1.0,
        20 => (-1.0f64..1.0).prop_map(|v| 1e6 + v),
        5 => -1e30f64..1e30,
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
        1 => Just(-0.0),
    ]
}

fn cuts() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), 0..6)
}

/// Often an extreme, where sums would overflow.
macro_rules! integer {
    ($type:ty) => {
        prop::collection::vec(
            prop_oneof![8 => any::<$type>(), 1 => Just(<$type>::MIN), 1 => Just(<$type>::MAX), 4 => (0 as $type)..100],
            1..3000,
        )
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn int8(samples in integer!(i8), cuts in cuts()) {
        integers_are_exact(&samples)?;
        any_chunking_and_cpu_equals_one_pass(&samples, &cuts)?;
    }

    #[test]
    fn uint8(samples in integer!(u8), cuts in cuts()) {
        integers_are_exact(&samples)?;
        any_chunking_and_cpu_equals_one_pass(&samples, &cuts)?;
    }

    #[test]
    fn int16(samples in integer!(i16), cuts in cuts()) {
        integers_are_exact(&samples)?;
        any_chunking_and_cpu_equals_one_pass(&samples, &cuts)?;
    }

    #[test]
    fn uint16(samples in integer!(u16), cuts in cuts()) {
        integers_are_exact(&samples)?;
        any_chunking_and_cpu_equals_one_pass(&samples, &cuts)?;
    }

    #[test]
    fn int32(samples in integer!(i32), shift in 0u32..16, cuts in cuts()) {
        let samples: Vec<i32> = samples.iter().map(|s| s >> shift).collect();
        integers_are_exact(&samples)?;
        any_chunking_and_cpu_equals_one_pass(&samples, &cuts)?;
    }

    #[test]
    fn int64(samples in integer!(i64), shift in 0u32..60, cuts in cuts()) {
        let samples: Vec<i64> = samples.iter().map(|s| s >> shift).collect();
        let got = summary(&samples);
        prop_assert_eq!(Some(got.min), samples.iter().min().copied());
        prop_assert_eq!(Some(got.max), samples.iter().max().copied());
        let numbers: Vec<BigInt> = samples.iter().map(|&s| s.into()).collect();
        let (mean, m2) = oracle(&numbers, 0);
        let n = samples.len() as f64;
        let gamma = (n / LANES as f64 + 8.0) * U;
        let spread = (got.max as f64 - got.min as f64).abs();
        close(got.mean, &mean, 3.0 * U, 2.0 * gamma * spread + U * (samples[0] as f64).abs())?;
        close(got.m2, &m2, 3.0 * gamma * (n + 1.0), 0.0)?;
        any_chunking_and_cpu_equals_one_pass(&samples, &cuts)?;
    }

    #[test]
    fn float64(samples in prop::collection::vec(float(), 0..3000), cuts in cuts()) {
        floats_are_close(&samples, &summary(&samples))?;
        any_chunking_and_cpu_equals_one_pass(&samples, &cuts)?;
    }

    #[test]
    fn float32(samples in prop::collection::vec(float(), 0..3000), cuts in cuts()) {
        let samples: Vec<f32> = samples.iter().map(|&s| s as f32).collect();
        let got = summary(&samples);
        let wide: Vec<f64> = samples.iter().map(|&s| f64::from(s)).collect();
        let got = Summary {
            min: f64::from(got.min),
            max: f64::from(got.max),
            count: got.count,
            mean: got.mean,
            m2: got.m2,
        };
        floats_are_close(&wide, &got)?;
        any_chunking_and_cpu_equals_one_pass(&samples, &cuts)?;
    }

    #[test]
    fn complex128(parts in prop::collection::vec((float(), float()), 0..1000), cuts in cuts()) {
        let samples: Vec<Complex64> = parts.iter().map(|&(re, im)| Complex64::new(re, im)).collect();
        // Squares do not overflow: the plain formula holds to 2 roundings.
        let magnitudes: Vec<f64> = parts
            .iter()
            .map(|(re, im)| (re * re + im * im).sqrt())
            .collect();
        // As text: NaN extremes are not equal.
        prop_assert_eq!(format!("{:?}", summary(&samples)), format!("{:?}", summary(&magnitudes)));
        any_chunking_and_cpu_equals_one_pass(&samples, &cuts)?;
    }

    #[test]
    fn complex64(parts in prop::collection::vec((float(), float()), 1..1000), cuts in cuts()) {
        let samples: Vec<Complex32> =
            parts.iter().map(|&(re, im)| Complex32::new(re as f32, im as f32)).collect();
        let finite = samples.iter().filter(|s| s.is_finite()).count();
        let got = summary(&samples);
        prop_assert_eq!(got.count, finite as u64);
        // `hypot` in f64 differs by less than half a unit of f32.
        let largest = samples.iter().filter(|s| s.is_finite()).map(|s| f64::from(s.re).hypot(f64::from(s.im)));
        let largest = largest.fold(f64::NAN, f64::max);
        prop_assert!(finite == 0 || (f64::from(got.max) / largest - 1.0).abs() < 1e-7 || largest == 0.0);
        any_chunking_and_cpu_equals_one_pass(&samples, &cuts)?;
    }

    #[test]
    fn booleans(bytes in prop::collection::vec(any::<u8>(), 1..3000), cuts in cuts()) {
        let samples: &[Bool8] = bytemuck::cast_slice(&bytes);
        let truth: Vec<u8> = bytes.iter().map(|&b| u8::from(b != 0)).collect();
        prop_assert_eq!(summary(samples), summary(&truth));
        any_chunking_and_cpu_equals_one_pass(samples, &cuts)?;
    }

    #[test]
    fn windows_equal_their_summaries(samples in integer!(i16), window in 1usize..400) {
        let mut out = vec![Summary::EMPTY; samples.len() / window];
        prop_assert_eq!(summaries(&samples, window, &mut out), Ok(out.len()));
        for (chunk, got) in samples.chunks_exact(window).zip(&out) {
            prop_assert_eq!(*got, summary(chunk));
        }
    }

    #[test]
    fn merged_parts_are_close_to_the_whole(samples in integer!(i32), cut in any::<u16>()) {
        let (head, tail) = samples.split_at(cut as usize * (samples.len() + 1) / 65536);
        let (got, want) = (summary(head).merge(&summary(tail)), summary(&samples));
        prop_assert_eq!((got.min, got.max, got.count), (want.min, want.max, want.count));
        close(got.mean, &exact(want.mean), 0.0, 8.0 * U * f64::from(i32::MAX))?;
        // Three non-negative terms.
        close(got.m2, &exact(want.m2), 32.0 * U, want.count as f64 * 1e-6)?;
    }
}

#[test]
fn the_oracle_knows_known_answers() {
    let numbers = [2, 4, 4, 4, 5, 5, 7, 9].map(BigInt::from);
    assert_eq!(oracle(&numbers, 0), (exact(5.0), exact(32.0)));
    let halves = [0.5, 1.5].map(scaled);
    assert_eq!(oracle(&halves, FINEST), (exact(1.0), exact(0.5)));
}

#[test]
fn an_empty_window_is_defined() {
    let none = summary::<i16>(&[]);
    assert_eq!((none.min, none.max, none.count, none.m2), (0, 0, 0, 0.0));
    assert!(none.mean.is_nan() && none.std().is_nan() && none.rms().is_nan());
    let nothing_finite = summary(&[f32::NAN, f32::INFINITY]);
    assert!(nothing_finite.min.is_nan() && nothing_finite.max.is_nan());
    assert_eq!(nothing_finite.count, 0);
    assert_eq!(summary::<f64>(&[]).count, 0);
    assert_eq!(summary::<Bool8>(&[]).count, 0);
    let some = summary(&[1i16, 2]);
    assert_eq!(some.merge(&none), some);
    assert_eq!(none.merge(&some), some);
}

#[test]
fn a_constant_has_no_deviation() {
    for value in [0.1, -1e300, 5e-324, 1e16] {
        let got = summary(&vec![value; 1000]);
        assert_eq!((got.mean, got.m2), (value, 0.0));
    }
    assert_eq!(summary(&[i64::MIN; 100]).m2, 0.0);
}

#[test]
fn small_deviations_on_a_large_mean_survive() {
    // Nanoseconds since 1970: f64 cannot distinguish neighbours.
    let stamps: Vec<i64> = (0..1000).map(|i| 1_700_000_000_000_000_000 + i).collect();
    let want = (1000.0f64 * (1000.0 * 1000.0 - 1.0)) / 12.0;
    assert_eq!(summary(&stamps).m2, want);
}

#[test]
fn known_answers() {
    let got = summary(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
    assert_eq!(
        (got.min, got.max, got.mean, got.m2, got.std()),
        (2.0, 9.0, 5.0, 32.0, 2.0)
    );
    assert_eq!(summary(&[3.0, 4.0]).rms(), 12.5f64.sqrt());
    assert!((summary(&[Complex64::new(3e200, 4e200)]).min - 5e200).abs() < 1e185);
    assert!((summary(&[Complex64::new(3e-200, 4e-200)]).min - 5e-200).abs() < 1e-215);
    assert_eq!(summary(&[Complex32::new(3.0, -4.0)]).max, 5.0);
}

#[test]
fn squares_beyond_f64_are_infinite_not_nan() {
    let got = summary(&[1e300, -1e300, 0.0]);
    assert_eq!((got.count, got.m2), (3, f64::INFINITY));
    assert!((got.mean / 1e300).abs() < 1e-10);
}

#[test]
fn refuses_windows_of_zero_and_short_outputs() {
    let error = summaries(&[1i16], 0, &mut []).unwrap_err();
    assert_eq!(error.code(), "zero_window");
    let error = summaries(&[1i16; 10], 3, &mut [Summary::EMPTY; 2]).unwrap_err();
    assert_eq!(error.code(), "output_length");
    let message = error.to_string();
    assert!(message.contains('3') && message.contains('2'), "{message}");
}
