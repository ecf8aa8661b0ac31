//! Period search, unknown rates and input checks.

use super::queue::{Arrivals, QueueSimulation, Service};
use isochrony_tune::service_rate::{
    PeriodSample, QueueEnd, RateMethod, RateProgress, ServiceRate, ServiceRateMonitor,
    ServiceRateOptions, UnknownRate,
};

/// Runs until the first attempt leaves its search or fails; `sample` gets the period and a counter.
fn run(
    options: ServiceRateOptions,
    mut sample: impl FnMut(f64, u64) -> PeriodSample,
    end: RateProgress,
) -> ServiceRateMonitor {
    let mut monitor = ServiceRateMonitor::new(options).unwrap();
    for i in 0..1_000_000 {
        let progress = monitor.push(sample(monitor.period_s(), i)).unwrap();
        if progress == end {
            return monitor;
        }
        assert_ne!(progress, RateProgress::Failed, "{:?}", monitor.rate());
    }
    panic!(
        "no {end:?} in a million samples, period {}",
        monitor.period_s()
    );
}

fn failure(
    options: ServiceRateOptions,
    sample: impl FnMut(f64, u64) -> PeriodSample,
) -> UnknownRate {
    match run(options, sample, RateProgress::Failed).rate() {
        ServiceRate::Unknown { why } => why,
        known => panic!("{known:?}"),
    }
}

fn blocked(elapsed_s: f64, items: u64) -> PeriodSample {
    PeriodSample {
        reader_blocked: true,
        ..PeriodSample::unblocked(elapsed_s, items)
    }
}

#[test]
fn period_grows_until_the_timer_is_stable() {
    // Every second period is 50 us late: above a tenth of 100, 200 and 400 us, below that of 800 us.
    let late = |period_s: f64, i: u64| {
        PeriodSample::unblocked(period_s + if i.is_multiple_of(2) { 50e-6 } else { 0.0 }, 1)
    };
    let monitor = run(Default::default(), late, RateProgress::Estimating);
    assert!((monitor.period_s() - 800e-6).abs() < 1e-9);
}

#[test]
fn period_grows_until_items_pass() {
    // An item per 6 ms: the first candidate with 1/32 per period is 200 us.
    let mut passed_s = 0.0;
    let slow = |period_s: f64, _: u64| {
        let before = (passed_s / 6e-3) as u64;
        passed_s += period_s;
        PeriodSample::unblocked(period_s, (passed_s / 6e-3) as u64 - before)
    };
    let monitor = run(Default::default(), slow, RateProgress::Estimating);
    assert!((monitor.period_s() - 200e-6).abs() < 1e-9);
}

#[test]
fn period_shrinks_until_single_services_are_resolved() {
    let options = ServiceRateOptions {
        first_period_s: 0.1,
        ..Default::default()
    };
    for service in Service::ALL {
        let mut simulation = QueueSimulation::new(service, 1e-3, 0.6, 1, 3);
        let sample = |period_s: f64, _: u64| simulation.sample(period_s);
        let monitor = run(options, sample, RateProgress::Estimating);
        let period_s = monitor.period_s();
        assert!(
            (0.05e-3..0.6e-3).contains(&period_s),
            "{service:?}: {period_s}"
        );
    }
}

#[test]
fn period_resolves_services_between_regular_arrivals() {
    // Waits of 0.25 ms between services of 0.75 ms: three periods must fit into a service.
    let mut simulation = QueueSimulation::new(Service::Normal, 0.75e-3, 0.75, 1, 3);
    simulation.arrivals = Arrivals::Regular;
    let sample = |period_s: f64, _: u64| simulation.sample(period_s);
    let options = ServiceRateOptions {
        first_period_s: 10e-3,
        ..Default::default()
    };
    let monitor = run(options, sample, RateProgress::Converged);
    assert!(monitor.period_s() < 0.25e-3, "{}", monitor.period_s());
}

/// Fits each search, then follows `pattern`: `#` is an unblocked period with an item, `-` one without, `.` a blocked
/// one.
fn fits_then(pattern: &'static [u8]) -> impl FnMut(f64, u64) -> PeriodSample {
    let (mut last_s, mut count) = (0.0, 0);
    move |period_s, _| {
        if period_s != last_s {
            (last_s, count) = (period_s, 0);
        }
        count += 1;
        if count <= 128 {
            return PeriodSample::unblocked(period_s, u64::from(count % 8 == 0));
        }
        match pattern[count % pattern.len()] {
            b'#' => PeriodSample::unblocked(period_s, 1),
            b'-' => PeriodSample::unblocked(period_s, 0),
            _ => blocked(period_s, 1),
        }
    }
}

