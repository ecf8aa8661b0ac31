//! The cascade against the difference equation.

use isochrony_dsp::Isa;
use isochrony_dsp::filter::{Band, Family, Iir, Initial, Sections, SosFilter};
use proptest::prelude::*;

fn difference_equation(sections: &Sections, samples: &[f64]) -> Vec<f64> {
    let mut samples = samples.to_vec();
    for section in sections.as_slice() {
        let ([b0, b1, b2], [a1, a2]) = (section.b, section.a);
        let x = samples.clone();
        let before = |list: &[f64], n: usize, by: usize| if n < by { 0.0 } else { list[n - by] };
        for n in 0..x.len() {
            let w = b0 * x[n] + (b1 * before(&x, n, 1) + b2 * before(&x, n, 2));
            samples[n] = (w - a2 * before(&samples, n, 2)) - a1 * before(&samples, n, 1);
        }
    }
    samples
}

fn bandpass(order: usize) -> Sections {
    let band = Band::Bandpass(5.0, 30.0);
    Iir {
        family: Family::Butterworth,
        band,
        order,
    }
    .design("iir", 100.0)
    .expect("a design")
}

fn bits(samples: &[f64]) -> Vec<u64> {
    samples.iter().map(|x| x.to_bits()).collect()
}

fn noise(count: usize) -> Vec<f64> {
    (0..count)
        .map(|n| ((n * n) as f64 * 0.37).sin() + 0.2)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_chunking_on_any_instruction_set_equals_the_difference_equation(
        order in 1usize..11,
        cuts in prop::collection::vec(0usize..40, 1..12),
    ) {
        let sections = bandpass(order);
        let samples = noise(cuts.iter().sum());
        let expected = bits(&difference_equation(&sections, &samples));
        for isa in Isa::available() {
            let mut filter = SosFilter::on(isa, &sections, Initial::Zero);
            let mut results = vec![0.0; samples.len()];
            let mut from = 0;
            for cut in &cuts {
                let range = from..from + cut;
                filter.process(&samples[range.clone()], &mut results[range]).expect("equal lengths");
                from += cut;
            }
            prop_assert_eq!(&bits(&results), &expected, "{}", isa.name());
        }
    }
}

#[test]
fn long_inputs_give_the_same_bits_in_one_call_and_in_many() {
    // Longer than blocks and period.
    let mut samples = noise(9000);
    samples.extend(vec![0.0; 60_000]);
    for order in [1, 2, 3, 4, 5, 9] {
        let sections = bandpass(order);
        let mut whole = vec![0.0; samples.len()];
        SosFilter::new(&sections, Initial::Steady)
            .process(&samples, &mut whole)
            .expect("equal lengths");
        for isa in Isa::available() {
            let mut filter = SosFilter::on(isa, &sections, Initial::Steady);
            let mut pieces = vec![0.0; samples.len()];
            for (x, y) in samples.chunks(997).zip(pieces.chunks_mut(997)) {
                filter.process(x, y).expect("equal lengths");
            }
            assert_eq!(
                bits(&whole),
                bits(&pieces),
                "order {order} on {}",
                isa.name()
            );
        }
        let direct = difference_equation(&sections, &samples);
        let from_zero = {
            let mut results = vec![0.0; samples.len()];
            SosFilter::new(&sections, Initial::Zero)
                .process(&samples, &mut results)
                .expect("equal lengths");
            results
        };
        assert_eq!(bits(&direct[..9000]), bits(&from_zero[..9000]));
        let denormal = from_zero.iter().filter(|y| **y != 0.0 && !y.is_normal());
        assert!(denormal.count() <= 4096, "denormal numbers linger");
        assert!(
            direct
                .iter()
                .zip(&from_zero)
                .all(|(x, y)| (x - y).abs() < 1e-199)
        );
        assert_eq!(from_zero.last(), Some(&0.0));
    }
}

#[test]
fn f32_samples_are_filtered_in_f64_and_rounded_once() {
    let sections = bandpass(4);
    let singles: Vec<f32> = noise(500).iter().map(|x| *x as f32).collect();
    let doubles: Vec<f64> = singles.iter().map(|x| f64::from(*x)).collect();
    let mut results = vec![0.0f32; singles.len()];
    SosFilter::new(&sections, Initial::Zero)
        .process(&singles, &mut results)
        .expect("equal lengths");
    let expected: Vec<f32> = difference_equation(&sections, &doubles)
        .iter()
        .map(|y| *y as f32)
        .collect();
    assert_eq!(results, expected);
}

#[test]
fn a_constant_begins_without_a_transient_in_a_steady_filter() {
    let lowpass = Iir {
        family: Family::Butterworth,
        band: Band::Lowpass(1.0),
        order: 5,
    };
    let highpass = Iir {
        band: Band::Highpass(1.0),
        ..lowpass
    };
    for (iir, level) in [(lowpass, 7.0), (highpass, 0.0)] {
        let sections = iir.design("iir", 100.0).expect("a design");
        let mut results = vec![0.0f64; 2000];
        SosFilter::new(&sections, Initial::Steady)
            .process(&[7.0; 2000], &mut results)
            .expect("equal lengths");
        // Rounding of the state, amplified by poles 0.02 from the circle: about 1 / 0.02² per section.
        assert!(
            results
                .iter()
                .all(|y| (y - level).abs() < 7.0 * 3.0 * 2500.0 * f64::EPSILON * 10.0)
        );
    }
}

#[test]
fn a_nan_stays_until_the_filter_is_reset() {
    for bad in [f64::NAN, f64::INFINITY] {
        let mut filter = SosFilter::new(&bandpass(3), Initial::Zero);
        let mut samples = noise(50);
        samples[20] = bad;
        let mut results = vec![0.0; 50];
        filter
            .process(&samples, &mut results)
            .expect("equal lengths");
        assert!(results[..20].iter().all(|y| y.is_finite()));
        assert!(results[22..].iter().all(|y| y.is_nan()));
        filter.reset();
        samples[20] = 0.0;
        filter
            .process(&samples, &mut results)
            .expect("equal lengths");
        assert_eq!(
            bits(&results),
            bits(&difference_equation(&bandpass(3), &samples))
        );
    }
}

#[test]
fn outputs_of_another_length_are_refused() {
    let error = SosFilter::new(&bandpass(1), Initial::Zero)
        .process(&[0.0; 3], &mut [0.0; 2])
        .expect_err("short");
    assert_eq!(error.code(), "output_length");
}
