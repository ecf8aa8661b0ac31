//! Conversions against exact rationals, over ten years.

use isochrony_time::{Empirical, Fixed, Lookup, Piece, Prefer, Rate, Round, RunId};
use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;

const START: i64 = 1_267_401_600_000_000_000;
const TEN_YEARS_S: i64 = 10 * 366 * 86_400;
const SHORT: i64 = 1000;

fn rational(x: Fixed) -> BigRational {
    BigRational::new(BigInt::from(x.to_bits()), BigInt::from(1u64 << 32))
}

/// By the definition of a piece, unrounded.
fn exact(piece: &Piece, index: i64) -> BigRational {
    let d = BigInt::from(index) - BigInt::from(piece.index);
    rational(piece.civil) + BigRational::new(d * BigInt::from(piece.num), piece.den.into())
}

fn within_one_step(got: Fixed, want: &BigRational) -> bool {
    let off = rational(got) - want;
    let step = BigRational::new(BigInt::from(1), BigInt::from(1u64 << 32));
    off <= step && -off <= step
}

fn rates() -> [Rate; 5] {
    [
        "100.0000042",
        "44100000/1001",
        "1 MHz",
        "10 MHz",
        "2000.033",
    ]
    .map(|r| r.parse().unwrap())
}

fn nominal(rate: Rate) -> Piece {
    Piece::nominal(RunId(0), 0, Fixed::from_parts(START, 0x1234_5678), rate)
}

#[test]
fn periods_of_the_reference_rates_are_exact() {
    for rate in rates() {
        let (num, den) = rate.period_ns();
        let product = u128::from(num) * u128::from(rate.num());
        assert_eq!(
            product,
            1_000_000_000 * u128::from(rate.den()) * u128::from(den),
            "{rate}"
        );
    }
}

#[test]
fn every_index_near_the_start_and_after_ten_years_comes_back() {
    for rate in rates() {
        let piece = nominal(rate);
        let metric = Empirical::from_pieces(vec![piece]).unwrap();
        let far = (rate.to_f64() * TEN_YEARS_S as f64) as i64;
        for base in [-far, -50_000, far / 3, far] {
            for i in base..base + 100_000 {
                let time = metric.time_of(i).unwrap();
                assert_eq!(
                    metric
                        .index_of(time.value, Lookup::default())
                        .unwrap()
                        .index,
                    i
                );
            }
        }
    }
}

