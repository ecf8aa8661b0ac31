//! The truth lies within the uncertainty of point metrics.

use std::sync::Arc;

use isochrony_time::{
    Empirical, FitShape, Fixed, Graph, Lookup, Metric, Piece, PointFit, PointFitOptions, PointPair,
    Rate, RunId, Time, TimeError, Timebase, TimebaseId, TimebaseKind,
};
use proptest::prelude::*;

const S: i64 = 1_000_000_000;
const START: i64 = 1_267_401_600 * S;

fn int(x: i64) -> Fixed {
    Fixed::from_int(x)
}

fn fit(points: &[PointPair]) -> Result<PointFit, TimeError> {
    PointFit::new(points, &PointFitOptions::default())
}

/// splitmix64.
fn noise(seed: u64) -> f64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as f64 / u64::MAX as f64 * 2.0 - 1.0
}

/// A clock fast by `ppb` parts in 10^9, exact.
fn skewed(true_ns: i64, ppb: i64) -> i64 {
    true_ns + (i128::from(true_ns) * i128::from(ppb) / 1_000_000_000) as i64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Any straight line in integers; points anywhere within their intervals.
    #[test]
    fn a_straight_truth_lies_within_what_a_line_states(
        gaps in prop::collection::vec(1i64..1_000_000, 2..40),
        num in 1i64..2_000_000,
        falls in any::<bool>(),
        offset in -1_000_000_000_000i64..1_000_000_000_000,
        width in 1i64..1_000_000,
        seed in any::<u64>(),
        probes in prop::collection::vec(-1.0f64..2.0, 20),
    ) {
        let num = if falls { -num } else { num };
        let froms: Vec<i64> = gaps.iter().scan(0, |at, gap| { *at += gap * 1000; Some(*at) }).collect();
        let span = froms[froms.len() - 1] - froms[0];
        // Else points may turn back.
        prop_assume!(i128::from(span) * i128::from(num.abs()) / 1000 > 4 * i128::from(width));
        let truth = |from: i64| i128::from(offset) + i128::from(from) * i128::from(num) / 1000;
        let points: Vec<PointPair> = froms.iter().enumerate().map(|(k, &from)| {
            let off = (noise(seed.wrapping_add(k as u64)) * width as f64) as i64;
            PointPair::new(from, Fixed::from_i128(truth(from) + i128::from(off)).unwrap()).within(width)
        }).collect();
        let options = PointFitOptions { shape: Some(FitShape::Line), ..PointFitOptions::default() };
        let fit = match PointFit::new(&points, &options) {
            // Close points may not show the direction.
            Err(TimeError::NotMonotone { .. }) => return Ok(()),
            fit => fit.unwrap(),
        };
        prop_assert!(fit.outliers().is_empty());
        prop_assert_eq!(fit.resolution(), width as f64);
        for share in probes {
            // The truth is an integer.
            let from = froms[0] + (share * span as f64 / 1000.0) as i64 * 1000;
            let found = fit.metric().forward(int(from)).unwrap();
            let off = found.checked_sub(Fixed::from_i128(truth(from)).unwrap()).unwrap().to_f64().abs();
            prop_assert!(off <= fit.metric().uncertainty(int(from)), "{from}: off by {off}, stated {}", fit.metric().uncertainty(int(from)));
            let to = Fixed::from_i128(truth(from)).unwrap();
            let back = fit.metric().backward(to).unwrap();
            let off = back.checked_sub(int(from)).unwrap().to_f64().abs();
            let stated = fit.metric().uncertainty_back(to).unwrap();
            prop_assert!(off <= stated, "back {from}: off by {off}, stated {stated}");
        }
    }

    /// A slowly swinging rate; points anywhere within their intervals.
    #[test]
    fn a_wandering_truth_lies_within_what_pieces_state(
        count in 8usize..80,
        amplitude_ppm in 0.0f64..50.0,
        // Points per swing of the rate.
        per_swing in 8.0f64..100.0,
        phase in 0.0f64..6.3,
        skew_ppm in -50.0f64..50.0,
        width in prop_oneof![Just(0i64), 1i64..2_000_000],
        seed in any::<u64>(),
    ) {
        let step = 60 * S;
        let swing = per_swing * step as f64;
        let omega = std::f64::consts::TAU / swing;
        // True minus recorded time, ns: the integral of the rate's deviation.
        let deviation = |x: f64| {
            1e-6 * (skew_ppm * x - amplitude_ppm / omega * ((omega * x + phase).cos() - phase.cos()))
        };
        let truth = |from: i64| from as f64 * 0.0 + deviation(from as f64);
        let points: Vec<PointPair> = (0..count).map(|k| {
            let from = k as i64 * step;
            let off = noise(seed.wrapping_add(k as u64)) * width as f64;
            let to = int(from).checked_add(Fixed::from_f64_nearest(truth(from) + off).unwrap()).unwrap();
            PointPair::new(from, to).within(width)
        }).collect();
        let options = PointFitOptions { shape: Some(FitShape::Pieces), wander: 1e-7 };
        let fit = PointFit::new(&points, &options).unwrap();
        prop_assert!(fit.outliers().is_empty(), "{:?}", fit.outliers());
        let last = (count as i64 - 1) * step;
        for k in 0..400i64 {
            let from = last / 400 * k;
            let found = fit.metric().forward(int(from)).unwrap().checked_sub(int(from)).unwrap().to_f64();
            let off = (found - truth(from)).abs();
            let stated = fit.metric().uncertainty(int(from));
            // The precision of floats of this size.
            prop_assert!(off <= stated + 1e-3, "at {}: off by {off}, stated {stated}", from as f64 / step as f64);
        }
    }

    #[test]
    fn forward_and_backward_round_trip_exactly(
        steps in prop::collection::vec((1i64..1_000_000, 1i64..1_000_000), 2..30),
        value in -1_000_000i64..40_000_000,
    ) {
        let mut at = (0, 0);
        let points: Vec<PointPair> = steps.iter().map(|step| {
            at = (at.0 + step.0, at.1 + step.1);
            PointPair::new(at.0, at.1).within(0)
        }).collect();
        let options = PointFitOptions { shape: Some(FitShape::Pieces), ..PointFitOptions::default() };
        let Ok(fit) = PointFit::new(&points, &options) else { return Ok(()) };
        let mut graph = Graph::new();
        let unit = |name: &str| Timebase { name: name.into(), kind: TimebaseKind::Unit(String::new()) };
        let (a, b) = (graph.add(unit("a")).unwrap(), graph.add(unit("b")).unwrap());
        graph.connect(a, b, Metric::Points(Arc::new(fit.metric().clone()))).unwrap();
        let there = graph.convert_exact(Time::new(value, a).into(), b).unwrap();
        let back = graph.convert_exact(there, a).unwrap();
        prop_assert_eq!(back.value, int(value).into());
        for (position, point) in points.iter().enumerate() {
            if fit.outliers().binary_search(&position).is_err() {
                let off = fit.metric().forward(point.from).unwrap().checked_sub(point.to).unwrap();
                prop_assert!(off.to_f64().abs() <= fit.metric().uncertainty(point.from));
            }
        }
    }
}

