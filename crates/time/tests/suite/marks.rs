//! Excluded stamps, and interrupted imports.

use crate::common::*;
use isochrony_time::{Empirical, Fixed, Placement};

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
        let metric = Empirical::from_pieces(im.clock.pieces().unwrap()).unwrap();
        assert!(error_ns(&metric, im.index[20], files[20].shown_start).abs() < 1e5);
    }
}

#[test]
fn a_wrong_stamp_before_a_real_gap_is_recognised() {
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
        // 1980-01-06, from a GPS receiver without almanac.
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
        let metric = Empirical::from_pieces(pieces).unwrap();
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
            // The whole import looked ahead to the next file.
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
