//! Errors leave a clock unchanged.

use isochrony_time::{
    Clock, ClockConfig, Fixed, Placement, PointUse, Rate, RunId, Stamp, TimeError,
};

const S: i64 = 1_000_000_000;
const START: i64 = 1_267_401_600 * S;

fn config() -> ClockConfig {
    ClockConfig::new(Rate::from_hz(1000).unwrap())
}

fn stamp(seconds: f64) -> Stamp {
    Stamp::new(
        Fixed::from_int(START + (seconds * 1e9) as i64),
        Fixed::from_int(1000),
    )
}

fn running() -> Clock {
    let mut clock = Clock::new(config(), RunId(0)).unwrap();
    for k in 0..10 {
        let s = stamp(f64::from(k) * 10.0);
        let placement = clock.place(&s, 10_000, None).unwrap();
        clock
            .accept(i64::from(k) * 10_000, &s, 10_000, &placement)
            .unwrap();
    }
    clock
}

#[test]
fn refuses_options_outside_their_range() {
    for (change, name) in [
        (
            ClockConfig {
                alpha: 0.0,
                ..config()
            },
            "alpha",
        ),
        (
            ClockConfig {
                alpha: 1.5,
                ..config()
            },
            "alpha",
        ),
        (
            ClockConfig {
                alpha: f64::NAN,
                ..config()
            },
            "alpha",
        ),
        (
            ClockConfig {
                gap_slip_ns: Some(-1.0),
                ..config()
            },
            "gap_slip_ns",
        ),
        (
            ClockConfig {
                gap_slip_ns: Some(f64::NAN),
                ..config()
            },
            "gap_slip_ns",
        ),
        (
            ClockConfig {
                max_gap_ns: Fixed::ZERO,
                ..config()
            },
            "max_gap_ns",
        ),
    ] {
        match Clock::new(change, RunId(0)) {
            Err(TimeError::BadConfig { name: got, .. }) => assert_eq!(got, name),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn refuses_duplicate_and_out_of_order_points() {
    let mut clock = running();
    let before = format!("{clock:?}");
    for index in [0, 90_000, 99_999, 100_001] {
        let refused = clock.accept(index, &stamp(100.0), 10_000, &Placement::Contiguous);
        assert_eq!(
            refused,
            Err(TimeError::PointOrder {
                index,
                expected: 100_000
            })
        );
    }
    assert_eq!(format!("{clock:?}"), before);
}

#[test]
fn refuses_placements_that_do_not_fit_its_state() {
    let mut clock = running();
    let before = format!("{clock:?}");
    let gap = Placement::Gap {
        samples: Some(1),
        duration_ns: Fixed::ONE,
    };
    let mut refused = |placement: &Placement, samples| {
        match clock.accept(100_000, &stamp(100.0), samples, placement) {
            Err(TimeError::BadPlacement { .. }) => {}
            other => panic!("{placement:?}: {other:?}"),
        }
        assert_eq!(format!("{clock:?}"), before);
    };
    refused(&Placement::First, 10);
    refused(&Placement::Backward { by_ns: Fixed::ONE }, 10);
    refused(&Placement::LeapSecond { by_ns: Fixed::ONE }, 10);
    refused(&gap, 10);
    refused(&Placement::Contiguous, 0);
    let mut fresh = Clock::new(config(), RunId(0)).unwrap();
    assert!(
        fresh
            .accept(0, &stamp(0.0), 10, &Placement::Contiguous)
            .is_err()
    );
    assert!(fresh.extend(10).is_err());
}

#[test]
fn refuses_a_negative_resolution() {
    let bad = Stamp::new(Fixed::from_int(START), Fixed::from_int(-1));
    let refused = running().place(&bad, 10, None);
    assert!(matches!(refused, Err(TimeError::BadResolution { .. })));
}

#[test]
fn samples_without_stamps_move_the_expectation() {
    let mut clock = running();
    clock.extend(5_000).unwrap();
    assert_eq!(
        clock.place(&stamp(105.0), 10_000, None).unwrap(),
        Placement::Contiguous
    );
    let Placement::Gap { samples, .. } = clock.place(&stamp(107.0), 10_000, None).unwrap() else {
        panic!()
    };
    assert_eq!(samples, Some(2000));
    let expected = clock.expected().unwrap().unwrap();
    let off = expected
        .checked_sub(Fixed::from_int(START + 105 * S))
        .unwrap()
        .to_f64();
    assert!(off.abs() < 1000.0, "{off}");
}

#[test]
fn a_stated_gap_slip_is_used_both_ways_and_never_below_the_resolution() {
    let mut clock = Clock::new(
        ClockConfig {
            gap_slip_ns: Some(75e6),
            ..config()
        },
        RunId(0),
    )
    .unwrap();
    clock
        .accept(0, &stamp(0.0), 10_000, &Placement::First)
        .unwrap();
    let place = |s: f64| clock.place(&stamp(s), 10_000, None).unwrap();
    assert_eq!(place(10.07), Placement::Contiguous);
    assert_eq!(place(9.93), Placement::Contiguous);
    assert!(matches!(
        place(10.08),
        Placement::Gap {
            samples: Some(80),
            ..
        }
    ));
    assert!(matches!(place(9.92), Placement::Backward { .. }));
    let coarse = Stamp::new(Fixed::from_int(START + 10 * S), Fixed::from_int(S));
    assert_eq!(
        clock.place(&coarse, 10_000, None).unwrap(),
        Placement::Contiguous
    );
}

#[test]
fn exact_nominal_stamps_give_exactly_nominal_times() {
    let config = ClockConfig::new("30000/1001".parse().unwrap());
    let mut clock = Clock::new(config, RunId(0)).unwrap();
    let rate: Rate = "30000/1001".parse().unwrap();
    for k in 0..50 {
        let index = k * 300;
        let ns = rate.duration_ns(index).unwrap().round();
        let civil = Fixed::from_i128(i128::from(START) + ns).unwrap();
        let s = Stamp::new(civil, Fixed::ZERO);
        let placement = clock.place(&s, 300, None).unwrap();
        clock.accept(index, &s, 300, &placement).unwrap();
    }
    let pieces = clock.pieces().unwrap();
    assert_eq!(
        (pieces.len(), pieces[0].num, pieces[0].den),
        (1, 100_100_000, 3)
    );
    assert_eq!(pieces[0].civil, Fixed::from_int(START));
    assert!(pieces[0].uncertainty_ns < 5.0);
}

#[test]
fn fine_stamps_on_nominal_ticks_mean_what_they_say() {
    // Records of 400 samples at 100 Hz, stamped to 100 us (SEED 2).
    let mut clock = Clock::new(ClockConfig::new(Rate::from_hz(100).unwrap()), RunId(0)).unwrap();
    for k in 0..100 {
        let s = Stamp::new(Fixed::from_int(START + k * 4 * S), Fixed::from_int(100_000));
        let placement = clock.place(&s, 400, None).unwrap();
        clock.accept(k * 400, &s, 400, &placement).unwrap();
        let pieces = clock.pieces().unwrap();
        assert_eq!((pieces.len(), pieces[0].civil), (1, Fixed::from_int(START)));
        assert_eq!((pieces[0].num, pieces[0].den), (10_000_000, 1));
        assert!(pieces[0].uncertainty_ns >= 100_000.0);
    }
}

#[test]
fn a_run_after_a_step_keeps_the_rate_but_not_the_offset() {
    let clock = running();
    let next = clock.next_run(RunId(7));
    assert_eq!((next.run(), next.end()), (RunId(7), None));
    assert!(next.pieces().unwrap().is_empty());
    assert!((next.rate().hz - clock.rate().hz).abs() < 1e-6);
    assert_eq!(next.place(&stamp(3.0), 10, None).unwrap(), Placement::First);
}

#[test]
fn the_first_stamp_after_a_leap_second_is_marked_and_used() {
    let mut clock = running().next_run(RunId(1));
    let mut leap = stamp(99.0);
    leap.leap = true;
    let point = clock
        .accept(100_000, &leap, 10_000, &Placement::First)
        .unwrap();
    assert_eq!(point.use_, PointUse::LeapSecond);
    assert_eq!(
        PointUse::from_u8(point.use_ as u8),
        Some(PointUse::LeapSecond)
    );
    assert_eq!(PointUse::from_u8(9), None);
    assert_eq!(clock.pieces().unwrap().len(), 1);
}