#[test]
fn two_comparisons_of_a_recorder_tell_its_skew() {
    // A year apart; 2 ppm fast; compared to a microsecond.
    let year = 365 * 86_400 * S;
    let points = [0, year].map(|true_ns| {
        PointPair::new(START + skewed(true_ns, 2_000), START + true_ns).within(1_000)
    });
    let fit = fit(&points).unwrap();
    assert_eq!(fit.shape(), FitShape::Line);
    assert!(fit.residual() < 1e-3 && fit.largest_residual() < 1e-3);
    assert_eq!(fit.resolution(), 1_000.0);
    for day in 0..=365 {
        let true_ns = day * 86_400 * S;
        let recorded = int(START + skewed(true_ns, 2_000));
        let off = fit.metric().forward(recorded).unwrap();
        let off = off.checked_sub(int(START + true_ns)).unwrap().to_f64();
        assert!(off.abs() < 1.0, "day {day}: {off} ns");
        let stated = fit.metric().uncertainty(recorded);
        assert!((1_000.0..1_001.0).contains(&stated), "{stated}");
    }
    // A microsecond at each end, and 1 ppm.
    let beyond = int(START + year + 86_400 * S);
    let stated = fit.metric().uncertainty(beyond);
    assert!(stated > 86_300.0 * 1e3, "{stated}");
}

