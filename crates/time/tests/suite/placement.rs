//! Placement of simulated recordings.

use crate::common::*;
use isochrony_time::{Clock, ClockConfig, Empirical, Fixed, Placement, RunId, Stamp};

#[test]
fn gaps_of_all_sizes_are_found_and_measured() {
    for gap_s in [0.05, 0.2, 1.0, 7.3, 60.0, 3600.0, 86_400.0 * 3.0] {
        for (at, look_ahead) in [
            (0, true),
            (0, false),
            (1, false),
            (2, true),
            (30, true),
            (30, false),
        ] {
            for seed in 0..20 {
                let rec = Recorder::water();
                let event = |k| {
                    if k == at {
                        Event::Gap(gap_s)
                    } else {
                        Event::None
                    }
                };
                let files = record(&rec, 60, seed, event);
                let im = import(config(&rec), &files, look_ahead);
                let gaps: Vec<usize> = (0..60)
                    .filter(|&k| matches!(im.placements[k], Placement::Gap { .. }))
                    .collect();
                assert_eq!(
                    gaps,
                    [at + 1],
                    "gap {gap_s} s after file {at}, seed {seed}: {:?}",
                    &im.placements[..6]
                );
                let Placement::Gap { samples, .. } = im.placements[at + 1] else {
                    unreachable!()
                };
                let want = files[at + 1].gap_before * 1e-9 * rec.hz(0.0);
                // Jitter, and the rate's 100 ppm.
                let unsure = if at == 0 {
                    120e-6
                } else if at < 5 {
                    15e-6
                } else {
                    0.5e-6
                };
                let off = (samples.unwrap() as f64 - want).abs();
                assert!(
                    off <= 1.0 + 2.0 * want * unsure + 30.0 * unsure * 2000.0,
                    "{off} samples of {want}"
                );
                let rate = im.clock.rate();
                assert!((rate.hz / rec.hz(0.0) - 1.0).abs() * 1e6 < 0.3, "{rate:?}");
            }
        }
    }
}

#[test]
fn a_gap_beyond_the_maximum_takes_no_address_space_of_its_own() {
    let rec = Recorder::water();
    let event = |k| {
        if k == 9 {
            Event::Gap(86_400.0 * 40.0)
        } else {
            Event::None
        }
    };
    let im = import(config(&rec), &record(&rec, 20, 1, event), true);
    assert!(
        matches!(im.placements[10], Placement::Gap { samples: None, .. }),
        "{:?}",
        im.placements[10]
    );
    assert_eq!(im.runs.len(), 0);
}

#[test]
fn many_gaps_in_a_day_do_not_disturb_the_rate() {
    let rec = Recorder::water();
    let event = |k: usize| {
        if k % 7 == 3 {
            Event::Gap(0.5 + (k % 13) as f64)
        } else {
            Event::None
        }
    };
    let files = record(&rec, 1000, 9, event);
    let im = import(config(&rec), &files, true);
    for (k, (file, placement)) in files.iter().zip(&im.placements).enumerate().skip(1) {
        let is_gap = matches!(placement, Placement::Gap { .. });
        assert_eq!(is_gap, file.gap_before > 0.0, "file {k}");
    }
    let rate = im.clock.rate();
    assert!((rate.hz / rec.hz(0.0) - 1.0).abs() * 1e6 < 0.1, "{rate:?}");
    let metric = Empirical::from_pieces(im.clock.pieces().unwrap()).unwrap();
    for (f, &i) in files.iter().zip(&im.index) {
        assert!(error_ns(&metric, i, f.shown_start).abs() < metric.uncertainty_ns(i));
    }
}

#[test]
fn backward_steps_open_runs_and_the_rate_carries_over() {
    for step in [-0.05, -1.0, -37.0, -3600.0] {
        for seed in 0..20 {
            let rec = Recorder::water();
            let event = |k| {
                if k == 30 {
                    Event::Step(step)
                } else {
                    Event::None
                }
            };
            let files = record(&rec, 32, seed, event);
            let im = import(config(&rec), &files, seed % 2 == 0);
            let Placement::Backward { by_ns } = im.placements[31] else {
                panic!("step {step}: {:?}", im.placements[31])
            };
            assert!(
                (by_ns.to_f64() * 1e-9 + step).abs() < 3e-4,
                "{by_ns} for {step}"
            );
            assert_eq!(im.runs.len(), 1);
            let rate = im.clock.rate();
            assert!((rate.hz / rec.hz(0.0) - 1.0).abs() * 1e6 < 0.3, "{rate:?}");
            let pieces: Vec<_> = im
                .runs
                .iter()
                .chain([&im.clock])
                .flat_map(|c| {
                    let mut p = c.pieces().unwrap();
                    p.last_mut().unwrap().end = c.end();
                    p
                })
                .collect();
            let metric = Empirical::from_pieces(pieces).unwrap();
            let (last, shown) = (im.index[31], files[31].shown_start);
            assert!(error_ns(&metric, last, shown).abs() <= metric.uncertainty_ns(last));
        }
    }
}

#[test]
fn a_flagged_leap_second_is_recognised() {
    let rec = Recorder::water();
    let event = |k| if k == 10 { Event::Leap } else { Event::None };
    let files = record(&rec, 30, 4, event);
    let im = import(config(&rec), &files, true);
    assert!(
        matches!(im.placements[11], Placement::LeapSecond { .. }),
        "{:?}",
        im.placements[11]
    );
    assert_eq!(im.points[11].use_, isochrony_time::PointUse::LeapSecond);
    assert!(
        im.placements[12..]
            .iter()
            .all(|p| *p == Placement::Contiguous)
    );
    // Without the flag, a clock step.
    let mut unflagged = files;
    unflagged.iter_mut().for_each(|f| f.stamp.leap = false);
    let im = import(config(&rec), &unflagged, true);
    assert!(matches!(im.placements[11], Placement::Backward { .. }));
}

