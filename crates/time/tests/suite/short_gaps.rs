//! Early gaps of a few samples.
//!
//! Oracle: sample times are sums of periods, stamps are rounded down to the resolution.

use crate::common::START;
use isochrony_time::{Clock, ClockConfig, Empirical, Fixed, Placement, Rate, RunId, Stamp};

/// Largest rate error at which the rule detects lost samples.
const CRYSTAL: f64 = 100e-6;

#[derive(Clone, Copy, Debug)]
struct Case {
    rate: u32,
    resolution_ns: i64,
    /// Samples before the gap, and per record.
    before: i64,
    record: i64,
    lost: i64,
    after: i64,
    /// In ns after `START`.
    phase: f64,
    ppm: f64,
    look_ahead: bool,
}

struct Outcome {
    gap: Option<u64>,
    spurious: bool,
    metric: Empirical,
    resumed: i64,
}

impl Case {
    fn period(&self) -> f64 {
        1e9 / f64::from(self.rate)
    }

    fn truth(&self, sample: i64) -> f64 {
        self.phase + sample as f64 * self.period() / (1.0 + self.ppm * 1e-6)
    }

    fn stamp(&self, sample: i64) -> Stamp {
        // Against float rounding.
        let units = ((self.truth(sample) + 1e-3) / self.resolution_ns as f64).floor();
        Stamp::new(
            Fixed::from_int(START + units as i64 * self.resolution_ns),
            Fixed::from_int(self.resolution_ns),
        )
    }

    /// First sample, length, and whether the gap precedes it.
    fn records(&self) -> Vec<(i64, i64, bool)> {
        let cut = |from: i64, to: i64| {
            (from..to)
                .step_by(self.record as usize)
                .map(move |at| (at, self.record.min(to - at)))
        };
        let resumed = self.before + self.lost;
        let first = cut(0, self.before).map(|(at, n)| (at, n, false));
        let second = cut(resumed, resumed + self.after).map(|(at, n)| (at, n, at == resumed));
        first.chain(second).collect()
    }

    fn import(&self) -> Outcome {
        let config = ClockConfig::new(Rate::from_hz(self.rate.into()).unwrap());
        let mut clock = Clock::new(config, RunId(0)).unwrap();
        let records = self.records();
        let (mut end, mut gap, mut spurious, mut resumed) = (0, None, false, 0);
        for (k, &(at, samples, behind_gap)) in records.iter().enumerate() {
            let stamp = self.stamp(at);
            let next = records.get(k + 1).filter(|_| self.look_ahead);
            let next = next.map(|next| self.stamp(next.0));
            let count = samples.unsigned_abs();
            let placement = clock.place(&stamp, count, next.as_ref()).unwrap();
            match placement {
                Placement::Gap { samples, .. } => {
                    end += samples.unwrap().cast_signed();
                    if behind_gap {
                        gap = samples;
                    } else {
                        spurious = true;
                    }
                }
                Placement::First | Placement::Contiguous => {}
                _ => {
                    spurious = true;
                    break;
                }
            }
            if behind_gap {
                resumed = end;
            }
            clock.accept(end, &stamp, count, &placement).unwrap();
            end += samples;
        }
        let mut pieces = clock.pieces().unwrap();
        pieces.last_mut().unwrap().end = Some(end);
        Outcome {
            gap,
            spurious,
            metric: Empirical::from_pieces(pieces).unwrap(),
            resumed,
        }
    }

    /// Whether stamps show the loss: more than half a sample beyond resolution and crystal tolerance.
    fn tells(&self) -> bool {
        let since = (self.before - (self.before - 1) / self.record * self.record) as f64;
        let slack = 0.5 * self.period()
            + self.resolution_ns as f64
            + CRYSTAL * (since + self.lost as f64) * self.period();
        self.resolution_ns as f64 <= self.period() && self.lost as f64 * self.period() > slack
    }

    /// Largest distance from the truth beyond the uncertainty, ns.
    fn excess(&self, outcome: &Outcome) -> f64 {
        let parts = [
            (0, self.before, 0),
            (outcome.resumed, self.after, self.before + self.lost),
        ];
        let mut worst = f64::NEG_INFINITY;
        for (index, samples, sample) in parts {
            for step in 0..=8 {
                let k = step * (samples - 1) / 8;
                let at = outcome.metric.time_of(index + k).unwrap().value;
                let at = at.checked_sub(Fixed::from_int(START)).unwrap().to_f64();
                let off = (at - self.truth(sample + k)).abs();
                worst = worst.max(off - outcome.metric.uncertainty_ns(index + k));
            }
        }
        worst
    }
}

fn grid(lost: i64, ppm: f64) -> impl Iterator<Item = Case> {
    const RATES: [u32; 9] = [1, 10, 100, 200, 500, 1000, 2000, 5000, 10_000];
    const RESOLUTIONS: [i64; 4] = [1, 1000, 100_000, 1_000_000];
    const BEFORE: [i64; 6] = [5, 20, 100, 500, 1000, 5000];
    let settings = RATES
        .into_iter()
        .flat_map(|rate| RESOLUTIONS.map(|resolution| (rate, resolution)));
    settings.flat_map(move |(rate, resolution_ns)| {
        BEFORE.into_iter().flat_map(move |before| {
            let mut cases = Vec::new();
            for record in [before, before / 3, before / 20 + 1] {
                for after in [5, 100] {
                    for phase in [0.0, 0.31, 0.77] {
                        for look_ahead in [false, true] {
                            cases.push(Case {
                                rate,
                                resolution_ns,
                                before,
                                record: record.max(1),
                                lost,
                                after,
                                phase: phase * 1e9 / f64::from(rate),
                                ppm,
                                look_ahead,
                            });
                        }
                    }
                }
            }
            cases
        })
    })
}

