//! The conversion graph: paths, islands, cycles, ranges.

use std::sync::Arc;

use isochrony_time::{
    Derived, Empirical, Exact, Fixed, Graph, Metric, Piece, Range, Rate, RunId, Time, TimeError,
    Timebase, TimebaseId, TimebaseKind,
};

use num_rational::BigRational;
use proptest::prelude::*;

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

/// 0..10 s; after a backward step 6..16 s; a late file at -20..-15 s.
fn stepped() -> Empirical {
    Empirical::from_pieces(vec![
        piece(0, 0, 1000, 0.0),
        piece(1, 1000, 1000, 6.0),
        piece(2, 2000, 500, -20.0),
    ])
    .unwrap()
}

fn index_base(name: &str) -> Timebase {
    Timebase {
        name: name.into(),
        kind: TimebaseKind::Index,
    }
}

fn unit(name: &str) -> Timebase {
    Timebase {
        name: name.into(),
        kind: TimebaseKind::Unit(name.into()),
    }
}

#[test]
fn stations_convert_through_civil_time_and_back_exactly() {
    let mut graph = Graph::new();
    let a = graph.add(index_base("a")).unwrap();
    let b = graph.add(index_base("b")).unwrap();
    graph
        .connect(a, TimebaseId::CIVIL, Metric::Empirical(Arc::new(stepped())))
        .unwrap();
    let other =
        Empirical::from_pieces(vec![piece(0, 0, 5000, -30.0), piece(1, 5000, 100, 0.0)]).unwrap();
    graph
        .connect(b, TimebaseId::CIVIL, Metric::Empirical(Arc::new(other)))
        .unwrap();
    for i in 0..2500 {
        let civil = graph.convert(Time::new(i, a), TimebaseId::CIVIL).unwrap();
        let back = graph.convert(civil, a).unwrap();
        assert_eq!(back.value, Fixed::from_int(i));
    }
    // a's run 1 is not a run of b.
    let t = graph.convert(Time::new(1600, a), b).unwrap();
    assert_eq!((t.value, t.run), (Fixed::from_int(4200), Some(RunId(0))));
    assert_eq!(graph.path_names(a, b).unwrap(), ["a", "utc", "b"]);
    let range = Range::new(Time::new(1600, a), Time::new(1700, a)).unwrap();
    let there = range.convert(&graph, b).unwrap();
    assert_eq!(there.length().unwrap(), Fixed::from_int(100));
}

#[test]
fn gaps_stay_flagged_along_the_path() {
    let mut graph = Graph::new();
    let a = graph.add(index_base("a")).unwrap();
    let s = graph.add(unit("s")).unwrap();
    let gapped =
        Empirical::from_pieces(vec![piece(0, 0, 100, 0.0), piece(0, 200, 100, 2.0)]).unwrap();
    graph
        .connect(a, TimebaseId::CIVIL, Metric::Empirical(Arc::new(gapped)))
        .unwrap();
    let seconds = Derived::new(1, S as u64, Fixed::ZERO).unwrap();
    graph
        .connect(TimebaseId::CIVIL, s, Metric::Derived(seconds))
        .unwrap();
    let time = graph.convert(Time::new(150, a), s).unwrap();
    assert!(time.in_gap);
    assert_eq!(time.value, "1267401601.5".parse().unwrap());
}

#[test]
fn unreachable_timebases_name_both_islands() {
    let mut graph = Graph::new();
    let [a, b, c] = ["a", "b", "c"].map(|n| graph.add(unit(n)).unwrap());
    graph
        .connect(
            a,
            b,
            Metric::Derived(Derived::new(2, 1, Fixed::ZERO).unwrap()),
        )
        .unwrap();
    match graph.convert(Time::new(1, b), c) {
        Err(TimeError::Unreachable {
            from_island,
            to_island,
            ..
        }) => {
            assert_eq!((from_island.as_str(), to_island.as_str()), ("a, b", "c"));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        graph.id("d"),
        Err(TimeError::UnknownTimebase { .. })
    ));
    assert!(matches!(
        graph.convert(Time::new(1, TimebaseId(9)), a),
        Err(TimeError::UnknownTimebase { .. })
    ));
}

#[test]
fn the_shortest_path_is_taken() {
    let mut graph = Graph::new();
    let ids: Vec<TimebaseId> = (0..6)
        .map(|k| graph.add(unit(&format!("t{k}"))).unwrap())
        .collect();
    let one = || Metric::Derived(Derived::new(1, 1, Fixed::ONE).unwrap());
    for k in 0..5 {
        graph.connect(ids[k], ids[k + 1], one()).unwrap();
    }
    let short = Metric::Derived(Derived::new(1, 1, Fixed::from_int(5)).unwrap());
    graph.connect(ids[0], ids[5], short).unwrap();
    assert_eq!(graph.path_names(ids[0], ids[5]).unwrap().len(), 2);
    assert_eq!(graph.path_names(ids[0], ids[3]).unwrap().len(), 4);
    assert_eq!(
        graph.convert(Time::new(0, ids[0]), ids[3]).unwrap().value,
        Fixed::from_int(3)
    );
}

