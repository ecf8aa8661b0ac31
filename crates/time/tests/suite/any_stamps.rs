//! Invariants of a clock under arbitrary stamps.

use isochrony_time::{
    Clock, ClockConfig, Empirical, Fixed, Lookup, Piece, Placement, Point, PointUse, RunId, Stamp,
};
use proptest::prelude::*;

/// Time since the last append beyond its samples (ns), samples, leap second flag.
type Step = (i64, u64, bool);

fn steps() -> impl Strategy<Value = (Vec<Step>, i64, u64, bool, Option<f64>)> {
    let off = prop_oneof![
        6 => -300_000i64..300_000,
        2 => -3_000_000i64..3_000_000,
        1 => -4_000_000_000i64..4_000_000_000,
        1 => -4_000_000_000_000i64..4_000_000_000_000,
        1 => Just(-1_000_000_000_000_000_000i64),
        1 => Just(900_000_000_000_000_000i64),
    ];
    let samples = prop_oneof![1u64..4, 1u64..100_000];
    let step = (off, samples, prop::bool::weighted(0.05));
    let resolution = prop_oneof![
        Just(0i64),
        Just(1),
        Just(1000),
        Just(1_000_000),
        Just(1_000_000_000)
    ];
    let hz = prop_oneof![
        Just(1u64),
        Just(100),
        Just(2000),
        Just(48_000),
        Just(10_000_000)
    ];
    let slip = prop_oneof![3 => Just(None), 1 => Just(Some(0.0)), 1 => Just(Some(75e6))];
    (
        prop::collection::vec(step, 1..120),
        resolution,
        hz,
        any::<bool>(),
        slip,
    )
}

struct FedClock {
    clock: Clock,
    pieces: Vec<Piece>,
    points: Vec<Point>,
}

/// Feeds as a store does.
fn feed(fed: &mut FedClock, stamps: &[(Stamp, u64)], look_ahead: bool) {
    for (k, (stamp, samples)) in stamps.iter().enumerate() {
        let next = stamps.get(k + 1).map(|s| &s.0).filter(|_| look_ahead);
        let mut end = fed.clock.end().unwrap_or(0);
        let mut placement = fed.clock.place(stamp, *samples, next).unwrap();
        if matches!(
            placement,
            Placement::Backward { .. } | Placement::LeapSecond { .. }
        ) {
            let mut closed = fed.clock.pieces().unwrap();
            closed.last_mut().unwrap().end = Some(end);
            fed.pieces.append(&mut closed);
            fed.clock = fed.clock.next_run(RunId(fed.clock.run().0 + 1));
            placement = fed.clock.place(stamp, *samples, next).unwrap();
            assert_eq!(placement, Placement::First);
        }
        match placement {
            Placement::Gap {
                samples,
                duration_ns,
            } => {
                assert!(duration_ns > Fixed::ZERO && samples != Some(0));
                end += samples.map_or(4096, |s| s as i64);
            }
            Placement::Lock => {
                let start = fed.clock.start().unwrap();
                let before = fed.points.iter_mut().filter(|p| p.index >= start);
                before.for_each(|p| p.use_ = PointUse::BeforeLock);
            }
            _ => {}
        }
        fed.points
            .push(fed.clock.accept(end, stamp, *samples, &placement).unwrap());
    }
}

fn stamps(steps: &[Step], resolution: i64, hz: u64) -> Vec<(Stamp, u64)> {
    let mut t = 1_267_401_600_000_000_000i64;
    let mut out = Vec::new();
    for &(off, samples, leap) in steps {
        let shown = if resolution > 0 {
            t.div_euclid(resolution) * resolution
        } else {
            t
        };
        let mut stamp = Stamp::new(Fixed::from_int(shown), Fixed::from_int(resolution));
        stamp.leap = leap;
        out.push((stamp, samples));
        let duration = (samples as i128 * 1_000_000_000 / hz as i128) as i64;
        t = (t + duration)
            .saturating_add(off)
            .clamp(-9e18 as i64, 9e18 as i64);
    }
    out
}