#[test]
fn a_log_with_jitter_shows_its_scatter_and_its_outliers() {
    // A fix per minute for a day, 40 us of jitter, 7 ppm slow; every 200th fix is seconds off.
    let wrong = |k: i64| k % 200 == 50;
    let points: Vec<PointPair> = (0..1440i64)
        .map(|k| {
            let recorded = START + k * 60 * S;
            let true_ns = recorded + skewed(k * 60 * S, 7_000) - k * 60 * S;
            let jitter = (noise(k as u64) + noise(k as u64 + 10_000)) * 40_000.0;
            let off = if wrong(k) { 2 * S } else { 0 };
            PointPair::new(recorded, true_ns + jitter as i64 + off)
        })
        .collect();
    let fit = fit(&points).unwrap();
    let expected: Vec<usize> = (0..1440).filter(|&k| wrong(k as i64)).collect();
    assert_eq!(fit.outliers(), expected);
    assert_eq!(fit.shape(), FitShape::Line);
    // An interval has five standard deviations of 32.7 us.
    assert!(
        (28_000.0..38_000.0).contains(&fit.residual()),
        "{}",
        fit.residual()
    );
    assert!(
        (110_000.0..230_000.0).contains(&fit.resolution()),
        "{}",
        fit.resolution()
    );
    for k in 0..1440i64 {
        let true_ns = START + skewed(k * 60 * S, 7_000);
        let recorded = int(START + k * 60 * S);
        let off = fit.metric().forward(recorded).unwrap();
        let off = off.checked_sub(int(true_ns)).unwrap().to_f64().abs();
        assert!(off < 5_000.0, "{off}");
        assert!(off <= fit.metric().uncertainty(recorded));
    }
}

#[test]
fn a_scatter_above_the_stated_uncertainty_counts() {
    let points: Vec<PointPair> = (0..200i64)
        .map(|k| PointPair::new(k * S, k * S + (noise(k as u64) * 50_000.0) as i64).within(1))
        .collect();
    let fit = fit(&points).unwrap();
    assert!(fit.resolution() > 50_000.0, "{}", fit.resolution());
    assert_eq!(fit.shape(), FitShape::Line);
}

#[test]
fn a_change_of_rate_is_no_outlier_and_makes_pieces() {
    let points: Vec<PointPair> = (0..40i64)
        .map(|k| {
            let extra = if k > 20 { (k - 20) * 100_000 } else { 0 };
            PointPair::new(k * S, k * S + extra).within(10)
        })
        .collect();
    let fit = fit(&points).unwrap();
    assert_eq!((fit.shape(), fit.outliers()), (FitShape::Pieces, &[][..]));
    assert_eq!(fit.metric().knots().len(), 3);
    assert!(fit.residual() <= 10.0 && fit.line_residual() > 100_000.0);
    let before = fit.metric().forward(int(10 * S)).unwrap();
    assert!(before.checked_sub(int(10 * S)).unwrap().to_f64().abs() < 10.0);
}

#[test]
fn forced_lines_state_the_distance_of_bent_points() {
    let truth = |x: i64| {
        if x > 20 * S {
            x + (x - 20 * S) / 10_000
        } else {
            x
        }
    };
    let points: Vec<PointPair> = (0..=40i64)
        .map(|k| PointPair::new(k * S, truth(k * S) + (noise(k as u64) * 10.0) as i64).within(10))
        .collect();
    let options = PointFitOptions {
        shape: Some(FitShape::Line),
        ..PointFitOptions::default()
    };
    let fit = PointFit::new(&points, &options).unwrap();
    assert_eq!((fit.shape(), fit.outliers()), (FitShape::Line, &[][..]));
    assert!(fit.resolution() > 100_000.0, "{}", fit.resolution());
    for x in (0..=40 * S).step_by(77_777_777) {
        let off = fit
            .metric()
            .forward(int(x))
            .unwrap()
            .checked_sub(int(truth(x)))
            .unwrap();
        let stated = fit.metric().uncertainty(int(x));
        assert!(off.to_f64().abs() <= stated, "{x}: {off}, stated {stated}");
    }
}

#[test]
fn rejects_invalid_points_with_a_remedy() {
    let exact = |from: i64, to: i64| PointPair::new(from, to).within(0);
    let code = |points: &[PointPair]| fit(points).unwrap_err().code();
    assert_eq!(code(&[]), "too_few_points");
    assert_eq!(code(&[exact(0, 0)]), "too_few_points");
    assert_eq!(code(&[exact(0, 0), exact(0, 5)]), "unsorted_points");
    assert_eq!(code(&[exact(5, 0), exact(0, 5)]), "unsorted_points");
    assert_eq!(code(&[exact(0, 7), exact(5, 7)]), "not_monotone");
    assert_eq!(
        code(&[exact(0, 0), exact(5, 9), exact(7, 8), exact(9, 12)]),
        "not_monotone"
    );
    assert_eq!(
        code(&[exact(0, 0), PointPair::new(5, 5).within(-1)]),
        "negative_uncertainty"
    );
    assert_eq!(
        code(&[exact(0, 0), PointPair::new(5, 5)]),
        "unknown_uncertainty"
    );
    let far = PointPair::new(Fixed::MIN, 0).within(0);
    assert_eq!(
        code(&[far, PointPair::new(Fixed::MAX, 5).within(0)]),
        "overflow"
    );
    let wide = PointFitOptions {
        wander: f64::NAN,
        ..PointFitOptions::default()
    };
    let refused = PointFit::new(&[exact(0, 0), exact(1, 1)], &wide);
    assert_eq!(refused.unwrap_err().code(), "bad_config");
    let message = fit(&[exact(0, 0), exact(5, 9), exact(7, 8), exact(9, 12)]).unwrap_err();
    assert!(
        message
            .to_string()
            .contains("from 9 at point 1 to 8 at point 2"),
        "{message}"
    );
}

