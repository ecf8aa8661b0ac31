//! Estimated times of feeds against the simulated truth.

use isochrony_flow::Clock;
use isochrony_live::timing::{ClockEstimator, StampSource};
use isochrony_time::{Rate, RunId};
use proptest::prelude::*;

const BEGIN: i64 = 1_767_225_600_000_000_000;

fn noise(state: &mut u64) -> f64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

/// At `ppm` off the nominal kilohertz.
fn taken(index: i64, ppm: f64) -> f64 {
    index as f64 * 1e6 * (1.0 + ppm * 1e-6)
}

fn off(estimator: &ClockEstimator, index: i64, ppm: f64) -> f64 {
    let mut time = [0];
    estimator.clock().times(&[index], &mut time).unwrap();
    (time[0] - BEGIN) as f64 - taken(index, ppm)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Frames of 10 samples at 1 kHz with delays of 200 us plus up to some milliseconds, and much more in a seventh of
    /// the seconds: after a minute the clock is accurate to a tenth of the jitter.
    #[test]
    fn arrival_jitter_is_removed(ppm in -50.0f64..50.0, jitter in 0.1f64..5.0, seed: u64) {
        let mut estimator = ClockEstimator::new(StampSource::Arrival, Rate::new(1000, 1).unwrap(), 1e7);
        let mut state = seed;
        for index in (0..120_000).step_by(10) {
            let congested = index / 1000 % 7 == 3;
            let way = 2e5 - jitter * 1e6 * noise(&mut state).max(1e-9).ln() / 3.0 + if congested { 2e7 } else { 0.0 };
            let civil = BEGIN + (taken(index, ppm) + way) as i64;
            prop_assert_eq!(estimator.add_stamp(index, civil, false), None);
        }
        // The quickest of 100 exponential delays exceeds the minimum by a hundredth of their mean.
        let late = off(&estimator, 119_000, ppm) - 2e5;
        prop_assert!(late.abs() < 1e5 * jitter + 2e4, "{} ns", late);
        let found = (1000.0 / estimator.rate_hz() - 1.0) * 1e6;
        prop_assert!((found - ppm).abs() < 1.0 + jitter, "{} for {} ppm", found, ppm);
    }

    #[test]
    fn time_increases_for_any_arrivals(ways in prop::collection::vec(0i64..50_000_000, 300), sender: bool) {
        let source = if sender { StampSource::Sender } else { StampSource::Arrival };
        let mut estimator = ClockEstimator::new(source, Rate::new(1000, 1).unwrap(), 1e12);
        for (k, way) in ways.iter().enumerate() {
            estimator.add_stamp(100 * k as i64, BEGIN + 100_000_000 * k as i64 + way, false);
        }
        let indices: Vec<i64> = (0..30_000).collect();
        let mut times = vec![0; indices.len()];
        estimator.clock().times(&indices, &mut times).unwrap();
        prop_assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

#[test]
fn a_senders_stamps_are_its_times() {
    let mut estimator = ClockEstimator::new(StampSource::Sender, Rate::new(1000, 1).unwrap(), 1e7);
    for index in (0..60_000).step_by(100) {
        estimator.add_stamp(index, BEGIN + taken(index, 20.0) as i64, false);
    }
    for index in [30_000, 45_050, 59_999] {
        let off = off(&estimator, index, 20.0);
        assert!(off.abs() < 1000.0, "{off} ns at {index}");
    }
    let stamp = estimator.clock().stamp(45_050).unwrap();
    let from = stamp.civil.to_f64();
    let exact = BEGIN as f64 + taken(45_050, 20.0);
    assert!((from..=from + stamp.resolution.to_f64() + 256.0).contains(&exact));
}

#[test]
fn a_clock_that_is_set_begins_a_run() {
    let mut estimator = ClockEstimator::new(StampSource::Sender, Rate::new(1000, 1).unwrap(), 1e7);
    let mut steps = Vec::new();
    for index in (0..30_000).step_by(100) {
        let set = if index >= 10_000 { 2_000_000_000 } else { 0 };
        let told = index == 20_000;
        if let Some(step) = estimator.add_stamp(index, BEGIN + set + index * 1_000_000, told) {
            steps.push((index, step));
        }
    }
    assert_eq!(
        steps,
        [
            (10_000, (RunId(0), RunId(1))),
            (20_000, (RunId(1), RunId(2)))
        ]
    );
    let mut times = [0; 2];
    estimator
        .clock()
        .times(&[9_999, 10_000], &mut times)
        .unwrap();
    assert_eq!(times, [BEGIN + 9_999_000_000, BEGIN + 12_000_000_000]);
}

#[test]
fn before_anything_arrived_no_time_is_known() {
    let estimator = ClockEstimator::new(StampSource::Arrival, Rate::new(1000, 1).unwrap(), 1e7);
    let mut time = [0];
    estimator.clock().times(&[5], &mut time).unwrap();
    assert_eq!(time, [i64::MIN]);
    assert_eq!(estimator.clock().stamp(5), None);
}