fn metric_of(steps: &[(i64, u64)]) -> Empirical {
    let steps: Vec<Step> = steps.iter().map(|&(off, n)| (off, n, false)).collect();
    let config = ClockConfig::new(isochrony_time::Rate::from_hz(1).unwrap());
    let mut fed = FedClock {
        clock: Clock::new(config, RunId(0)).unwrap(),
        pieces: vec![],
        points: vec![],
    };
    feed(&mut fed, &stamps(&steps, 0, 1), false);
    let mut pieces = fed.pieces.clone();
    pieces.extend(fed.clock.pieces().unwrap());
    let end = fed.clock.end().unwrap();
    Empirical::from_pieces(pieces)
        .unwrap()
        .closed_at(end)
        .unwrap()
}

/// Regression: near misses moved the gap's end before its start.
#[test]
fn a_gap_keeps_its_duration_whatever_the_stamps_behind_it_say() {
    let year = -1_000_000_000_000_000_000;
    let steps = [
        (-3_007_000_001, 67_975),
        (year, 1),
        (0, 27_197),
        (-1_826_165_076, 41_206),
    ];
    let after = [(0, 47_298), (0, 1), (0, 1020), (0, 1)];
    metric_of(&[&steps[..], &after[..]].concat());
}

/// Regression: sums about a rounded mean became negative, the uncertainty NaN.
#[test]
fn distant_continuations_have_a_finite_uncertainty() {
    let ticks = [(0, 1); 7];
    let steps = [
        (143, 1),
        (0, 1),
        (191, 1),
        (0, 1),
        (0, 1),
        (0, 1),
        (0, 1),
        (-2499854509, 4425),
        (2500000181, 1),
        (0, 1),
        (21718, 1),
        (-2496826289, 97427),
        (22716, 43877),
        (44250, 1),
        (0, 1344),
        (0, 3),
        (0, 16329),
        (-54784509, 1),
        (-107445, 2),
        (-273680, 3),
        (137786, 55161),
        (-443752725, 1),
        (-290560291, 1),
        (0, 1),
    ];
    metric_of(&[&ticks[..], &steps[..]].concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pieces_always_make_a_metric_and_indices_come_back(
        (steps, resolution, hz, look_ahead, slip) in steps(), cut in 0.0f64..1.0
    ) {
        let mut config = ClockConfig::new(isochrony_time::Rate::from_hz(hz).unwrap());
        config.gap_slip_ns = slip;
        let stamps = stamps(&steps, resolution, hz);
        let new = || FedClock { clock: Clock::new(config.clone(), RunId(0)).unwrap(), pieces: vec![], points: vec![] };
        let mut fed = new();
        feed(&mut fed, &stamps, look_ahead);

        let mut pieces = fed.pieces.clone();
        pieces.extend(fed.clock.pieces().unwrap());
        let end = fed.clock.end().unwrap();
        let metric = Empirical::from_pieces(pieces).unwrap().closed_at(end).unwrap();
        for point in &fed.points {
            for i in [point.index - 1, point.index, point.index + 1] {
                let time = metric.time_of(i).unwrap();
                prop_assert_eq!(metric.index_of_time(&time, Lookup::default()).unwrap().index, i);
            }
        }
        let rate = fed.clock.rate();
        prop_assert!(rate.hz.is_finite() && rate.uncertainty_ppm.is_finite() && rate.uncertainty_ppm > 0.0);

        if !look_ahead {
            let cut = (stamps.len() as f64 * cut) as usize;
            let mut part = new();
            feed(&mut part, &stamps[..cut], false);
            let mut stored = part.pieces.clone();
            stored.extend(part.clock.pieces().unwrap());
            let run = part.clock.run();
            let end = part.clock.end().unwrap_or(0);
            part.clock = Clock::resume(config.clone(), run, &part.points, &stored, end).unwrap();
            feed(&mut part, &stamps[cut..], false);
            prop_assert_eq!(part.clock.pieces().unwrap(), fed.clock.pieces().unwrap());
            prop_assert_eq!(part.clock.rate(), fed.clock.rate());
            prop_assert_eq!(part.points, fed.points);
        }
    }
}