#[test]
fn a_graph_converts_through_points_and_carries_the_uncertainty() {
    // Two recorders share a trigger; civil time is known for the first.
    let mut graph = Graph::new();
    let index = |name: &str| Timebase {
        name: name.into(),
        kind: TimebaseKind::Index,
    };
    let (a, b) = (
        graph.add(index("a")).unwrap(),
        graph.add(index("b")).unwrap(),
    );
    let rate = Rate::from_hz(1000).unwrap();
    let piece = Piece {
        end: Some(1_000_000),
        uncertainty_ns: 500.0,
        ..Piece::nominal(RunId(0), 0, int(START), rate)
    };
    let civil = Empirical::from_pieces(vec![piece])
        .unwrap()
        .with_timebase(a);
    graph
        .connect(a, TimebaseId::CIVIL, Metric::Empirical(Arc::new(civil)))
        .unwrap();
    // b has 500 samples per 1000 of a, from 200 on, known to half a sample of a.
    let half = Fixed::from_decimal_str("0.5").unwrap();
    let points = [(0, 200), (250_000, 500_200)].map(|(b, a)| PointPair::new(b, a).within(half));
    let fit = fit(&points).unwrap();
    graph
        .connect(b, a, Metric::Points(Arc::new(fit.metric().clone())))
        .unwrap();
    assert_eq!(
        graph.path_names(b, TimebaseId::CIVIL).unwrap(),
        ["b", "a", "utc"]
    );
    let (time, off) = graph
        .convert_with_uncertainty(Time::new(100_000, b).into(), TimebaseId::CIVIL)
        .unwrap();
    assert_eq!(
        time.rounded().unwrap().value,
        int(START + 200_200 * 1_000_000)
    );
    // Half a sample of a, and 500 ns of its clock.
    assert!((500_499.0..500_600.0).contains(&off), "{off}");
    let (back, off) = graph
        .convert_with_uncertainty(Time::civil(START + 200_200 * 1_000_000).into(), b)
        .unwrap();
    assert_eq!(back.rounded().unwrap().value, int(100_000));
    assert!((0.25..0.26).contains(&off), "{off}");
    let wrong = [(0, 300), (250_000, 500_300)].map(|(b, a)| PointPair::new(b, a).within(half));
    let wrong = Metric::Points(Arc::new(
        super::points::fit(&wrong).unwrap().metric().clone(),
    ));
    assert_eq!(
        graph.connect(b, a, wrong).unwrap_err().code(),
        "contradictory_cycle"
    );
}

fn recorded() -> Empirical {
    let rate = Rate::from_hz(100).unwrap();
    let piece = |run: u32, index: i64, end: i64, ns: i64| Piece {
        end: Some(end),
        ..Piece::nominal(RunId(run), index, int(START + ns), rate)
    };
    Empirical::from_pieces(vec![
        piece(0, 0, 100_000, 0),
        piece(0, 100_500, 200_000, 1_005 * S),
        piece(1, 200_000, 300_000, 1_500 * S),
    ])
    .unwrap()
}