#[test]
fn an_estimate_with_too_long_a_period_goes_back_to_the_search() {
    // Unblocked shares of one, two and three periods: 1/2, 0, 0 (no pairs); 1/2, 1/3, 1/6 with items in each; 3/5, 1/5,
    // 0, not on a line.
    for pattern in [b"-.".as_slice(), b"###...", b"--.-."] {
        let mut sample = fits_then(pattern);
        let mut monitor = ServiceRateMonitor::new(Default::default()).unwrap();
        let first_s = monitor.period_s();
        let mut estimated = false;
        let back = (0..4_096).any(|i| {
            let progress = monitor.push(sample(monitor.period_s(), i)).unwrap();
            estimated |= progress == RateProgress::Estimating;
            estimated && progress == RateProgress::Searching
        });
        assert!(back, "{pattern:?}: {:?}", monitor.rate());
        assert!((monitor.period_s() - first_s / 1.5).abs() < 1e-12);
    }
    // Items in every second: resolved, and the shares lie on a line.
    let monitor = run(
        Default::default(),
        fits_then(b"#--..."),
        RateProgress::Converged,
    );
    assert_eq!(monitor.period_s(), 100e-6);
}

#[test]
fn an_attempt_ends_at_the_shortest_period_or_the_last_sample() {
    let options = ServiceRateOptions::default();
    let period_s = options.min_period_s;
    let why = failure(options, fits_then(b"-."));
    assert_eq!(why, UnknownRate::PeriodTooLong { period_s });
    // May end within an estimate, or on its last sample: twice 128 searched and 1,024 estimated.
    for max_samples in [2_048, 2_304] {
        let few = ServiceRateOptions {
            max_samples,
            ..options
        };
        let why = failure(few, fits_then(b"-."));
        assert_eq!(
            why,
            UnknownRate::NotConverged {
                samples: max_samples
            }
        );
    }
}

#[test]
fn quantile_lengthens_the_period_while_nothing_blocks() {
    let options = ServiceRateOptions {
        method: RateMethod::FilteredQuantile,
        ..Default::default()
    };
    // Blocks above 500 us: the longest usable period is within the last step of it.
    let sample = |period_s: f64, _: u64| {
        let items = (period_s * 1e5) as u64;
        if period_s > 500e-6 {
            blocked(period_s, items)
        } else {
            PeriodSample::unblocked(period_s, items)
        }
    };
    let monitor = run(options, sample, RateProgress::Estimating);
    let period_s = monitor.period_s();
    assert!((400e-6..=500e-6).contains(&period_s), "{period_s}");
    // Without blocking it stops at 64 items: 100 us doubled three times reach 640 us.
    let sample = |period_s: f64, _: u64| PeriodSample::unblocked(period_s, (period_s * 1e5) as u64);
    let monitor = run(options, sample, RateProgress::Estimating);
    assert!((monitor.period_s() - 800e-6).abs() < 1e-9);
}

#[test]
fn unknown_rates_say_why() {
    let options = ServiceRateOptions::default();
    let (min_s, max_s) = (options.min_period_s, options.max_period_s);
    assert_eq!(
        failure(options, |period_s, _| blocked(period_s, 0)),
        UnknownRate::NeverUnblocked { samples: 2_048 }
    );
    assert_eq!(
        failure(options, |period_s, _| PeriodSample::unblocked(
            2.0 * period_s,
            1
        )),
        UnknownRate::PeriodUnstable { period_s: max_s }
    );
    assert_eq!(
        failure(options, |period_s, _| PeriodSample::unblocked(period_s, 0)),
        UnknownRate::TooFewItems { period_s: max_s }
    );
    assert_eq!(
        failure(options, |period_s, _| blocked(period_s, 5)),
        UnknownRate::PeriodTooLong { period_s: min_s }
    );
    // Late by 50 us, and blocked above 300 us.
    let between = failure(options, |period_s, _| {
        if period_s > 300e-6 {
            blocked(period_s, 5)
        } else {
            PeriodSample::unblocked(period_s + 50e-6, 5)
        }
    });
    let UnknownRate::NoPeriod {
        too_short_s,
        too_long_s,
    } = between
    else {
        panic!("{between:?}")
    };
    assert!(too_short_s <= 300e-6 && 300e-6 < too_long_s && too_long_s <= 1.25 * too_short_s);
    let bursts = ServiceRateOptions {
        max_samples: 2_048,
        ..options
    };
    assert_eq!(
        failure(bursts, |period_s, i| {
            PeriodSample::unblocked(period_s, if i % 700 == 0 { 1_000 } else { 0 })
        }),
        UnknownRate::NotConverged { samples: 2_048 }
    );
    // Two of ten periods unblocked, every second of these with an item.
    let idle = failure(options, |period_s, i| match i % 20 {
        0 => PeriodSample::unblocked(period_s, 1),
        1 | 10 | 11 => PeriodSample::unblocked(period_s, 0),
        _ => blocked(period_s, 0),
    });
    let UnknownRate::LowUtilization { utilization } = idle else {
        panic!("{idle:?}")
    };
    // Single periods 0.2, pairs 0.1: 0.3 at zero length.
    assert!((utilization - 0.3).abs() < 5e-3, "{utilization}");
}

