//! Estimates a service rate as throughput divided by the share of time in which the server is busy.

use super::period::MOSTLY_BUSY;
use super::stats::RunningStats;
use super::{Estimate, PeriodSample};

/// Samples of a block, the unit of batches and of change detection.
const BLOCK: u64 = 64;
/// Batches that are kept; when full, neighbours are merged.
const BATCHES: usize = 32;
/// Largest share of pairs without blocking in which both periods have items. The search for a period is stricter.
const RESOLVED: f64 = 0.1;
/// Least utilisation of an estimate: below, short busy spells between samples make the rate too high.
const MIN_UTILIZATION: f64 = 0.4;
/// Fewest pairs without blocking in an estimate.
const MIN_PAIRS: u64 = 32;

/// Sums over consecutive samples.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    items: f64,
    elapsed_s: f64,
    unblocked_s: f64,
    /// Time of pairs of consecutive samples, and of those in which both are without blocking.
    pairs_s: f64,
    unblocked_pairs_s: f64,
    unblocked_pairs: u64,
    pairs_with_both: u64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.items += other.items;
        self.elapsed_s += other.elapsed_s;
        self.unblocked_s += other.unblocked_s;
        self.pairs_s += other.pairs_s;
        self.unblocked_pairs_s += other.unblocked_pairs_s;
        self.unblocked_pairs += other.unblocked_pairs;
        self.pairs_with_both += other.pairs_with_both;
    }

    fn without(&self, other: &Self) -> Self {
        Self {
            items: self.items - other.items,
            elapsed_s: self.elapsed_s - other.elapsed_s,
            unblocked_s: self.unblocked_s - other.unblocked_s,
            pairs_s: self.pairs_s - other.pairs_s,
            unblocked_pairs_s: self.unblocked_pairs_s - other.unblocked_pairs_s,
            unblocked_pairs: self.unblocked_pairs - other.unblocked_pairs,
            pairs_with_both: self.pairs_with_both - other.pairs_with_both,
        }
    }

    fn unblocked_share(&self) -> f64 {
        self.unblocked_s / self.elapsed_s
    }

    /// Share of time in which the server is busy: the unblocked shares of one and two periods, extrapolated to none.
    fn utilization(&self) -> f64 {
        let one = self.unblocked_share();
        let two = if self.pairs_s > 0.0 {
            self.unblocked_pairs_s / self.pairs_s
        } else {
            one
        };
        (2.0 * one - two).clamp(0.0, 1.0)
    }

    fn busy_s(&self) -> f64 {
        self.utilization() * self.elapsed_s
    }

    fn rate(&self) -> f64 {
        self.items / self.busy_s()
    }

    /// Logarithm of the rate, with half an item and half a period where there is less; none if the server had no work.
    fn logarithm(&self) -> Option<f64> {
        let half_period = self.elapsed_s / BLOCK as f64 / 2.0;
        let busy_s = self.busy_s();
        if self.items < 0.5 && busy_s < 8.0 * half_period {
            return None;
        }
        Some((self.items.max(0.5) / busy_s.max(half_period)).ln())
    }
}

/// Estimator by the utilisation law, with a standard error by the jackknife over batches.
#[derive(Debug, Clone)]
pub(super) struct UtilizationLaw {
    relative_error: f64,
    batches: [Sums; BATCHES],
    filled: usize,
    /// Blocks in a batch, and in the batch that is filled now.
    blocks_per_batch: u64,
    blocks_in_batch: u64,
    block: Sums,
    samples_in_block: u64,
    samples: u64,
    /// Of the last sample: seconds, whether it was without blocking, whether it had items.
    previous: Option<(f64, bool, bool)>,
    logarithms: RunningStats,
    estimate: Estimate,
}

impl UtilizationLaw {
    pub(super) fn new(relative_error: f64) -> Self {
        Self {
            relative_error,
            batches: [Sums::default(); BATCHES],
            filled: 0,
            blocks_per_batch: 1,
            blocks_in_batch: 0,
            block: Sums::default(),
            samples_in_block: 0,
            samples: 0,
            previous: None,
            logarithms: RunningStats::default(),
            estimate: Estimate::Pending,
        }
    }

    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    pub(super) fn logarithms(&self) -> &RunningStats {
        &self.logarithms
    }

    pub(super) fn estimate(&self) -> Estimate {
        self.estimate
    }

    /// Adds a sample; returns the logarithm of the rate of the block that it ends.
    pub(super) fn push(&mut self, sample: &PeriodSample, blocked: bool) -> Option<f64> {
        self.samples += 1;
        let block = &mut self.block;
        block.items += sample.items as f64;
        block.elapsed_s += sample.elapsed_s;
        if !blocked {
            block.unblocked_s += sample.elapsed_s;
        }
        if let Some((elapsed_s, unblocked, had_items)) = self.previous {
            let pair_s = elapsed_s + sample.elapsed_s;
            block.pairs_s += pair_s;
            if unblocked && !blocked {
                block.unblocked_pairs_s += pair_s;
                block.unblocked_pairs += 1;
                block.pairs_with_both += u64::from(had_items && sample.items > 0);
            }
        }
        self.previous = Some((sample.elapsed_s, !blocked, sample.items > 0));
        self.samples_in_block += 1;
        if self.samples_in_block < BLOCK {
            return None;
        }
        let block = std::mem::take(&mut self.block);
        self.samples_in_block = 0;
        self.push_block(&block);
        let logarithm = block.logarithm()?;
        self.logarithms.push(logarithm);
        Some(logarithm)
    }

    fn push_block(&mut self, block: &Sums) {
        if self.blocks_in_batch == 0 && self.filled == BATCHES {
            for i in 0..BATCHES / 2 {
                let mut merged = self.batches[2 * i];
                merged.add(&self.batches[2 * i + 1]);
                self.batches[i] = merged;
            }
            self.filled = BATCHES / 2;
            self.blocks_per_batch *= 2;
        }
        if self.blocks_in_batch == 0 {
            self.batches[self.filled] = Sums::default();
        }
        self.batches[self.filled].add(block);
        self.blocks_in_batch += 1;
        if self.blocks_in_batch == self.blocks_per_batch {
            self.blocks_in_batch = 0;
            self.filled += 1;
            if self.filled >= BATCHES / 2 {
                self.estimate = self.evaluate();
            }
        }
    }

    fn evaluate(&self) -> Estimate {
        let batches = &self.batches[..self.filled];
        let mut total = Sums::default();
        batches.iter().for_each(|batch| total.add(batch));
        let rate = total.rate();
        // The jackknife: the spread of estimates that leave out one batch each.
        let mut left_out = RunningStats::default();
        batches
            .iter()
            .for_each(|batch| left_out.push(total.without(batch).rate()));
        let count = batches.len() as f64;
        let standard_error = left_out.deviation() * (count - 1.0) / count.sqrt();
        if standard_error.is_nan() || standard_error > self.relative_error * rate {
            return Estimate::Pending;
        }
        if total.unblocked_share() < MOSTLY_BUSY {
            let both = total.pairs_with_both as f64;
            if total.unblocked_pairs < MIN_PAIRS || both > RESOLVED * total.unblocked_pairs as f64 {
                return Estimate::PeriodTooLong;
            }
        }
        let utilization = total.utilization();
        if utilization < MIN_UTILIZATION {
            return Estimate::LowUtilization { utilization };
        }
        Estimate::Converged {
            items_per_second: rate,
            standard_error,
            samples: self.samples,
        }
    }
}
