//! Estimates against simulated queues.

use super::queue::{Arrivals, QueueSimulation, Service};
use isochrony_tune::service_rate::{
    RateMethod, RateProgress, ServiceRate, ServiceRateMonitor, ServiceRateOptions, UnknownRate,
};

const MEAN_S: f64 = 1e-3;
const SEEDS: u64 = 50;
const UTILIZATIONS: [f64; 6] = [0.3, 0.5, 0.6, 0.7, 0.9, 0.98];

/// The first period is a tenth or ten times the mean service time, by seed.
fn monitor_for(method: RateMethod, mean_s: f64, seed: u64) -> ServiceRateMonitor {
    let options = ServiceRateOptions {
        method,
        first_period_s: (mean_s * if seed.is_multiple_of(2) { 0.1 } else { 10.0 }).max(10e-6),
        ..Default::default()
    };
    ServiceRateMonitor::new(options).unwrap()
}

fn monitor(method: RateMethod, seed: u64) -> ServiceRateMonitor {
    monitor_for(method, MEAN_S, seed)
}

/// Rates are relative to the truth; samples include the search.
#[derive(Debug)]
struct Outcome {
    rate: f64,
    error: f64,
    samples: u64,
}

fn attempt(
    monitor: &mut ServiceRateMonitor,
    simulation: &mut QueueSimulation,
) -> Result<Outcome, UnknownRate> {
    for samples in 1.. {
        let sample = simulation.sample(monitor.period_s());
        let progress = monitor.push(sample).unwrap();
        match (progress, monitor.rate()) {
            (
                RateProgress::Converged,
                ServiceRate::Known {
                    items_per_second,
                    standard_error,
                    ..
                },
            ) => {
                return Ok(Outcome {
                    rate: items_per_second * simulation.mean_service_s,
                    error: standard_error * simulation.mean_service_s,
                    samples,
                });
            }
            (RateProgress::Failed, ServiceRate::Unknown { why }) => return Err(why),
            (RateProgress::Searching | RateProgress::Estimating, ServiceRate::Unknown { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    unreachable!()
}

fn attempts(
    method: RateMethod,
    service: Service,
    mean_s: f64,
    utilization: f64,
    firing: u64,
) -> Vec<Result<Outcome, UnknownRate>> {
    let one = |seed| {
        let mut simulation = QueueSimulation::new(service, mean_s, utilization, firing, seed);
        attempt(&mut monitor_for(method, mean_s, seed), &mut simulation)
    };
    (1..=SEEDS).map(|seed| one(seed * 7_919)).collect()
}

fn known(outcomes: &[Result<Outcome, UnknownRate>]) -> impl Iterator<Item = &Outcome> {
    outcomes.iter().filter_map(|outcome| outcome.as_ref().ok())
}

/// Mean relative rate, if at least half of the attempts know it.
fn mean_rate(outcomes: &[Result<Outcome, UnknownRate>]) -> Option<f64> {
    let count = known(outcomes).count();
    let sum: f64 = known(outcomes).map(|outcome| outcome.rate).sum();
    (2 * count as u64 >= SEEDS).then_some(sum / count as f64)
}

#[test]
fn utilization_law_is_within_a_tenth_or_unknown() {
    for service in Service::ALL {
        for firing in [1, 4] {
            for utilization in UTILIZATIONS {
                let outcomes = attempts(
                    RateMethod::UtilizationLaw,
                    service,
                    MEAN_S,
                    utilization,
                    firing,
                );
                let case = format!("{service:?}, firing {firing}, utilization {utilization}");
                let all = known(&outcomes).count();
                let off = known(&outcomes)
                    .filter(|o| (o.rate - 1.0).abs() > 0.1)
                    .count();
                if utilization < 0.4 {
                    assert!(all <= 25, "{case}: {all} known");
                    continue;
                }
                assert!(all >= 35, "{case}: {all} known");
                assert!(off <= 5, "{case}: {off} off: {outcomes:?}");
            }
        }
    }
}

#[test]
fn mean_estimates_are_those_of_the_documented_table() {
    use RateMethod::{FilteredQuantile, UtilizationLaw};
    use Service::{Bimodal, Deterministic, Exponential, Normal};
    let documented = [
        (
            UtilizationLaw,
            Deterministic,
            [0.0, 0.99, 0.99, 0.99, 0.99, 1.0],
        ),
        (
            UtilizationLaw,
            Exponential,
            [0.0, 1.01, 0.99, 1.0, 1.0, 1.0],
        ),
        (UtilizationLaw, Normal, [0.0, 1.0, 0.99, 0.99, 0.99, 1.0]),
        (UtilizationLaw, Bimodal, [0.0, 0.99, 0.99, 0.98, 0.99, 1.0]),
        (
            FilteredQuantile,
            Deterministic,
            [0.0, 0.0, 1.05, 1.04, 1.03, 1.02],
        ),
        (
            FilteredQuantile,
            Exponential,
            [0.0, 0.0, 0.97, 1.04, 1.21, 1.25],
        ),
        (FilteredQuantile, Normal, [0.0, 0.0, 1.06, 1.05, 1.06, 1.06]),
        (
            FilteredQuantile,
            Bimodal,
            [0.0, 0.78, 0.9, 1.05, 1.31, 1.39],
        ),
    ];
    for (method, service, rates) in documented {
        for (utilization, rate) in UTILIZATIONS.into_iter().zip(rates) {
            let outcomes = attempts(method, service, MEAN_S, utilization, 1);
            let found = mean_rate(&outcomes);
            let matches = match found {
                Some(found) => (found - rate).abs() <= 0.02,
                None => rate == 0.0,
            };
            assert!(matches, "{method:?} {service:?} {utilization}: {found:?}");
        }
    }
}

/// Why the dissertation's method needs a quantile above the mean.
#[test]
fn mean_of_unblocked_periods_is_near_the_throughput_for_short_periods() {
    for utilization in [0.5, 0.7, 0.9] {
        let mut simulation = QueueSimulation::new(Service::Exponential, MEAN_S, utilization, 1, 5);
        let (mut items, mut elapsed_s) = (0, 0.0);
        for _ in 0..400_000 {
            let sample = simulation.sample(MEAN_S / 4.0);
            if !sample.reader_blocked {
                items += sample.items;
                elapsed_s += sample.elapsed_s;
            }
        }
        let rate = items as f64 / elapsed_s * MEAN_S;
        assert!((rate - utilization).abs() < 0.06, "{utilization}: {rate}");
    }
}

#[test]
fn samples_to_an_estimate_are_as_documented() {
    let most = [
        (Service::Deterministic, 2_400),
        (Service::Normal, 2_400),
        (Service::Exponential, 18_000),
        (Service::Bimodal, 40_000),
    ];
    for (service, most) in most {
        let outcomes = attempts(RateMethod::UtilizationLaw, service, MEAN_S, 0.7, 1);
        let mut samples: Vec<_> = known(&outcomes).map(|o| o.samples).collect();
        samples.sort_unstable();
        let median = samples[samples.len() / 2];
        assert!((1_000..most).contains(&median), "{service:?}: {median}");
    }
}

#[test]
fn utilization_law_with_periods_longer_than_services_needs_high_utilization() {
    // Services of 2 us, periods of 10 us or more.
    for service in Service::ALL {
        for (utilization, knows) in [(0.7, false), (0.995, true)] {
            let outcomes = attempts(RateMethod::UtilizationLaw, service, 2e-6, utilization, 1);
            let all = known(&outcomes).count();
            let off = known(&outcomes)
                .filter(|o| (o.rate - 1.0).abs() > 0.1)
                .count();
            let expected = if knows { 25..=50 } else { 0..=0 };
            assert!(
                expected.contains(&all),
                "{service:?} at {utilization}: {all} known"
            );
            assert!(off <= 5, "{service:?} at {utilization}: {outcomes:?}");
        }
    }
}

#[test]
fn standard_errors_are_those_of_repeated_attempts() {
    for service in [Service::Exponential, Service::Bimodal] {
        let outcomes = attempts(RateMethod::UtilizationLaw, service, MEAN_S, 0.9, 1);
        let squares: f64 = known(&outcomes)
            .map(|o| ((o.rate - 1.0) / o.error).powi(2))
            .sum();
        let ratio = (squares / known(&outcomes).count() as f64).sqrt();
        assert!((0.6..1.5).contains(&ratio), "{service:?}: {ratio}");
    }
}

/// Samples until a change is noticed, at most `limit`.
fn samples_to_notice(
    monitor: &mut ServiceRateMonitor,
    simulation: &mut QueueSimulation,
    limit: u64,
) -> Option<u64> {
    (1..=limit).find(|_| {
        let sample = simulation.sample(monitor.period_s());
        monitor.push(sample).unwrap() == RateProgress::Changed
    })
}

#[test]
fn changes_by_two_and_ten_are_noticed() {
    use RateMethod::{FilteredQuantile, UtilizationLaw};
    // Factor of the service time, documented samples.
    let cases = [
        (UtilizationLaw, 10.0, 1_024),
        (UtilizationLaw, 2.0, 4_096),
        (UtilizationLaw, 0.5, 4_096),
        (UtilizationLaw, 0.1, 1_024),
        (FilteredQuantile, 10.0, 512),
        (FilteredQuantile, 2.0, 512),
        (FilteredQuantile, 0.1, 4_096),
    ];
    for (method, factor, limit) in cases {
        for service in Service::ALL {
            for (utilization, seed) in (1..=10).flat_map(|seed| [(0.7, seed), (0.9, seed)]) {
                let mut simulation =
                    QueueSimulation::new(service, MEAN_S, utilization, 1, seed * 31);
                let mut monitor = monitor(method, seed);
                attempt(&mut monitor, &mut simulation).unwrap();
                simulation.mean_service_s *= factor;
                let noticed = samples_to_notice(&mut monitor, &mut simulation, limit);
                let case = format!("{method:?} {service:?} {utilization} x{factor}, seed {seed}");
                assert!(noticed.is_some(), "{case}");
                assert_eq!(monitor.changes(), 1, "{case}");
                assert!(
                    matches!(monitor.rate(), ServiceRate::Unknown { .. }),
                    "{case}"
                );
            }
        }
    }
}

#[test]
fn the_rate_after_a_change_is_the_new_one() {
    for (utilization, factor) in [(0.6, 2.0), (0.98, 0.6)] {
        for seed in 1..=10 {
            let mut simulation =
                QueueSimulation::new(Service::Exponential, MEAN_S, utilization, 1, seed);
            let mut monitor = monitor(RateMethod::UtilizationLaw, seed);
            attempt(&mut monitor, &mut simulation).unwrap();
            simulation.mean_service_s *= factor;
            samples_to_notice(&mut monitor, &mut simulation, 4_096).unwrap();
            let outcome = attempt(&mut monitor, &mut simulation).unwrap();
            assert!(
                (outcome.rate - 1.0).abs() < 0.13,
                "x{factor}, seed {seed}: {outcome:?}"
            );
        }
    }
}

#[test]
fn false_alarms_are_rare() {
    for (method, most) in [
        (RateMethod::UtilizationLaw, 0.05),
        (RateMethod::FilteredQuantile, 0.15),
    ] {
        let (mut alarms, mut watched) = (0, 0);
        for service in Service::ALL {
            for utilization in [0.7, 0.9] {
                for seed in 1..=2 {
                    let mut simulation =
                        QueueSimulation::new(service, MEAN_S, utilization, 1, seed * 101);
                    let mut monitor = monitor(method, seed);
                    for _ in 0..100_000 {
                        let sample = simulation.sample(monitor.period_s());
                        match monitor.push(sample).unwrap() {
                            RateProgress::Watching => watched += 1,
                            RateProgress::Changed => alarms += 1,
                            _ => {}
                        }
                    }
                }
            }
        }
        let per_10_000 = f64::from(alarms) * 1e4 / f64::from(watched);
        assert!(
            watched > 1_000_000 && per_10_000 < most,
            "{method:?}: {alarms} in {watched}"
        );
    }
}

#[test]
fn utilization_law_does_not_depend_on_the_arrivals() {
    for arrivals in [Arrivals::Regular, Arrivals::Bursts] {
        for service in Service::ALL {
            for utilization in [0.55, 0.75, 0.95] {
                let one = |seed| {
                    let mut simulation =
                        QueueSimulation::new(service, 0.73e-3, utilization, 1, seed);
                    simulation.arrivals = arrivals;
                    attempt(
                        &mut monitor(RateMethod::UtilizationLaw, seed),
                        &mut simulation,
                    )
                };
                let outcomes: Vec<_> = (1..=30).map(|seed| one(seed * 15_485_863)).collect();
                let all = known(&outcomes).count();
                let off = known(&outcomes)
                    .filter(|o| (o.rate - 1.0).abs() > 0.1)
                    .count();
                let case = format!("{arrivals:?} {service:?} at {utilization}");
                assert!(all >= 20, "{case}: {all} known");
                assert!(off <= 3, "{case}: {off} off: {outcomes:?}");
            }
        }
    }
}