#[test]
fn a_real_step_back_is_no_outlier_even_when_the_next_is_known() {
    let rec = Recorder::water();
    let event = |k| {
        if k == 20 {
            Event::Step(-2.0)
        } else {
            Event::None
        }
    };
    let im = import(config(&rec), &record(&rec, 40, 8, event), true);
    assert!(matches!(im.placements[21], Placement::Backward { .. }));
    assert!(
        im.placements[22..]
            .iter()
            .all(|p| *p == Placement::Contiguous)
    );
}

#[test]
fn gaps_between_coarse_stamps_are_found_beyond_their_resolution() {
    let rec = Recorder {
        noise: Noise::None,
        resolution_ns: S,
        ..Recorder::water()
    };
    for seed in 0..50 {
        let event = |k| {
            if k == 50 {
                Event::Gap(5.0)
            } else {
                Event::None
            }
        };
        let files = record(&rec, 100, seed, event);
        let im = import(config(&rec), &files, true);
        for k in 1..100 {
            assert_eq!(
                matches!(im.placements[k], Placement::Gap { .. }),
                k == 51,
                "file {k}: {:?}",
                im.placements[k]
            );
        }
        let Placement::Gap { duration_ns, .. } = im.placements[51] else {
            unreachable!()
        };
        assert!(
            (duration_ns.to_f64() * 1e-9 - 5.0).abs() < 1.1,
            "{duration_ns}"
        );
        Empirical::from_pieces(im.clock.pieces().unwrap()).unwrap();
    }
}

#[test]
fn a_small_gap_after_the_first_file_is_no_rate() {
    for seed in 0..40 {
        let rec = Recorder::water();
        let event = |k| {
            if k == 0 {
                Event::Gap(0.006)
            } else {
                Event::None
            }
        };
        let files = record(&rec, 40, seed, event);
        let im = import(config(&rec), &files, true);
        assert!(
            matches!(
                im.placements[1],
                Placement::Gap {
                    samples: Some(11..=14),
                    ..
                }
            ),
            "seed {seed}: {:?}",
            im.placements[1]
        );
        assert!(
            im.placements[2..]
                .iter()
                .all(|p| *p == Placement::Contiguous)
        );
        // Without the next stamp it looks like a rate first, never like a step.
        let im = import(config(&rec), &files, false);
        assert!(
            im.placements[1..]
                .iter()
                .all(|p| *p == Placement::Contiguous),
            "seed {seed}"
        );
        let rate = im.clock.rate();
        assert!(
            (rate.hz / rec.hz(0.0) - 1.0).abs() * 1e6 < 1.0,
            "seed {seed}: {rate:?}"
        );
    }
}

#[test]
fn a_wrong_rate_is_no_gap_after_the_first_file() {
    for ppm in [-250.0, -100.0, 100.0, 250.0] {
        let rec = Recorder {
            ppm,
            ..Recorder::water()
        };
        let files = record(&rec, 40, 3, no_event);
        let im = import(config(&rec), &files, true);
        assert!(
            im.placements[1..]
                .iter()
                .all(|p| *p == Placement::Contiguous),
            "{ppm}"
        );
    }
}

/// Start and length in samples, stamp error in us of a clock that steps by half a sample. Two recordings are lost near
/// the start, one near the end.
const STEPPING: [(i64, u64, i64); 22] = [
    (0, 566, 0),
    (566, 565, 0),
    (1131, 563, 0),
    (1694, 563, 0),
    (2257, 568, 0),
    (2825, 566, 0),
    (3391, 566, 0),
    (3957, 563, 0),
    (5078, 552, -30_000),
    (5630, 572, -30_000),
    (6202, 568, -30_000),
    (6770, 561, -30_000),
    (7331, 567, 728_300),
    (8462, 559, -30_000),
    (9021, 569, -30_000),
    (9590, 561, 970_000),
    (10_151, 553, 970_000),
    (10_704, 565, 970_000),
    (11_269, 562, 970_000),
    (11_831, 570, 1_970_000),
    (12_401, 574, 1_970_000),
    (13_537, 562, 1_970_000),
];

#[test]
fn a_recording_that_is_lost_after_steps_of_half_a_sample_is_a_gap() {
    let rate = "0.5".parse().unwrap();
    let mut clock = Clock::new(ClockConfig::new(rate), RunId(0)).unwrap();
    let stamp = |&(start, _, off): &(i64, u64, i64)| {
        let civil = 1_330_908_095 * 1_000_000_000 + start * 2_000_000_000 + off * 1000;
        Stamp::new(Fixed::from_int(civil), Fixed::from_int(1000))
    };
    let mut gaps = Vec::new();
    for (position, recording) in STEPPING.iter().enumerate() {
        let (own, next) = (stamp(recording), STEPPING.get(position + 1).map(stamp));
        let placement = clock.place(&own, recording.1, next.as_ref()).unwrap();
        let mut index = clock.end().unwrap_or(0);
        match placement {
            Placement::Gap { samples, .. } => {
                gaps.push((position, samples.unwrap()));
                index += samples.unwrap() as i64;
            }
            Placement::Contiguous | Placement::First => (),
            other => panic!("{other:?} of recording {position}"),
        }
        clock.accept(index, &own, recording.1, &placement).unwrap();
    }
    let lost: Vec<usize> = gaps.iter().map(|gap| gap.0).collect();
    assert_eq!(lost, [8, 13, 21], "{gaps:?}");
    // Such a clock leaves one sample open.
    assert!((gaps[2].1 as i64 - 562).abs() <= 1, "{gaps:?}");
}