#[test]
fn contradictory_cycles_are_refused_and_named() {
    let mut graph = Graph::new();
    let [ms, s, min] = ["ms", "s", "min"].map(|n| graph.add(unit(n)).unwrap());
    let map = |num, den| Metric::Derived(Derived::new(num, den, Fixed::ZERO).unwrap());
    graph.connect(ms, s, map(1, 1000)).unwrap();
    graph.connect(s, min, map(1, 60)).unwrap();
    graph.connect(min, ms, map(60_000, 1)).unwrap();
    match graph.connect(ms, min, map(1, 60_001)) {
        Err(TimeError::ContradictoryCycle { cycle, .. }) => assert_eq!(cycle, "ms -> min -> ms"),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        graph
            .convert(Time::new(120_000, ms), min)
            .unwrap()
            .value
            .round(),
        2
    );
    let clash = Timebase {
        name: "s".into(),
        kind: TimebaseKind::Index,
    };
    assert!(matches!(
        graph.add(clash),
        Err(TimeError::DuplicateTimebase { .. })
    ));
}

#[test]
fn a_growing_signal_replaces_its_metric() {
    let mut graph = Graph::new();
    let a = graph.add(index_base("a")).unwrap();
    let metric = |pieces| Metric::Empirical(Arc::new(Empirical::from_pieces(pieces).unwrap()));
    graph
        .replace(a, TimebaseId::CIVIL, metric(vec![piece(0, 0, 100, 0.0)]))
        .unwrap();
    graph
        .replace(a, TimebaseId::CIVIL, metric(vec![piece(0, 0, 100, 5.0)]))
        .unwrap();
    let time = graph.convert(Time::new(0, a), TimebaseId::CIVIL).unwrap();
    assert_eq!(time.value, at(5.0));
}

#[test]
fn ranges_know_length_overlap_and_containment() {
    let range = |a: i64, b: i64| Range::new(Time::civil(a), Time::civil(b)).unwrap();
    let r = range(10, 20);
    assert_eq!(r.length().unwrap(), Fixed::from_int(10));
    assert!(r.overlaps(&range(19, 30)).unwrap() && !r.overlaps(&range(20, 30)).unwrap());
    assert!(!r.overlaps(&range(15, 15)).unwrap());
    assert!(r.contains(&Time::civil(10)).unwrap() && !r.contains(&Time::civil(20)).unwrap());
    assert!(
        r.contains_range(&range(12, 20)).unwrap() && !r.contains_range(&range(12, 21)).unwrap()
    );
    let index = Time::new(1, TimebaseId(1));
    assert!(matches!(
        r.contains(&index),
        Err(TimeError::TimebaseMismatch { .. })
    ));
    assert!(matches!(
        Range::new(Time::civil(2), Time::civil(1)),
        Err(TimeError::ReversedRange { .. })
    ));
    assert!(matches!(
        Range::new(Time::civil(2), index),
        Err(TimeError::TimebaseMismatch { .. })
    ));
}

#[test]
fn a_range_of_indices_ends_where_its_last_sample_does() {
    let mut graph = Graph::new();
    let a = graph.add(index_base("a")).unwrap();
    let tens = graph.add(unit("tens")).unwrap();
    // 0..10 s, a gap of index and 5 s, 15..20 s; after a backward step 6..16 s.
    let metric = Empirical::from_pieces(vec![
        piece(0, 0, 1000, 0.0),
        piece(0, 1200, 500, 15.0),
        piece(1, 1700, 1000, 6.0),
    ])
    .unwrap();
    let metric = Metric::Empirical(Arc::new(metric));
    graph.connect(a, TimebaseId::CIVIL, metric).unwrap();
    let map = Derived::new(1, 10, Fixed::ZERO).unwrap();
    graph.connect(a, tens, Metric::Derived(map)).unwrap();
    let civil = |start: i64, end: i64, base| {
        let range = Range::new(Time::new(start, base), Time::new(end, base)).unwrap();
        range.convert(&graph, TimebaseId::CIVIL)
    };
    for (start, end, until) in [
        (900, 999, 9.99),
        (900, 1000, 10.0),
        (900, 1200, 15.0),
        (1600, 1700, 20.0),
    ] {
        let range = civil(start, end, a).unwrap();
        assert_eq!(range.end.value, at(until), "{start}..{end}");
    }
    assert_eq!(civil(160, 170, tens).unwrap().end.value, at(20.0));
    assert_eq!(civil(1700, 1700, a).unwrap().length().unwrap(), Fixed::ZERO);
    let error = civil(1600, 1800, a).unwrap_err();
    assert!(matches!(error, TimeError::ReversedRange { .. }), "{error}");
}

fn rational(value: Fixed) -> BigRational {
    BigRational::new(value.to_bits().into(), (1u64 << 32).into())
}