fn many_pieces() -> impl Strategy<Value = Vec<Piece>> {
    let step = (
        prop_oneof![1i64..1000, SHORT..5_000_000],
        prop_oneof![Just(0i64), 1i64..1000, SHORT..3_000_000],
        -200_000i64..200_000,
        0u32..4,
    );
    (prop::collection::vec(step, 1..40), 0usize..5, any::<u32>()).prop_map(|(steps, r, frac)| {
        let rate = rates()[r];
        let (mut index, mut civil) = (0i64, Fixed::from_parts(START, frac));
        let first = (steps[0].0.max(SHORT), steps[0].1, steps[0].2, steps[0].3);
        let mut steps: Vec<_> = [first]
            .into_iter()
            .chain(steps.into_iter().skip(1))
            .collect();
        steps.last_mut().unwrap().1 = 0;
        let long = steps
            .iter()
            .flat_map(|s| [s.0, s.1])
            .filter(|n| *n >= SHORT);
        let scale = rate.to_f64() * TEN_YEARS_S as f64 / long.sum::<i64>() as f64;
        let stretched = |n: i64| {
            if n < SHORT {
                n
            } else {
                (n as f64 * scale) as i64
            }
        };
        let mut pieces = Vec::new();
        for (samples, gap, ppb, jump) in steps {
            let (samples, gap) = (stretched(samples).max(1), stretched(gap).max(gap.min(1)));
            // Slopes near the nominal one with awkward denominators.
            let (num, den) = rate.period_ns();
            let den_fine = 1_000_000_007u64;
            let ratio = num as f64 / den as f64 * (1.0 + ppb as f64 * 1e-9);
            let num = (ratio * den_fine as f64) as u64;
            let end = index + samples;
            let piece = Piece {
                run: RunId(0),
                index,
                end: Some(end),
                civil,
                num,
                den: den_fine,
                uncertainty_ns: 0.0,
                residual_ns: 0.0,
            };
            civil = piece.civil_at(Fixed::from_int(end)).unwrap();
            pieces.push(piece);
            index = end + gap;
            if gap > 0 {
                let ns = (gap as f64 * ratio) as i64 + 1 + i64::from(jump) * 777;
                civil = civil.checked_add(Fixed::from_int(ns)).unwrap();
            }
        }
        pieces
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn civil_time_is_within_one_step_of_the_rational(r in 0usize..5, s in -1.0f64..1.0, off in -1000i64..1000) {
        let rate = rates()[r];
        let piece = nominal(rate);
        let i = (rate.to_f64() * TEN_YEARS_S as f64 * s) as i64 + off;
        let metric = Empirical::from_pieces(vec![piece]).unwrap();
        let time = metric.time_of(i).unwrap();
        prop_assert!(within_one_step(time.value, &exact(&piece, i)));
        prop_assert_eq!(metric.index_of_time(&time, Lookup::default()).unwrap().index, i);
    }

    #[test]
    fn indices_come_back_through_pieces_and_gaps(pieces in many_pieces(), picks in prop::collection::vec(0.0f64..1.0, 30)) {
        let metric = Empirical::from_pieces(pieces.clone()).unwrap();
        let last = pieces.last().unwrap().end.unwrap();
        let span = metric.time_of(last).unwrap().value.checked_sub(pieces[0].civil).unwrap();
        prop_assert!(span > Fixed::from_int(10 * 365 * 86_400 * 1_000_000_000));
        let mut indices: Vec<i64> = picks.iter().map(|p| ((last + 2000) as f64 * p) as i64 - 1000).collect();
        for p in &pieces {
            indices.extend([p.index - 1, p.index, p.index + 1, p.end.unwrap() - 1, p.end.unwrap()]);
        }
        for i in indices {
            let time = metric.time_of(i).unwrap();
            prop_assert_eq!(metric.index_of_time(&time, Lookup::default()).unwrap().index, i);
            let at = metric.index_of(time.value, Lookup::default()).unwrap();
            prop_assert_eq!(at.index, i);
            prop_assert_eq!(at.in_gap, time.in_gap);
            for round in [Round::Floor, Round::Ceil] {
                prop_assert_eq!(metric.index_of(time.value, Lookup { round, prefer: None }).unwrap().index, i);
            }
            if let Some(piece) = pieces.iter().find(|p| p.index <= i && i < p.end.unwrap()) {
                prop_assert!(!time.in_gap);
                prop_assert!(within_one_step(time.value, &exact(piece, i)));
                let lookup = Lookup { round: Round::Exact, prefer: Some(Prefer::First) };
                prop_assert_eq!(metric.index_of(time.value, lookup).unwrap().index, i);
            } else if (0..last).contains(&i) {
                prop_assert!(time.in_gap);
            }
        }
    }

    #[test]
    fn floor_and_ceil_agree_with_a_scan_of_all_samples(pieces in many_pieces(), pick in 0.0f64..1.0, off in -3_000_000_000i64..3_000_000_000) {
        let metric = Empirical::from_pieces(pieces.clone()).unwrap();
        let last = pieces.last().unwrap().end.unwrap();
        let near = (last as f64 * pick) as i64;
        let civil = metric.time_of(near).unwrap().value.checked_add(Fixed::from_int(off / 1000)).unwrap();
        let at = |round| metric.index_of(civil, Lookup { round, prefer: None }).unwrap().index;
        let (floor, ceil) = (at(Round::Floor), at(Round::Ceil));
        let t = |i: i64| metric.time_of(i).unwrap().value;
        prop_assert!(t(floor) <= civil && t(floor + 1) > civil);
        prop_assert!(t(ceil) >= civil && t(ceil - 1) < civil);
        prop_assert!(ceil == floor || ceil == floor + 1);
    }

    #[test]
    fn grids_equal_one_conversion_each(pieces in many_pieces(), start in -100i64..1_000_000, step in 1i64..40_000) {
        let metric = Empirical::from_pieces(pieces).unwrap();
        let indices: Vec<i64> = (0..500).map(|k| start + k * step).collect();
        let each: Vec<Fixed> = indices.iter().map(|&i| metric.time_of(i).unwrap().value).collect();
        let (mut grid, mut many, mut ns) = (vec![Fixed::ZERO; 500], vec![Fixed::ZERO; 500], vec![0; 500]);
        metric.civil_grid(start, step, &mut grid).unwrap();
        metric.civil_many(&indices, &mut many).unwrap();
        metric.civil_ns_grid(start, step, &mut ns).unwrap();
        prop_assert_eq!(&grid, &each);
        prop_assert_eq!(&many, &each);
        prop_assert!(ns.iter().zip(&each).all(|(&n, e)| i128::from(n) == e.round()));
        let mut back = Vec::new();
        metric.index_many(&many, Lookup::default(), &mut back).unwrap();
        prop_assert!(back.iter().zip(&indices).all(|(b, &i)| b.index == i));
    }

    #[test]
    fn civil_grids_equal_one_lookup_each(pieces in many_pieces(), step in 1u64..100_000_000_000, first in 0.0f64..1.0) {
        let metric = Empirical::from_pieces(pieces.clone()).unwrap();
        let end = pieces.last().unwrap().end.unwrap();
        let start = metric.time_of((end as f64 * first) as i64).unwrap().value;
        let spans = metric.index_spans(start, (step, 7), 400, None).unwrap();
        prop_assert_eq!(spans.iter().map(|s| s.count).sum::<u64>(), 400);
        for s in spans {
            for k in [0, s.count / 2, s.count - 1] {
                let t = BigRational::new(BigInt::from(s.first + k) * BigInt::from(step), 7.into());
                let bits = (t * BigRational::from(BigInt::from(1u64 << 32))).round().to_integer();
                let civil = start.checked_add(Fixed::from_bits(i128::try_from(bits).unwrap())).unwrap();
                let one = metric.index_of(civil, Lookup::default()).unwrap();
                let here = s.position.to_f64() + k as f64 * s.step;
                prop_assert_eq!(one.in_gap, s.in_gap, "point {} of span {:?}", k, s);
                let scale = one.position.to_f64().abs().max(1.0);
                prop_assert!((here - one.position.to_f64()).abs() < 1e-6 + 1e-13 * scale);
            }
        }
    }
}
