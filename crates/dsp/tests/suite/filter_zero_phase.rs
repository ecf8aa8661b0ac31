//! Filtering by blocks against the whole range at once.

use isochrony_dsp::filter::{Band, Family, Iir, Initial, Sections, SosFilter, ZeroPhase};
use proptest::prelude::*;

fn noise(count: usize) -> Vec<f64> {
    (0..count)
        .map(|n| ((n * n) as f64 * 0.37).sin() + n as f64 / 10_000.0)
        .collect()
}

fn design(band: Band, order: usize) -> Sections {
    let family = Family::Butterworth;
    Iir {
        family,
        band,
        order,
    }
    .design("iir", 100.0)
    .expect("a design")
}

fn once(sections: &Sections, values: &mut [f64]) {
    SosFilter::new(sections, Initial::Steady).process_in_place(values);
}

fn at_once(sections: &Sections, samples: &[f64], pad: usize) -> Vec<f64> {
    let (n, pad) = (samples.len(), pad.min(samples.len() - 1));
    let before = (1..=pad).rev().map(|k| 2.0 * samples[0] - samples[k]);
    let after = (1..=pad).map(|k| 2.0 * samples[n - 1] - samples[n - 1 - k]);
    let mut values: Vec<f64> = before.chain(samples.iter().copied()).chain(after).collect();
    once(sections, &mut values);
    values.reverse();
    once(sections, &mut values);
    values.reverse();
    values[pad..pad + n].to_vec()
}

fn block_by_block(filter: &mut ZeroPhase, samples: &[f64], cuts: &[usize]) -> Vec<f64> {
    let mut results = vec![0.0; samples.len() + filter.lag()];
    let (mut from, mut cuts) = (0, cuts.iter().cycle());
    while from < samples.len() {
        let to = samples.len().min(from + cuts.next().expect("some"));
        filter
            .process(&samples[from..to], &mut results[from..to])
            .expect("equal lengths");
        from = to;
    }
    filter.finish(&mut results[from..]).expect("a lag");
    results.split_off(filter.lag())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_chunking_equals_one_pass_and_approximates_whole_filtering(
        count in 1usize..70_000, cuts in prop::collection::vec(1usize..20_000, 1..6), order in 1usize..4,
    ) {
        let sections = design(Band::Bandpass(2.0, 20.0), order);
        let samples = noise(count);
        let mut filter = ZeroPhase::new("zero_phase", &sections).expect("it settles");
        let whole = block_by_block(&mut filter, &samples, &[usize::MAX / 2]);
        let pieces = block_by_block(&mut filter, &samples, &cuts);
        prop_assert!(whole.iter().zip(&pieces).all(|(x, y)| x.to_bits() == y.to_bits()));
        // SciPy's padding: 3 (2 sections + 1).
        let expected = at_once(&sections, &samples, 3 * (2 * sections.as_slice().len() + 1));
        // A block misses 1e-12 of what follows.
        for (got, want) in whole.iter().zip(&expected) {
            prop_assert!((got - want).abs() < 2e-11, "{} for {}", got, want);
        }
    }
}

#[test]
fn long_settling_is_supported_and_too_long_is_rejected() {
    // Settling takes longer than the minimum block.
    let sections = design(Band::Lowpass(0.005), 2);
    let settling = sections.settling(1e-12) as usize;
    assert!(settling > 1 << 14);
    let samples = noise(7 * settling / 2);
    let mut filter = ZeroPhase::new("zero_phase", &sections).expect("it settles");
    let got = block_by_block(&mut filter, &samples, &[5000]);
    let expected = at_once(&sections, &samples, 9);
    let most = expected.iter().fold(0.0f64, |most, y| most.max(y.abs()));
    // Near the circle, coefficients amplify rounding by the square of the settling time.
    let near = most * (1e-12 + f64::EPSILON * (settling as f64).powi(2));
    assert!(
        got.iter()
            .zip(&expected)
            .all(|(got, want)| (got - want).abs() < near)
    );
    assert_eq!(got.len(), samples.len());

    let error = ZeroPhase::new("zero_phase", &design(Band::Lowpass(1e-5), 2))
        .expect_err("too long")
        .to_string();
    assert!(
        error.contains("cutoff_hz=settling after") && error.contains("raise the lowest corner"),
        "{error}"
    );
}

#[test]
fn a_filter_of_first_order_is_padded_as_scipy_pads_it() {
    let sections = design(Band::Lowpass(3.0), 1);
    let samples = noise(200);
    let mut filter = ZeroPhase::new("zero_phase", &sections).expect("it settles");
    let got = block_by_block(&mut filter, &samples, &[64]);
    let expected = at_once(&sections, &samples, 6);
    assert!(
        got.iter()
            .zip(&expected)
            .all(|(got, want)| (got - want).abs() < 1e-12)
    );
}

#[test]
fn outputs_of_another_length_are_refused() {
    let mut filter =
        ZeroPhase::new("zero_phase", &design(Band::Lowpass(3.0), 1)).expect("it settles");
    assert_eq!(
        filter
            .process(&[0.0; 3], &mut [0.0; 2])
            .expect_err("short")
            .code(),
        "output_length"
    );
    assert_eq!(
        filter.finish(&mut [0.0; 2]).expect_err("short").code(),
        "output_length"
    );
}