#[test]
fn unknown_rates_have_a_message_with_value_and_remedy() {
    let cases = [
        (
            UnknownRate::TooFewSamples { samples: 7 },
            "7 samples so far are too few; keep sampling",
        ),
        (
            UnknownRate::NeverUnblocked { samples: 7 },
            "the server waited in each of 7 periods; give it work, or sample while it has some",
        ),
        (
            UnknownRate::PeriodUnstable { period_s: 0.5 },
            "sampling periods of 0.5 s are off by more than 10 %; raise max_period_s, or run the monitor on a core of its own",
        ),
        (
            UnknownRate::TooFewItems { period_s: 0.5 },
            "too few items pass in a period of 0.5 s; raise max_period_s",
        ),
        (
            UnknownRate::PeriodTooLong { period_s: 0.5 },
            "the server waits too often in periods of 0.5 s; lower min_period_s, or give it more work",
        ),
        (
            UnknownRate::NoPeriod {
                too_short_s: 0.25,
                too_long_s: 0.5,
            },
            "a period of 0.25 s is unstable or holds too few items, and in one of 0.5 s the server waits too often; give it more work",
        ),
        (
            UnknownRate::LowUtilization { utilization: 0.25 },
            "the server is busy in a share of 0.25 of the time and at least 0.4 is needed; give it more work",
        ),
        (
            UnknownRate::NotConverged { samples: 7 },
            "the estimate did not settle within 7 samples; raise max_samples or relative_error",
        ),
    ];
    for (why, message) in cases {
        assert_eq!(why.to_string(), message);
    }
}

#[test]
fn a_failure_stays_the_reason_while_the_search_goes_on() {
    let failed = |period_s: f64, _: u64| blocked(period_s, 0);
    let mut monitor = run(Default::default(), failed, RateProgress::Failed);
    let why = monitor.rate();
    monitor.push(blocked(monitor.period_s(), 0)).unwrap();
    assert_eq!(monitor.rate(), why);
    for i in 0..4_000 {
        let sample = PeriodSample::unblocked(monitor.period_s(), i % 2);
        monitor.push(sample).unwrap();
    }
    assert!(matches!(monitor.rate(), ServiceRate::Known { .. }));
}

#[test]
fn the_writer_is_estimated_like_a_reader_whose_blocking_is_swapped() {
    let mut reader = ServiceRateMonitor::new(Default::default()).unwrap();
    let mut writer = ServiceRateMonitor::new(ServiceRateOptions {
        end: QueueEnd::Writer,
        ..Default::default()
    })
    .unwrap();
    let mut simulation = QueueSimulation::new(Service::Exponential, 1e-3, 0.8, 1, 9);
    for _ in 0..20_000 {
        let sample = simulation.sample(reader.period_s());
        let swapped = PeriodSample {
            reader_blocked: sample.writer_blocked,
            writer_blocked: sample.reader_blocked,
            ..sample
        };
        assert_eq!(reader.push(sample), writer.push(swapped));
    }
    assert!(matches!(reader.rate(), ServiceRate::Known { .. }));
    assert_eq!(reader.rate(), writer.rate());
}

#[test]
fn samples_without_a_legal_time_are_refused_and_not_used() {
    let mut monitor = ServiceRateMonitor::new(Default::default()).unwrap();
    for elapsed_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = monitor
            .push(PeriodSample::unblocked(elapsed_s, 1))
            .unwrap_err();
        assert_eq!(error.code(), "parameter");
    }
    let why = UnknownRate::TooFewSamples { samples: 0 };
    assert_eq!(monitor.rate(), ServiceRate::Unknown { why });
}

#[test]
fn options_outside_their_ranges_are_refused() {
    let good = ServiceRateOptions::default();
    let cases = [
        (
            ServiceRateOptions {
                min_period_s: 0.0,
                ..good
            },
            "min_period_s=0 ",
        ),
        (
            ServiceRateOptions {
                max_period_s: 1e-6,
                ..good
            },
            "max_period_s=0.000001 ",
        ),
        (
            ServiceRateOptions {
                first_period_s: 1.0,
                ..good
            },
            "first_period_s=1 ",
        ),
        (
            ServiceRateOptions {
                relative_error: 1.0,
                ..good
            },
            "relative_error=1 ",
        ),
        (
            ServiceRateOptions {
                max_samples: 9,
                ..good
            },
            "max_samples=9 ",
        ),
    ];
    for (options, start) in cases {
        let message = ServiceRateMonitor::new(options).unwrap_err().to_string();
        let start = format!("ServiceRateOptions: {start}");
        assert!(message.starts_with(&start), "{message}");
    }
}
