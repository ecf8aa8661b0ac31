//! Service rate as throughput over busy share.

use super::period::MOSTLY_BUSY;
use super::stats::RunningStats;
use super::{Estimate, PeriodSample};

/// Samples per block, for batches and change detection.
const BLOCK: u64 = 64;
/// Batches kept; when full, neighbours merge.
const BATCHES: usize = 32;
/// Largest share of unblocked pairs with items in both periods. The period search is stricter.
const RESOLVED: f64 = 0.1;
/// Largest relative difference of quadratic from linear extrapolation.
const MAX_CURVATURE: f64 = 0.05;
/// Below it, short busy spells between samples bias the rate upward.
const MIN_UTILIZATION: f64 = 0.4;
const MIN_PAIRS: u64 = 32;

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    items: f64,
    elapsed_s: f64,
    unblocked_s: f64,
    pairs_s: f64,
    unblocked_pairs_s: f64,
    triples_s: f64,
    unblocked_triples_s: f64,
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
        self.triples_s += other.triples_s;
        self.unblocked_triples_s += other.unblocked_triples_s;
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
            triples_s: self.triples_s - other.triples_s,
            unblocked_triples_s: self.unblocked_triples_s - other.unblocked_triples_s,
            unblocked_pairs: self.unblocked_pairs - other.unblocked_pairs,
            pairs_with_both: self.pairs_with_both - other.pairs_with_both,
        }
    }

    fn unblocked_share(&self) -> f64 {
        self.unblocked_s / self.elapsed_s
    }

    /// Busy share: unblocked shares of one and two periods, extrapolated to zero.
    fn utilization(&self) -> f64 {
        let one = self.unblocked_share();
        let two = if self.pairs_s > 0.0 {
            self.unblocked_pairs_s / self.pairs_s
        } else {
            one
        };
        (2.0 * one - two).clamp(0.0, 1.0)
    }

    /// Difference of a parabola through one, two and three periods. The line is exact while three periods fit into
    /// every busy spell.
    fn curvature(&self) -> f64 {
        let one = self.unblocked_share();
        let two = self.unblocked_pairs_s / self.pairs_s;
        let three = self.unblocked_triples_s / self.triples_s;
        (one - 2.0 * two + three).abs() / self.utilization()
    }

    fn busy_s(&self) -> f64 {
        self.utilization() * self.elapsed_s
    }

    fn rate(&self) -> f64 {
        self.items / self.busy_s()
    }

    /// Logarithm of the rate, from at least half an item and half a period; None without work.
    fn logarithm(&self) -> Option<f64> {
        let half_period = self.elapsed_s / BLOCK as f64 / 2.0;
        let busy_s = self.busy_s();
        if self.items < 0.5 && busy_s < 8.0 * half_period {
            return None;
        }
        Some((self.items.max(0.5) / busy_s.max(half_period)).ln())
    }
}

#[derive(Debug, Clone, Copy)]
struct Previous {
    elapsed_s: f64,
    unblocked: bool,
    had_items: bool,
}

#[derive(Debug, Clone)]
pub(super) struct UtilizationLaw {
    relative_error: f64,
    batches: [Sums; BATCHES],
    filled: usize,
    blocks_per_batch: u64,
    blocks_in_batch: u64,
    block: Sums,
    samples_in_block: u64,
    samples: u64,
    previous: [Option<Previous>; 2],
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
            previous: [None; 2],
            logarithms: RunningStats::default(),
            estimate: Estimate::Pending,
        }
    }

    pub(super) fn logarithms(&self) -> &RunningStats {
        &self.logarithms
    }

    pub(super) fn estimate(&self) -> Estimate {
        self.estimate
    }

    /// Returns the logarithm of the rate of a completed block.
    pub(super) fn push(&mut self, sample: &PeriodSample, blocked: bool) -> Option<f64> {
        self.samples += 1;
        let block = &mut self.block;
        block.items += sample.items as f64;
        block.elapsed_s += sample.elapsed_s;
        if !blocked {
            block.unblocked_s += sample.elapsed_s;
        }
        if let Some(last) = self.previous[0] {
            let pair_s = last.elapsed_s + sample.elapsed_s;
            let unblocked = last.unblocked && !blocked;
            block.pairs_s += pair_s;
            if unblocked {
                block.unblocked_pairs_s += pair_s;
                block.unblocked_pairs += 1;
                block.pairs_with_both += u64::from(last.had_items && sample.items > 0);
            }
            if let Some(first) = self.previous[1] {
                let triple_s = first.elapsed_s + pair_s;
                block.triples_s += triple_s;
                if unblocked && first.unblocked {
                    block.unblocked_triples_s += triple_s;
                }
            }
        }
        let newest = Previous {
            elapsed_s: sample.elapsed_s,
            unblocked: !blocked,
            had_items: sample.items > 0,
        };
        self.previous = [Some(newest), self.previous[0]];
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
        // Jackknife: leaves out one batch each.
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
            let pairs = total.unblocked_pairs;
            let resolved = total.pairs_with_both as f64 <= RESOLVED * pairs as f64;
            if pairs < MIN_PAIRS || !resolved || total.curvature() > MAX_CURVATURE {
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
