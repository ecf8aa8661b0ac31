//! Two-sided CUSUM over the rates of blocks.

use super::stats::RunningStats;

/// Uncounted drift per block, in deviations.
const ALLOWANCE: f64 = 0.5;
/// Sum that signals a change, in deviations.
const THRESHOLD: f64 = 12.0;
/// Largest step per block, in deviations: one outlier signals no change.
const LARGEST_STEP: f64 = 4.0;
/// Least deviation: smaller changes are useless to a tuner.
const LEAST_DEVIATION: f64 = 0.02;

#[derive(Debug, Clone, Copy)]
pub(super) struct ChangeDetector {
    centre: f64,
    deviation: f64,
    above: f64,
    below: f64,
}

impl ChangeDetector {
    pub(super) fn new(logarithms: &RunningStats) -> Self {
        Self {
            centre: logarithms.mean(),
            deviation: logarithms.deviation().max(LEAST_DEVIATION),
            above: 0.0,
            below: 0.0,
        }
    }

    /// Returns whether the rate has changed.
    pub(super) fn push(&mut self, logarithm: f64) -> bool {
        let step = (logarithm - self.centre) / self.deviation;
        let step = step.clamp(-LARGEST_STEP, LARGEST_STEP);
        self.above = (self.above + step - ALLOWANCE).max(0.0);
        self.below = (self.below - step - ALLOWANCE).max(0.0);
        self.above.max(self.below) > THRESHOLD
    }
}

#[cfg(test)]
mod tests {
    use super::{ChangeDetector, RunningStats};

    fn reference() -> RunningStats {
        let mut stats = RunningStats::default();
        for i in 0..100 {
            stats.push(if i % 2 == 0 { -0.1 } else { 0.1 });
        }
        stats
    }

    #[test]
    fn signals_a_shift_up_or_down_within_blocks_by_hand() {
        for sign in [1.0, -1.0] {
            let mut detector = ChangeDetector::new(&reference());
            // A shift of three deviations adds 2.5 per block and passes 12 at the fifth.
            let signals: Vec<bool> = (0..5).map(|_| detector.push(sign * 0.301_511)).collect();
            assert_eq!(signals, [false, false, false, false, true]);
        }
    }

    #[test]
    fn one_outlier_and_alternation_are_no_change() {
        let mut detector = ChangeDetector::new(&reference());
        assert!(!detector.push(f64::INFINITY));
        for i in 0..1_000 {
            assert!(!detector.push(if i % 2 == 0 { -0.1 } else { 0.1 }));
        }
    }
}