fn parts(value: &Exact) -> BigRational {
    let (num, den) = value.parts();
    BigRational::new(num.parse().unwrap(), den.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Oracle: big rationals.
    #[test]
    fn a_chain_of_derived_timebases_is_rounded_once(
        maps in prop::collection::vec((1i64..1_000_000_000_000, 1u64..1_000_000_000_000, -1_000_000i64..1_000_000), 1..7),
        value in -1_000_000i64..1_000_000,
    ) {
        let mut graph = Graph::new();
        let mut ids = vec![graph.add(unit("0")).unwrap()];
        let mut exact = BigRational::from_integer(value.into());
        for (k, &(num, den, offset)) in maps.iter().enumerate() {
            let next = graph.add(unit(&format!("{}", k + 1))).unwrap();
            let map = Derived::new(num, den, Fixed::from_int(offset)).unwrap();
            graph.connect(ids[k], next, Metric::Derived(map)).unwrap();
            exact = exact * BigRational::new(num.into(), den.into()) + BigRational::from_integer(offset.into());
            ids.push(next);
        }
        let (first, last) = (ids[0], *ids.last().unwrap());
        let there = graph.convert_exact(Time::exact(value.into(), first), last).unwrap();
        prop_assert_eq!(parts(&there.value), exact.clone());
        let back = graph.convert_exact(there, first).unwrap();
        prop_assert_eq!(back.value, Exact::from(value));
        if let Ok(rounded) = graph.convert(Time::new(value, first), last) {
            let off = rational(rounded.value) - exact;
            let step = BigRational::new(1.into(), (1u64 << 33).into());
            prop_assert!(off <= step && -off <= step);
        }
    }
}

#[test]
fn bounds_of_ranges_stay_ratios_until_an_index_is_chosen() {
    for ratio in [(1, 48), (1, 7), (3, 11), (48_000, 44_100)] {
        let mut graph = Graph::new();
        let index = graph.add(index_base("x")).unwrap();
        let blocks = graph.add(unit("blocks")).unwrap();
        let map = Derived::new(ratio.0, ratio.1, Fixed::ZERO).unwrap();
        graph.connect(index, blocks, Metric::Derived(map)).unwrap();
        for tile in 0..480i64 {
            let at = |i: i64| {
                let value = Exact::from_ratio(&(i * ratio.0).to_string(), &ratio.1.to_string());
                Time::exact(value.unwrap(), blocks)
            };
            let tiles = Range::new(at(100 * tile), at(100 * tile + 100)).unwrap();
            let there = tiles.convert(&graph, index).unwrap();
            let ends = (there.start.value.ceil_i64(), there.end.value.ceil_i64());
            assert_eq!(
                ends,
                (Some(100 * tile), Some(100 * tile + 100)),
                "{ratio:?}"
            );
        }
    }
}

#[test]
fn a_unit_far_coarser_than_a_time_keeps_it() {
    let mut graph = Graph::new();
    let days = graph.add(unit("days")).unwrap();
    let map = Derived::new(1, 86_400 * S as u64, Fixed::ZERO).unwrap();
    graph
        .connect(TimebaseId::CIVIL, days, Metric::Derived(map))
        .unwrap();
    let microsecond = Time::civil(1000);
    let there = graph.convert_exact(microsecond.into(), days).unwrap();
    assert_eq!(
        there.value.parts(),
        ("1".to_owned(), "86400000000".to_owned())
    );
    let back = graph.convert_exact(there, TimebaseId::CIVIL).unwrap();
    assert_eq!(back.rounded().unwrap().value, Fixed::from_int(1000));
}

#[test]
fn frames_at_sample_times_are_whole_samples_in_every_piece_of_a_fit() {
    // 30000/1001 frames per second beside 48 kHz: sample times are thirds of nanoseconds, and the second piece begins
    // at a rounded one.
    let rate = Rate::from_hz(48_000).unwrap();
    let first = Piece {
        end: Some(1000),
        ..Piece::nominal(RunId(0), 0, at(0.0), rate)
    };
    let civil = first.civil_at(Fixed::from_int(1000)).unwrap();
    let second = Piece {
        end: Some(2_000_000),
        ..Piece::nominal(RunId(0), 1000, civil, rate)
    };
    let mut graph = Graph::new();
    let a = graph.add(index_base("a")).unwrap();
    let frames = graph.add(unit("frames")).unwrap();
    let metric = Empirical::from_pieces(vec![first, second]).unwrap();
    graph
        .connect(a, TimebaseId::CIVIL, Metric::Empirical(Arc::new(metric)))
        .unwrap();
    let map = Derived::from_rate("30000/1001".parse().unwrap(), at(0.0)).unwrap();
    graph
        .connect(frames, TimebaseId::CIVIL, Metric::Derived(map))
        .unwrap();
    for frame in (0..1000i64).step_by(5) {
        let there = graph
            .convert_exact(Time::exact(frame.into(), frames), a)
            .unwrap();
        assert_eq!(there.value, Exact::from(frame / 5 * 8008), "frame {frame}");
    }
}
