//! Overlapping runs, and lookups around them.

use isochrony_time::{Empirical, Fixed, Lookup, Piece, Prefer, Rate, Round, RunId, TimeError};

const START: i64 = 1_267_401_600_000_000_000;
const S: i64 = 1_000_000_000;

fn at(seconds: f64) -> Fixed {
    Fixed::from_int(START + (seconds * 1e9) as i64)
}

fn piece(run: u32, index: i64, samples: i64, seconds: f64) -> Piece {
    let rate = Rate::from_hz(100).unwrap();
    Piece {
        end: Some(index + samples),
        ..Piece::nominal(RunId(run), index, at(seconds), rate)
    }
}

fn prefer(p: Prefer) -> Lookup {
    Lookup {
        prefer: Some(p),
        ..Lookup::default()
    }
}

/// 0..10 s; after a backward step 6..16 s; a late file at -20..-15 s.
fn stepped() -> Empirical {
    Empirical::from_pieces(vec![
        piece(0, 0, 1000, 0.0),
        piece(1, 1000, 1000, 6.0),
        piece(2, 2000, 500, -20.0),
    ])
    .unwrap()
}

#[test]
fn ambiguous_times_name_both_runs_unless_one_is_preferred() {
    let metric = stepped();
    let index = |seconds, lookup| metric.index_of(at(seconds), lookup);
    assert_eq!(index(5.0, Lookup::default()).unwrap().index, 500);
    assert_eq!(index(12.0, Lookup::default()).unwrap().index, 1600);
    match index(7.0, Lookup::default()) {
        Err(TimeError::Ambiguous {
            first,
            second,
            first_span,
            second_span,
            ..
        }) => {
            assert_eq!((first, second), (RunId(0), RunId(1)));
            assert_eq!(
                (first_span, second_span),
                ((at(0.0), at(10.0)), (at(6.0), at(16.0)))
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(index(7.0, prefer(Prefer::First)).unwrap().index, 700);
    assert_eq!(index(7.0, prefer(Prefer::Last)).unwrap().index, 1100);
    assert_eq!(
        index(7.0, prefer(Prefer::Run(RunId(1)))).unwrap().index,
        1100
    );
    assert_eq!(
        index(7.0, prefer(Prefer::Run(RunId(2)))).unwrap().index,
        4700
    );
    assert!(matches!(
        index(7.0, prefer(Prefer::Run(RunId(9)))),
        Err(TimeError::UnknownRun { .. })
    ));
}

#[test]
fn every_index_comes_back_whatever_overlaps() {
    let metric = stepped();
    for i in -100..2600 {
        let time = metric.time_of(i).unwrap();
        assert_eq!(
            metric
                .index_of_time(&time, Lookup::default())
                .unwrap()
                .index,
            i
        );
    }
}

#[test]
fn metrics_survive_json_and_are_checked_again() {
    let metric = stepped();
    let text = serde_json::to_string(&metric).unwrap();
    assert_eq!(serde_json::from_str::<Empirical>(&text).unwrap(), metric);
    let broken = text.replacen("\"den\":1,", "\"den\":0,", 1);
    assert_ne!(broken, text);
    assert!(
        serde_json::from_str::<Empirical>(&broken)
            .unwrap_err()
            .to_string()
            .contains("slope")
    );
}

#[test]
fn runs_are_ordered_by_civil_time() {
    let order: Vec<u32> = stepped().runs().iter().map(|r| r.run.0).collect();
    assert_eq!(order, [2, 0, 1]);
}

#[test]
fn times_between_and_outside_runs() {
    let metric = stepped();
    // Between run 2 (ends at -15 s, index 2500) and run 0 (starts at 0, index 0): not in index order.
    let between = metric.index_of(at(-5.0), Lookup::default()).unwrap();
    assert!(between.in_gap);
    assert_eq!((between.run, between.index), (RunId(2), 2500));
    let round = |round| {
        metric.index_of(
            at(-5.0),
            Lookup {
                round,
                prefer: None,
            },
        )
    };
    assert_eq!(round(Round::Floor).unwrap().index, 2499);
    assert_eq!(
        (
            round(Round::Ceil).unwrap().index,
            round(Round::Ceil).unwrap().run
        ),
        (0, RunId(0))
    );
    assert!(matches!(round(Round::Exact), Err(TimeError::InGap { .. })));
    // Before all the earliest run's line; after all that of the run that ends last.
    let before = metric.index_of(at(-21.0), Lookup::default()).unwrap();
    assert_eq!(
        (before.index, before.run, before.in_gap),
        (1900, RunId(2), false)
    );
    let after = metric.index_of(at(17.0), Lookup::default()).unwrap();
    assert_eq!(
        (after.index, after.run, after.in_gap),
        (2100, RunId(1), false)
    );
}

#[test]
fn a_late_run_inside_a_gap_wins_over_the_gap() {
    // Run 1, stored after run 0, fills 15 to 20 s of its gap from 10 s to 30 s.
    let metric = Empirical::from_pieces(vec![
        piece(0, 0, 1000, 0.0),
        piece(0, 3000, 1000, 30.0),
        piece(1, 4000, 500, 15.0),
    ])
    .unwrap();
    let index = |seconds| metric.index_of(at(seconds), Lookup::default()).unwrap();
    assert_eq!((index(16.0).index, index(16.0).in_gap), (4100, false));
    assert_eq!((index(12.0).index, index(12.0).in_gap), (1200, true));
    assert_eq!((index(25.0).index, index(25.0).in_gap), (2500, true));
    assert_eq!((index(31.0).index, index(31.0).in_gap), (3100, false));
    let grid: Vec<Fixed> = (0..350).map(|k| at(f64::from(k) * 0.1)).collect();
    let mut many = Vec::new();
    metric
        .index_many(&grid, Lookup::default(), &mut many)
        .unwrap();
    for (t, m) in grid.iter().zip(&many) {
        assert_eq!(*m, metric.index_of(*t, Lookup::default()).unwrap());
    }
    let spans = metric
        .index_spans(at(0.0), (S as u64 / 10, 1), 350, None)
        .unwrap();
    assert_eq!(
        spans
            .iter()
            .map(|s| (s.count, s.in_gap))
            .collect::<Vec<_>>(),
        [
            (100, false),
            (50, true),
            (50, false),
            (100, true),
            (50, false)
        ]
    );
}

#[test]
fn a_late_piece_between_others_splits_the_index_axis_only() {
    let metric = Empirical::from_pieces(vec![
        piece(0, 0, 1000, 0.0),
        piece(1, 1500, 500, 15.2),
        piece(0, 3000, 1000, 30.0),
    ])
    .unwrap();
    for i in -10..4100 {
        let time = metric.time_of(i).unwrap();
        assert_eq!(
            metric
                .index_of_time(&time, Lookup::default())
                .unwrap()
                .index,
            i
        );
    }
}

#[test]
fn exact_lookups_accept_samples_only() {
    let metric =
        Empirical::from_pieces(vec![piece(0, 0, 1000, 0.0), piece(0, 2000, 10, 20.0)]).unwrap();
    let exact = |ns: i64| {
        let civil = Fixed::from_int(START + ns);
        metric.index_of(
            civil,
            Lookup {
                round: Round::Exact,
                prefer: None,
            },
        )
    };
    assert_eq!(exact(50_000_000).unwrap().index, 5);
    match exact(50_000_003) {
        Err(TimeError::NotOnSample { index, off_ns, .. }) => {
            assert_eq!((index, off_ns), (5, Fixed::from_int(3)));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(exact(15 * S), Err(TimeError::InGap { .. })));
}

#[test]
fn rejects_invalid_pieces() {
    let from = |pieces: &[Piece]| {
        Empirical::from_pieces(pieces.to_vec())
            .map(|_| ())
            .unwrap_err()
            .code()
    };
    let good = piece(0, 0, 100, 0.0);
    assert_eq!(from(&[]), "empty");
    assert_eq!(from(&[Piece { num: 0, ..good }]), "zero_slope");
    assert_eq!(from(&[Piece { den: 0, ..good }]), "zero_slope");
    assert_eq!(
        from(&[Piece {
            num: 1,
            den: 1 << 20,
            ..good
        }]),
        "bad_piece"
    );
    assert_eq!(
        from(&[Piece {
            uncertainty_ns: f64::NAN,
            ..good
        }]),
        "bad_piece"
    );
    assert_eq!(
        from(&[Piece {
            residual_ns: -1.0,
            ..good
        }]),
        "bad_piece"
    );
    assert_eq!(
        from(&[Piece {
            end: Some(0),
            ..good
        }]),
        "bad_piece"
    );
    assert_eq!(
        from(&[Piece { end: None, ..good }, piece(1, 100, 10, 1.0)]),
        "bad_piece"
    );
    assert_eq!(from(&[good, piece(1, 50, 10, 1.0)]), "bad_piece");
    assert_eq!(from(&[good, good]), "bad_piece");
    assert_eq!(from(&[good, piece(0, 100, 10, 0.5)]), "bad_piece");
    assert_eq!(from(&[good, piece(0, 200, 10, 1.0)]), "bad_piece");
}
