//! The Haar transform of integers against exact integers.

use isochrony_dsp::Isa;
use isochrony_dsp::features::{Count, Haar, HaarOfCounts, HaarOutput};
use isochrony_segment::Calibration;
use proptest::prelude::*;

const OUTPUTS: [HaarOutput; 3] = [
    HaarOutput::Energies,
    HaarOutput::Details,
    HaarOutput::Coefficients,
];

fn row<T: Count>(
    isa: Isa,
    counts: &[T],
    levels: usize,
    output: HaarOutput,
    values: &Calibration,
) -> Vec<f64> {
    let haar = HaarOfCounts::<T>::new(counts.len(), levels, output, values);
    let mut haar = haar.unwrap().expect("sums are exact").on(isa);
    let mut row = vec![f64::NAN; haar.bins()];
    haar.row(counts, &mut row);
    row
}

fn exact(counts: &[i64], levels: usize) -> (Vec<i128>, Vec<Vec<i128>>) {
    let mut sums: Vec<i128> = counts.iter().map(|&count| i128::from(count)).collect();
    let mut differences = Vec::new();
    for _ in 0..levels {
        let pairs = sums.chunks_exact(2);
        differences.push(pairs.clone().map(|pair| pair[0] - pair[1]).collect());
        sums = pairs.map(|pair| pair[0] + pair[1]).collect();
    }
    (sums, differences)
}

fn is_near(got: f64, want: f64, size: f64) -> bool {
    (got - want).abs() <= 8.0 * f64::EPSILON * size
}

/// Rows by definition, with the magnitude that each number is rounded from.
fn defined(counts: &[i64], levels: usize, values: &Calibration) -> [Vec<(f64, f64)>; 3] {
    let (sums, differences) = exact(counts, levels);
    let (scale, offset) = (values.scale(), values.offset());
    let root = |level: usize| 0.5f64.powi(level as i32).sqrt();
    let detail = |level: usize, difference: i128| {
        let value = difference as f64 * scale * root(level);
        (value, value.abs())
    };
    let shift = offset * (1u64 << levels) as f64;
    let approximation = |sum: i128| {
        let (value, size) = (
            sum as f64 * scale + shift,
            (sum as f64 * scale).abs() + shift.abs(),
        );
        (value * root(levels), size * root(levels))
    };
    let last: Vec<(f64, f64)> = sums.iter().map(|&sum| approximation(sum)).collect();
    let mut energies: Vec<(f64, f64)> = Vec::new();
    for (level, differences) in (1..).zip(&differences) {
        let squares: i128 = differences.iter().map(|d| d * d).sum();
        let energy = squares as f64 * (scale * root(level)).powi(2);
        energies.push((energy, energy));
    }
    // One rounding per addition.
    let (energy, size) = last
        .iter()
        .fold((0.0, 0.0), |(energy, size), (value, most)| {
            (energy + value * value, size + most * most)
        });
    energies.push((energy, size * last.len() as f64));
    let details = |level: usize| {
        differences[level - 1]
            .iter()
            .map(move |&d| detail(level, d))
    };
    let mut coefficients = last;
    for level in (1..=levels).rev() {
        coefficients.extend(details(level));
    }
    [energies, details(levels).collect(), coefficients]
}

/// Returns the number of exact outputs.
fn agrees<T: Count + Into<f64> + Into<i64>>(
    counts: &[T],
    levels: usize,
    calibration: (f64, f64),
) -> usize {
    let wide: Vec<i64> = counts.iter().map(|&count| count.into()).collect();
    let values = Calibration::new(calibration.0, calibration.1, "kPa").unwrap();
    let expected = defined(&wide, levels, &values);
    let mut compared = 0;
    for (output, expected) in OUTPUTS.into_iter().zip(&expected) {
        let made = HaarOfCounts::<T>::new(counts.len(), levels, output, &values).unwrap();
        if made.is_none() {
            continue;
        }
        compared += 1;
        let got = row(Isa::BASELINE, counts, levels, output, &values);
        assert_eq!(got.len(), expected.len());
        for (&got, &(want, size)) in got.iter().zip(expected) {
            assert!(is_near(got, want, size), "{output:?} {got} {want}");
        }
        for isa in Isa::available() {
            assert_eq!(row(isa, counts, levels, output, &values), got, "{isa:?}");
        }
        // Without calibration, the bits of the f64 transform.
        let plain = row(Isa::best(), counts, levels, output, &Calibration::default());
        let doubles: Vec<f64> = counts.iter().map(|&count| count.into()).collect();
        let mut haar = Haar::<f64>::new(counts.len(), levels, output).unwrap();
        let mut of_values = vec![f64::NAN; haar.bins()];
        haar.row(&doubles, &mut of_values);
        let bits = |row: &[f64]| row.iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
        assert_eq!(bits(&plain), bits(&of_values), "{output:?}");
    }
    compared
}

