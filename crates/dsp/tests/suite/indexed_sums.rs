//! Sums of indexed samples in parts, against one pass and against exact arithmetic.

use isochrony_dsp::stats::{Extreme, IndexedSums, LEAF, Statistic, Summary, summary};
use isochrony_segment::{Complex32, Complex64};
use proptest::prelude::*;

/// A number that is neither constant nor alike from leaf to leaf; some are not finite.
fn value(index: i64) -> f64 {
    let mixed = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
    if mixed.is_multiple_of(997) {
        return f64::NAN;
    }
    if mixed.is_multiple_of(11) {
        return 0.0;
    }
    let fraction = mixed as f64 / (1u64 << 53) as f64;
    (fraction - 0.5) * 10f64.powi((index / 3000 % 7) as i32)
}

/// Ranges of samples with gaps between them, and the places where the sequence is cut into parts.
fn sequence() -> impl Strategy<Value = (i64, Vec<(i64, i64)>, Vec<u16>)> {
    let gap = prop_oneof![Just(0i64), 1i64..50, Just(LEAF as i64 - 1), 1i64..40_000];
    let ranges = prop::collection::vec((gap, 1i64..9000), 1..6);
    (
        -20_000i64..20_000,
        ranges,
        prop::collection::vec(any::<u16>(), 0..6),
    )
}

fn parts_equal_one_pass<T: Statistic>(
    start: i64,
    ranges: &[(i64, i64)],
    cuts: &[u16],
    sample: impl Fn(f64) -> T,
) -> Result<(), TestCaseError> {
    let mut pieces = Vec::new();
    let mut at = start;
    for &(gap, length) in ranges {
        at += gap;
        let samples: Vec<T> = (at..at + length)
            .map(|index| sample(value(index)))
            .collect();
        pieces.push((at, samples));
        at += length;
    }
    let mut whole = IndexedSums::new();
    pieces
        .iter()
        .for_each(|(at, samples)| whole.push(*at, samples));
    let span = (at - start) as u64;
    let mut ends: Vec<i64> = cuts
        .iter()
        .map(|&cut| start + ((u64::from(cut) * span) >> 16) as i64)
        .collect();
    ends.push(at);
    ends.sort_unstable();
    let mut joined = IndexedSums::new();
    let mut from = start;
    for to in ends {
        let mut part = IndexedSums::new();
        for (first, samples) in &pieces {
            let end = first + samples.len() as i64;
            let (low, high) = (from.max(*first), to.min(end));
            if low < high {
                // In two pushes, as segments come.
                let middle = low + (high - low) / 3;
                part.push(
                    low,
                    &samples[(low - first) as usize..(middle - first) as usize],
                );
                part.push(
                    middle,
                    &samples[(middle - first) as usize..(high - first) as usize],
                );
            }
        }
        // As it comes from another process.
        let sent =
            postcard::to_stdvec(&part).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let part: IndexedSums<T> =
            postcard::from_bytes(&sent).map_err(|error| TestCaseError::fail(error.to_string()))?;
        joined.append(&part);
        joined.append(&IndexedSums::new());
        from = to;
    }
    let extremes =
        |s: &Summary<T::Extreme>| (s.count, s.min.to_f64().to_bits(), s.max.to_f64().to_bits());
    let bits = |s: &Summary<T::Extreme>| (extremes(s), s.mean.to_bits(), s.m2.to_bits());
    prop_assert_eq!(bits(&joined.summary()), bits(&whole.summary()));
    prop_assert_eq!((joined.start(), joined.end()), (whole.start(), whole.end()));
    // About what one window gives, whose order is another.
    let flat: Vec<T> = pieces
        .iter()
        .flat_map(|(_, samples)| samples.iter().copied())
        .collect();
    let (got, one) = (whole.summary(), summary(&flat));
    prop_assert_eq!(extremes(&got), extremes(&one));
    if got.count == 0 {
        return Ok(());
    }
    prop_assert!((got.mean - one.mean).abs() <= 1e-12 * (one.std() + one.mean.abs()));
    prop_assert!((got.m2 - one.m2).abs() <= 1e-11 * one.m2);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn parts_of_f64((start, ranges, cuts) in sequence()) {
        parts_equal_one_pass(start, &ranges, &cuts, |x| x)?;
    }

    #[test]
    fn parts_of_f32((start, ranges, cuts) in sequence()) {
        parts_equal_one_pass(start, &ranges, &cuts, |x| x as f32)?;
    }

    #[test]
    fn parts_of_int64((start, ranges, cuts) in sequence()) {
        parts_equal_one_pass(start, &ranges, &cuts, |x| (x * 1e9) as i64)?;
    }

    #[test]
    fn parts_of_complex64((start, ranges, cuts) in sequence()) {
        parts_equal_one_pass(start, &ranges, &cuts, |x| Complex32::new(x as f32, -x as f32))?;
    }

    #[test]
    fn parts_of_complex128((start, ranges, cuts) in sequence()) {
        parts_equal_one_pass(start, &ranges, &cuts, |x| Complex64::new(x, -x))?;
    }
}

#[test]
fn a_single_leaf_is_one_window() {
    let samples: Vec<f64> = (0..LEAF as i64).map(value).collect();
    let mut sums = IndexedSums::new();
    sums.push(0, &samples);
    assert_eq!(sums.summary(), summary(&samples));
    sums.reset();
    assert_eq!(sums.summary().count, 0);
    assert_eq!((sums.start(), sums.heap_bytes() < 1 << 14), (None, true));
}
