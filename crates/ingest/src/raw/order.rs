//! The order of recording, from stamps of clocks that may step back.
//!
//! If a clock steps back by more than a file, sorting by stamp interleaves recordings with those before the step.
//! Therefore they form *chains*: a recording continues the chain at whose end its stamp lies; else it begins a chain if
//! it overlaps the latest, or continues the latest after a gap. Chains are ordered by their beginnings.
//!
//! After a step back, a clock continues past the point of the step. So a chain that ends before an earlier one
//! *overlaps* instead: files from elsewhere. Such chains come last, so that the longer recording stays whole. This
//! determines the order only; the clock decides the meaning of each stamp.

use std::cmp::Reverse;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start_ns: i64,
    pub(crate) resolution_ns: i64,
    pub(crate) duration_ns: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OrderedSpan {
    pub(crate) member: usize,
    /// Whether it lies within the time of a longer chain.
    pub(crate) overlaps: bool,
}

/// More than real folders have.
const MAX_OPEN_CHAINS: usize = 64;

struct Chain {
    end_ns: i64,
    /// How far from the end a stamp may continue the chain.
    slack_ns: i64,
    members: Vec<usize>,
}

pub(crate) fn recording_order(spans: impl IntoIterator<Item = Span>) -> Vec<OrderedSpan> {
    let mut chains: Vec<Chain> = Vec::new();
    // Chains that may be continued; the last one ends latest.
    let mut alive: Vec<usize> = Vec::new();
    for (member, span) in spans.into_iter().enumerate() {
        let start = span.start_ns;
        let distance = |chain: usize| start.abs_diff(chains[chain].end_ns);
        let meets = |chain: &&usize| {
            distance(**chain)
                <= chains[**chain]
                    .slack_ns
                    .saturating_add(span.resolution_ns)
                    .unsigned_abs()
        };
        let met = alive
            .iter()
            .filter(meets)
            // A single file must not divert a recording.
            .min_by_key(|chain| (Reverse(chains[**chain].members.len()), distance(**chain)))
            .copied();
        let latest = alive.last().copied();
        let chain = met
            .or_else(|| latest.filter(|chain| start >= chains[*chain].end_ns))
            .unwrap_or_else(|| {
                chains.push(Chain {
                    end_ns: 0,
                    slack_ns: 0,
                    members: Vec::new(),
                });
                chains.len() - 1
            });
        let continued = &mut chains[chain];
        continued.members.push(member);
        continued.end_ns = start.saturating_add(span.duration_ns);
        // Drift is far below a hundredth; a longer pause is a gap.
        continued.slack_ns = span.resolution_ns.saturating_add(span.duration_ns / 100);
        alive.retain(|other| *other != chain);
        alive.push(chain);
        alive.sort_by_key(|chain| chains[*chain].end_ns);
        let dead = |chain: &Chain| {
            chain
                .end_ns
                .saturating_add(chain.slack_ns)
                .saturating_add(span.resolution_ns)
                < start
        };
        let latest = alive.last().copied();
        alive.retain(|chain| Some(*chain) == latest || !dead(&chains[*chain]));
        if alive.len() > MAX_OPEN_CHAINS {
            alive.remove(0);
        }
    }
    let mut latest = i64::MIN;
    let (mut recorded, mut beside) = (Vec::new(), Vec::new());
    for chain in chains {
        let overlaps = chain.end_ns.saturating_add(chain.slack_ns) < latest;
        let ordered = |member| OrderedSpan { member, overlaps };
        let place = if overlaps {
            &mut beside
        } else {
            latest = latest.max(chain.end_ns);
            &mut recorded
        };
        place.extend(chain.members.into_iter().map(ordered));
    }
    recorded.append(&mut beside);
    recorded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn order(starts: &[i64], duration: i64) -> Vec<i64> {
        let span = |start: &i64| Span {
            start_ns: start * SECOND,
            resolution_ns: SECOND,
            duration_ns: duration * SECOND,
        };
        recording_order(starts.iter().map(span))
            .into_iter()
            .map(|ordered| starts[ordered.member])
            .collect()
    }

    fn overlapping(starts: &[i64], duration: i64) -> Vec<i64> {
        let spans = starts.iter().map(|start| Span {
            start_ns: start * SECOND,
            resolution_ns: 1,
            duration_ns: duration * SECOND,
        });
        let ordered = recording_order(spans).into_iter();
        ordered
            .filter(|ordered| ordered.overlaps)
            .map(|ordered| starts[ordered.member])
            .collect()
    }

    #[test]
    fn a_recording_within_the_time_of_a_longer_one_overlaps_it() {
        assert_eq!(overlapping(&[0, 30, 45, 60, 90, 120], 30), [45]);
        assert_eq!(overlapping(&[0, 30, 40, 60, 70, 90, 120], 30), [40, 70]);
        assert_eq!(overlapping(&[0, 30, 60, 60, 90, 120], 30), [60]);
    }

    #[test]
    fn a_clock_that_continues_after_its_step_is_no_overlap() {
        assert_eq!(overlapping(&[0, 30, 60, 75, 90, 105, 135, 300], 30), [0; 0]);
        assert_eq!(overlapping(&[0, 30, 60, 80, 110], 30), [0; 0]);
        // Copies end where their originals do.
        assert_eq!(overlapping(&[0, 0, 30, 30, 60, 60], 30), [0; 0]);
    }

    #[test]
    fn recordings_without_steps_stay_sorted() {
        assert_eq!(order(&[0, 30, 61, 500, 530], 30), [0, 30, 61, 500, 530]);
        assert_eq!(order(&[], 30), [0; 0]);
    }

    #[test]
    fn recordings_after_a_long_backward_step_follow_those_before_it() {
        // True order 0 30 60 90 | 75 105 135, then a gap and 300.
        assert_eq!(
            order(&[0, 30, 60, 75, 90, 105, 135, 300], 30),
            [0, 30, 60, 90, 75, 105, 135, 300]
        );
    }

    #[test]
    fn a_short_backward_step_keeps_the_sorted_order() {
        assert_eq!(order(&[0, 30, 60, 80, 110], 30), [0, 30, 60, 80, 110]);
    }

    #[test]
    fn two_copies_of_a_recording_are_adjacent() {
        assert_eq!(order(&[0, 0, 30, 30, 60, 60], 30), [0, 30, 60, 0, 30, 60]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Recordings of 30 s without gaps, whose clock steps back by 33 to 45 s.
        #[test]
        fn the_order_of_recording_is_restored(parts in prop::collection::vec((5_usize..20, 33_i64..45), 1..6)) {
            let (mut truth, mut clock) = (Vec::new(), 0);
            for (files, step) in parts {
                for _ in 0..files {
                    truth.push(clock);
                    clock += 30;
                }
                clock -= step;
            }
            let mut sorted = truth.clone();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assume!(sorted.len() == truth.len());
            prop_assert_eq!(order(&sorted, 30), truth);
        }

        #[test]
        fn every_recording_occurs_once_in_the_order(mut starts in prop::collection::vec(0_i64..300, 0..200), duration in 1_i64..60) {
            starts.sort_unstable();
            let mut got = order(&starts, duration);
            got.sort_unstable();
            prop_assert_eq!(got, starts);
        }
    }
}