fn stretched<T: Copy>(counts: &[T], levels: usize, change: impl Fn(T, usize) -> T) -> Vec<T> {
    let all = counts.iter().cycle().take(counts.len() << levels);
    all.enumerate()
        .map(|(at, &count)| change(count, at))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn rows_are_exact_sums_scaled_once_on_every_instruction_set(
        words in prop::collection::vec(any::<i16>(), 1..24),
        longs in prop::collection::vec(any::<i32>(), 1..24),
        levels in 1usize..8,
        scale in prop::sample::select(vec![1.0, -0.25, 1.0 / 3.0, 7.3e-9, 4.1e12]),
        offset in prop::sample::select(vec![0.0, -2.5, 1e6 / 3.0]),
    ) {
        let calibration = (scale, offset);
        let of_words = stretched(&words, levels, |count, at| count.wrapping_add(at as i16));
        prop_assert_eq!(agrees::<i16>(&of_words, levels, calibration), 3);
        prop_assert_eq!(agrees::<u16>(&of_words.iter().map(|&count| count as u16).collect::<Vec<_>>(), levels, calibration), 3);
        prop_assert_eq!(agrees::<i8>(&of_words.iter().map(|&count| count as i8).collect::<Vec<_>>(), levels, calibration), 3);
        prop_assert_eq!(agrees::<u8>(&of_words.iter().map(|&count| count as u8).collect::<Vec<_>>(), levels, calibration), 3);
        let of_longs = stretched(&longs, levels, |count, at| count.wrapping_add(at as i32));
        prop_assert_eq!(agrees::<i32>(&of_longs, levels, calibration), 2);
    }
}

/// Maximise sums and differences of the last level.
fn extremes<T: Count>(width: usize, low: T, high: T) -> Vec<T> {
    let half = |at: usize| if at < width / 2 { low } else { high };
    (0..width).map(half).collect()
}

#[test]
fn deepest_exact_level_of_extreme_counts_is_exact_and_one_more_is_none() {
    let (values, plain) = (Calibration::default(), (1.0, 0.0));
    let refused = |made: bool| assert!(!made);
    for (low, high) in [(i16::MIN, i16::MAX), (i16::MAX, i16::MIN)] {
        assert_eq!(agrees(&extremes(1 << 16, low, high), 16, plain), 2);
        assert_eq!(agrees(&extremes(1 << 12, low, high), 11, plain), 3);
        assert_eq!(agrees(&vec![low; 1 << 12], 11, plain), 3);
    }
    assert_eq!(agrees(&extremes(1 << 15, 0, u16::MAX), 15, plain), 2);
    assert_eq!(agrees(&vec![u16::MAX; 1 << 12], 9, plain), 3);
    assert_eq!(agrees(&extremes(1 << 22, i32::MIN, i32::MAX), 22, plain), 2);
    let energies = HaarOutput::Energies;
    let made = HaarOfCounts::<i16>::new(1 << 12, 12, energies, &values);
    refused(made.unwrap().is_some());
    let made = HaarOfCounts::<u16>::new(1 << 12, 10, energies, &values);
    refused(made.unwrap().is_some());
    let made = HaarOfCounts::<i16>::new(1 << 17, 17, HaarOutput::Details, &values);
    refused(made.unwrap().is_some());
    let made = HaarOfCounts::<i32>::new(1 << 23, 23, HaarOutput::Details, &values);
    refused(made.unwrap().is_some());
    let made = HaarOfCounts::<i32>::new(2, 1, energies, &values);
    refused(made.unwrap().is_some());
}

#[test]
fn offsets_do_not_affect_details() {
    // A step of one count of 1e-6 on 1e4, which sums of values do not resolve.
    let counts: Vec<i16> = (0..128).map(|at| i16::from(at >= 64)).collect();
    let values = Calibration::new(1e-6, 1e4, "kPa").unwrap();
    let got = row(Isa::best(), &counts, 7, HaarOutput::Details, &values);
    let want = -64e-6 / 128f64.sqrt();
    assert!(is_near(got[0], want, want.abs()), "{} {want}", got[0]);
}

#[test]
fn overflowing_scale_squares_keep_zero_energies() {
    let values = Calibration::new(1e200, 0.0, "").unwrap();
    let got = row(
        Isa::best(),
        &[5i16, 5, 5, 4],
        2,
        HaarOutput::Energies,
        &values,
    );
    assert_eq!(got, [f64::INFINITY; 3]);
    let got = row(Isa::best(), &[0i16; 4], 2, HaarOutput::Energies, &values);
    assert_eq!(got, [0.0; 3]);
}

#[test]
fn rejects_the_same_levels_as_haar() {
    for (width, levels) in [(12, 3), (12, 0), (0, 1)] {
        let of_counts =
            HaarOfCounts::<i16>::new(width, levels, HaarOutput::Details, &Calibration::default());
        let of_values = Haar::<f64>::new(width, levels, HaarOutput::Details);
        let (Err(of_counts), Err(of_values)) = (of_counts, of_values) else {
            panic!("{levels} levels of {width} samples are taken");
        };
        assert_eq!(of_counts.to_string(), of_values.to_string());
    }
}
