//! Where simulated recordings are placed: gaps, steps, outliers, locks, leaps.

mod common;

use common::*;
use isochrony_time::{Empirical, Fixed, Placement};

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
                // Jitter, and what the rate is uncertain by: 100 ppm before it is learned.
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
                // The gap leaves no trace in the rate.
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
    let metric = Empirical::from_runs(im.clock.pieces().unwrap()).unwrap();
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
            let metric = Empirical::from_runs(pieces).unwrap();
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
    // The same step without the flag is a clock step.
    let mut unflagged = files;
    unflagged.iter_mut().for_each(|f| f.stamp.leap = false);
    let im = import(config(&rec), &unflagged, true);
    assert!(matches!(im.placements[11], Placement::Backward { .. }));
}

fn shift(file: &mut File, seconds: f64) {
    let by = Fixed::from_int((seconds * 1e9) as i64);
    file.stamp.civil = file.stamp.civil.checked_add(by).unwrap();
}

#[test]
fn a_lone_wrong_stamp_is_left_out_when_the_next_is_known() {
    let rec = Recorder::water();
    for by in [-40.0 * 365.25 * 86_400.0, -30.0, -0.5, 0.5, 3.0, 100.0, 1e9] {
        let mut files = record(&rec, 40, 8, no_event);
        shift(&mut files[20], by);
        let im = import(config(&rec), &files, true);
        assert_eq!(im.placements[20], Placement::Outlier, "{by}");
        assert_eq!(im.points[20].use_, isochrony_time::PointUse::Outlier);
        assert!(
            im.placements[21..]
                .iter()
                .all(|p| *p == Placement::Contiguous),
            "{by}: {:?}",
            &im.placements[20..]
        );
        assert!(im.runs.is_empty());
        let metric = Empirical::from_runs(im.clock.pieces().unwrap()).unwrap();
        assert!(error_ns(&metric, im.index[20], files[20].shown_start).abs() < 1e5);
    }
}

#[test]
fn a_wrong_stamp_before_a_real_gap_is_told_from_it() {
    let rec = Recorder::water();
    let event = |k| {
        if k == 20 {
            Event::Gap(600.0)
        } else {
            Event::None
        }
    };
    let mut files = record(&rec, 40, 8, event);
    shift(&mut files[20], -30.0 * 365.25 * 86_400.0);
    let im = import(config(&rec), &files, true);
    assert_eq!(im.placements[20], Placement::Outlier);
    assert!(
        matches!(im.placements[21], Placement::Gap { samples: Some(n), .. } if n.abs_diff(1_200_020) < 5)
    );
}

#[test]
fn files_from_before_the_lock_keep_their_samples_and_lose_their_stamps() {
    let rec = Recorder::water();
    for (early, look_ahead) in [(1, true), (1, false), (5, true), (200, false)] {
        let mut files = record(&rec, early + 40, 2, no_event);
        // 1980-01-06, as a GPS receiver without almanac says.
        let to_1980 = 315_964_800.0 + 120.0 - START as f64 * 1e-9;
        files[..early].iter_mut().for_each(|f| shift(f, to_1980));
        let im = import(config(&rec), &files, look_ahead);
        assert_eq!(
            im.placements[early],
            Placement::Lock,
            "{early} {look_ahead}"
        );
        assert!(im.runs.is_empty());
        assert_eq!(im.index[early], early as i64 * 60_000);
        let pieces = im.clock.pieces().unwrap();
        assert_eq!((pieces.len(), pieces[0].index), (1, 0));
        let metric = Empirical::from_runs(pieces).unwrap();
        for (f, &i) in files.iter().zip(&im.index) {
            assert!(error_ns(&metric, i, f.shown_start).abs() < 2e6);
        }
    }
}

#[test]
fn a_first_stamp_seconds_ahead_is_before_the_lock() {
    let rec = Recorder::water();
    let mut files = record(&rec, 40, 2, no_event);
    shift(&mut files[0], 4.0);
    let im = import(config(&rec), &files, true);
    assert_eq!(im.placements[1], Placement::Lock);
    assert!(
        im.runs.is_empty()
            && im.placements[2..]
                .iter()
                .all(|p| *p == Placement::Contiguous)
    );
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
        Empirical::from_runs(im.clock.pieces().unwrap()).unwrap();
    }
}

#[test]
fn an_import_in_parts_equals_one_import() {
    let rec = Recorder {
        wander: (2.0, 3600.0),
        ..Recorder::water()
    };
    for seed in 0..12 {
        let event = |k: usize| match k {
            40 | 90 => Event::Gap(12.5),
            120 => Event::Step(-5.0),
            _ => Event::None,
        };
        let mut files = record(&rec, 200, seed, event);
        shift(&mut files[60], 9.0);
        let early = if seed % 3 == 0 { 4 } else { 0 };
        files[..early]
            .iter_mut()
            .for_each(|f| shift(f, 315_964_800.0 - START as f64 * 1e-9));
        let whole = import(config(&rec), &files, true);
        for cut in [1, 3, 7, 45, 61, 100, 121, 150] {
            let mut part = import(config(&rec), &files[..cut], true);
            // The look-ahead of the whole import saw the first file of the rest.
            if part.placements[..] != whole.placements[..cut] {
                continue;
            }
            for p in part.points.iter_mut().take(early.min(cut)) {
                if cut > early {
                    p.use_ = isochrony_time::PointUse::BeforeLock;
                }
            }
            let mut pieces: Vec<_> = part.runs.iter().flat_map(|c| c.pieces().unwrap()).collect();
            for clock in &part.runs {
                let last = pieces.iter_mut().rfind(|p| p.run == clock.run()).unwrap();
                last.end = clock.end();
            }
            pieces.extend(part.clock.pieces().unwrap());
            let end = part.clock.end().unwrap();
            part.clock = isochrony_time::Clock::resume(
                config(&rec),
                part.clock.run(),
                &part.points,
                &pieces,
                end,
            )
            .unwrap();
            go_on(&mut part, &files[cut..], true);
            assert_eq!(part.placements, whole.placements, "seed {seed}, cut {cut}");
            assert_eq!(
                part.clock.pieces().unwrap(),
                whole.clock.pieces().unwrap(),
                "seed {seed}, cut {cut}"
            );
            assert_eq!(
                part.clock.rate(),
                whole.clock.rate(),
                "seed {seed}, cut {cut}"
            );
        }
    }
}