#[test]
fn a_gap_of_one_to_three_samples_is_found_wherever_the_stamps_tell_it() {
    let (mut missed, mut told) = (Vec::new(), 0);
    for lost in 1..=3 {
        for case in grid(lost, 0.0) {
            if !case.tells() {
                continue;
            }
            told += 1;
            let outcome = case.import();
            // Rounding moves all stamps alike: differences are exact.
            if outcome.gap != Some(lost.unsigned_abs()) || outcome.spurious {
                missed.push((outcome.gap, case));
            }
        }
    }
    let first = missed.first();
    assert!(
        missed.is_empty(),
        "{} of {told}, such as {first:?}",
        missed.len()
    );
}

#[test]
fn no_gap_is_found_without_one_for_any_clock_error() {
    let (mut bad, mut total) = (Vec::new(), 0);
    for ppm in [0.0, 20.0, -40.0, 100.0, -100.0] {
        for case in grid(0, ppm) {
            total += 1;
            let outcome = case.import();
            if outcome.gap.is_some() || outcome.spurious {
                bad.push((outcome.gap, case));
            }
        }
    }
    let first = bad.first();
    assert!(
        bad.is_empty(),
        "{} of {total}, such as {first:?}",
        bad.len()
    );
}

#[test]
fn the_truth_lies_within_the_stated_uncertainty_also_where_stamps_cannot_tell() {
    let (mut bad, mut total) = (Vec::new(), 0);
    for ppm in [0.0, 20.0, -100.0] {
        for lost in 0..=3 {
            for case in grid(lost, ppm) {
                total += 1;
                let outcome = case.import();
                let excess = case.excess(&outcome);
                if excess > 1.0 {
                    bad.push((excess / case.period(), outcome.gap, case));
                }
            }
        }
    }
    let first = bad.first();
    assert!(
        bad.is_empty(),
        "{} of {total} outside, such as {first:?}",
        bad.len()
    );
}

#[derive(Clone, Debug)]
struct Losses {
    rate: u32,
    /// Samples per record, and lost ones before it.
    records: Vec<(i64, i64)>,
    look_ahead: bool,
}

impl Losses {
    fn random(dice: &mut impl FnMut(u64) -> u64) -> Self {
        const RATES: [u32; 5] = [10, 100, 500, 2000, 10_000];
        let count = 2 + dice(6);
        let records = (0..count).map(|k| {
            let most = [20, 200, 1500][dice(3) as usize];
            let samples = 5 + dice(most);
            let lost = match k {
                0 => 0,
                _ => [0, 1, 2, 3, 50][dice(5) as usize],
            };
            (samples.cast_signed(), lost)
        });
        Self {
            records: records.collect(),
            rate: RATES[dice(5) as usize],
            look_ahead: dice(4) > 0,
        }
    }

    fn found(&self) -> Vec<i64> {
        let config = ClockConfig::new(Rate::from_hz(self.rate.into()).unwrap());
        let mut clock = Clock::new(config, RunId(0)).unwrap();
        let stamp = |sample: i64| {
            let ns = i128::from(sample) * 1_000_000_000 / i128::from(self.rate);
            let civil = Fixed::from_int(START + i64::try_from(ns).unwrap());
            Stamp::new(civil, Fixed::from_int(1))
        };
        let mut at = 0;
        let starts: Vec<i64> = (self.records.iter())
            .map(|(samples, lost)| {
                at += samples + lost;
                at - samples
            })
            .collect();
        let (mut end, mut found) = (0, Vec::new());
        for (k, (samples, _)) in self.records.iter().enumerate() {
            let next = starts.get(k + 1).filter(|_| self.look_ahead);
            let next = next.map(|next| stamp(*next));
            let count = samples.unsigned_abs();
            let own = stamp(starts[k]);
            let placement = clock.place(&own, count, next.as_ref()).unwrap();
            let gap = match placement {
                Placement::Gap { samples, .. } => samples.unwrap().cast_signed(),
                Placement::First | Placement::Contiguous => 0,
                _ => -1,
            };
            found.push(gap);
            end += gap.max(0);
            clock.accept(end, &own, count, &placement).unwrap();
            end += samples;
        }
        found
    }
}

#[test]
fn several_gaps_are_found_also_where_a_wrong_rate_would_explain_them() {
    let proportional = Losses {
        rate: 2000,
        records: vec![(1211, 0), (325, 50), (232, 2), (140, 2), (1092, 1)],
        look_ahead: true,
    };
    let mut state = 20_261_124_u64;
    let mut dice = move |below: u64| {
        // xorshift64.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let random = (0..20_000).map(|_| Losses::random(&mut dice));
    let (mut missed, mut total) = (Vec::new(), 0);
    for case in std::iter::once(proportional).chain(random) {
        total += 1;
        let lost: Vec<i64> = case.records.iter().map(|(_, lost)| *lost).collect();
        let found = case.found();
        if found != lost {
            missed.push((found, case));
        }
    }
    let first = missed.first();
    assert!(
        missed.is_empty(),
        "{} of {total}, such as {first:?}",
        missed.len()
    );
}