#[test]
fn a_correction_moves_the_times_of_its_run_alone_and_inverts_exactly() {
    let recorded = recorded();
    let true_of = |ns: i64| START + 1_000 + skewed(ns, -20_000);
    let points: Vec<PointPair> = [0, 1_000, 2_000]
        .map(|s| PointPair::new(START + s * S, true_of(s * S)).within(100))
        .to_vec();
    let fit = fit(&points).unwrap();
    let corrected = recorded
        .corrected(|run| (run == RunId(0)).then(|| fit.metric()))
        .unwrap();
    for index in (0..200_000).step_by(997) {
        let was = recorded.time_of(index).unwrap();
        let now = corrected.time_of(index).unwrap();
        assert_eq!((now.run, now.in_gap), (was.run, was.in_gap));
        let exact = fit.metric().forward(was.value).unwrap();
        let off = now.value.checked_sub(exact).unwrap().to_f64().abs();
        assert!(off <= 1e-6, "{index}: {off}");
        let off = now
            .value
            .checked_sub(int(true_of(index * 10_000_000)))
            .unwrap()
            .to_f64();
        assert!(
            off.abs() <= corrected.uncertainty_ns(index),
            "{index}: {off}"
        );
        let back = corrected.index_of_time(&now, Lookup::default()).unwrap();
        assert_eq!(back.index, index);
    }
    for index in 200_000..200_100 {
        assert_eq!(
            corrected.time_of(index).unwrap().value,
            recorded.time_of(index).unwrap().value
        );
    }
    assert!(corrected.uncertainty_ns(50_000) < 101.0);
    let short: Vec<PointPair> = points[..2].to_vec();
    let short = super::points::fit(&short).unwrap();
    let corrected = recorded.corrected(|_| Some(short.metric())).unwrap();
    assert!(corrected.uncertainty_ns(199_000) > 900_000.0);
}

#[test]
fn a_correction_measures_what_few_stamps_left_open() {
    let with = |uncertainty_ns: f64, residual_ns: f64| {
        let mut pieces = recorded().pieces().to_vec();
        for piece in &mut pieces {
            (piece.uncertainty_ns, piece.residual_ns) = (uncertainty_ns, residual_ns);
        }
        pieces[1].end = Some(150_000);
        let civil = pieces[1].civil_at(int(150_000)).unwrap();
        let bridge = Piece {
            index: 150_000,
            end: Some(151_000),
            civil,
            uncertainty_ns: uncertainty_ns + 5_000.0,
            ..pieces[1]
        };
        let civil = bridge.civil_at(int(151_000)).unwrap();
        let rest = Piece {
            index: 151_000,
            end: Some(200_000),
            civil,
            ..pieces[1]
        };
        pieces.splice(2..2, [bridge, rest]);
        let points = [0, 2_000].map(|s| PointPair::new(START + s * S, START + s * S).within(100));
        let fit = super::points::fit(&points).unwrap();
        let corrected = Empirical::from_pieces(pieces)
            .unwrap()
            .corrected(|_| Some(fit.metric()))
            .unwrap();
        [1_000, 150_500, 180_000].map(|index| corrected.uncertainty_ns(index).round())
    };
    // One stamp leaves 350 ppm of 2,000 s open; two comparisons measure them.
    assert_eq!(with(7e8, 0.0), [100.0, 5_100.0, 100.0]);
    // With scatter, samples may be off the line within its uncertainty.
    assert_eq!(with(7e8, 1_000.0), [3_600.0, 8_600.0, 3_600.0]);
    assert_eq!(with(500.0, 1_000.0), [600.0, 8_600.0, 600.0]);
}

#[test]
fn a_bent_correction_keeps_every_sample_in_order() {
    let recorded = recorded();
    let points: Vec<PointPair> = (0..200i64)
        .map(|k| {
            let s = k * 10 * S + 3_333_333;
            let bend = (noise(k as u64) * 300_000.0) as i64;
            PointPair::new(START + s, START + s + bend).within(0)
        })
        .collect();
    let options = PointFitOptions {
        shape: Some(FitShape::Pieces),
        ..PointFitOptions::default()
    };
    let fit = PointFit::new(&points, &options).unwrap();
    let corrected = recorded.corrected(|_| Some(fit.metric())).unwrap();
    let mut before = Fixed::MIN;
    for index in 0..200_000 {
        let now = corrected.time_of(index).unwrap();
        assert!(now.value > before);
        before = now.value;
        let exact = fit
            .metric()
            .forward(recorded.time_of(index).unwrap().value)
            .unwrap();
        let off = now.value.checked_sub(exact).unwrap().to_f64().abs();
        assert!(
            now.in_gap || off <= corrected.uncertainty_ns(index),
            "{index}: {off}"
        );
        let back = corrected.index_of_time(&now, Lookup::default()).unwrap();
        assert_eq!(back.index, index);
    }
    let falling: Vec<PointPair> = [0, 1]
        .map(|k| PointPair::new(k * S, -k * S).within(0))
        .to_vec();
    let falling = super::points::fit(&falling).unwrap();
    let refused = recorded.corrected(|_| Some(falling.metric())).unwrap_err();
    assert!(refused.to_string().contains("runs backwards"), "{refused}");
}
