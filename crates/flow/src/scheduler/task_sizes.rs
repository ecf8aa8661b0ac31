//! [`TaskSize`], and [`TaskSizes`]: how much each task of a subgraph takes, which tuning may change while the plan runs.
//!
//! A task has parts, computed one by one. Where cuts change bits, a part is a cell, whose length never changes, and a
//! task has a whole number of them; else a part is a portion of any length, and a task has one.

use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskSize {
    /// Of a part, at the start.
    pub(super) samples: u64,
    /// Expected of its result.
    pub(super) bytes: u64,
    /// Limits of the samples of a task, for tuning.
    pub(super) least: u64,
    pub(super) most: u64,
    /// Parts are cells.
    pub(super) is_cell: bool,
    /// Bytes read per sample.
    pub(super) read_bytes: u64,
}

impl TaskSize {
    /// Not cut any further.
    pub(super) fn fixed(samples: u64) -> Self {
        Self {
            samples,
            bytes: 0,
            least: samples,
            most: samples,
            is_cell: true,
            read_bytes: 1,
        }
    }
}

#[derive(Debug)]
pub(super) struct TaskSizes {
    size: TaskSize,
    state: Mutex<State>,
    /// For tests: the seed of a random size for each task.
    shuffle: Option<u64>,
}

#[derive(Debug)]
struct State {
    factor: f64,
    /// Number of the first part of each size, and the size: the scheduler and what reads ahead ask in turn, and must be
    /// told the same.
    lengths: Vec<(u64, u64)>,
    /// No part from here on has a length yet.
    next: u64,
}

/// Cells of a task with a random size.
const MAX_SHUFFLED_CELLS: u64 = 6;

impl TaskSizes {
    pub(super) fn new(size: TaskSize, shuffle: Option<u64>) -> Self {
        let state = State {
            factor: 1.0,
            lengths: vec![(0, size.samples)],
            next: 0,
        };
        Self {
            size,
            state: Mutex::new(state),
            shuffle,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn size(&self) -> TaskSize {
        self.size
    }

    /// Of the next tasks, relative to the size at the start. Sizes stay within their limits.
    pub(super) fn set_factor(&self, factor: f64) {
        let mut state = self.lock();
        state.factor = factor;
        if self.size.is_cell {
            return;
        }
        let next = state.next;
        state.lengths.retain(|&(first, _)| first < next);
        let samples = self.samples_of(factor);
        state.lengths.push((next, samples));
    }

    fn samples_of(&self, factor: f64) -> u64 {
        let samples = (self.size.samples as f64 * factor).round() as u64;
        samples.clamp(self.size.least, self.size.most)
    }

    /// Of the part with this number.
    pub(super) fn samples(&self, number: u64) -> u64 {
        if let Some(seed) = self.shuffle.filter(|_| !self.size.is_cell) {
            // As many short as long ones.
            let exponent = (random(seed, number) % 1024) as f64 / 1024.0;
            let range = self.size.most as f64 / self.size.least as f64;
            return (self.size.least as f64 * range.powf(exponent)) as u64;
        }
        let mut state = self.lock();
        state.next = state.next.max(number + 1);
        let known = state.lengths.iter().rev();
        let mut known = known.filter(|&&(first, _)| first <= number);
        known
            .next()
            .map_or(self.size.samples, |&(_, samples)| samples)
    }

    /// Number of parts of a task whose first part has this number.
    pub(super) fn portions(&self, number: u64) -> usize {
        if !self.size.is_cell {
            return 1;
        }
        if let Some(seed) = self.shuffle {
            return 1 + (random(seed, number) % MAX_SHUFFLED_CELLS) as usize;
        }
        let factor = self.lock().factor;
        (self.samples_of(factor) / self.size.samples.max(1)).max(1) as usize
    }

    /// Expected of a part's result.
    pub(super) fn bytes(&self) -> u64 {
        if self.size.is_cell {
            return self.size.bytes;
        }
        let factor = self.lock().factor;
        let share = self.samples_of(factor) as f64 / self.size.samples.max(1) as f64;
        (self.size.bytes as f64 * share) as u64
    }
}

/// SplitMix64.
pub(super) fn random(seed: u64, number: u64) -> u64 {
    let mut state = (seed ^ number).wrapping_add(0x9E37_79B9_7F4A_7C15);
    state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(is_cell: bool) -> TaskSizes {
        let size = TaskSize {
            samples: 100,
            bytes: 1000,
            least: 20,
            most: 450,
            is_cell,
            read_bytes: 2,
        };
        TaskSizes::new(size, None)
    }

    #[test]
    fn a_part_keeps_the_length_that_was_told_first() {
        let sizes = sizes(false);
        let ahead: Vec<u64> = (0..3).map(|number| sizes.samples(number)).collect();
        assert_eq!(ahead, [100; 3]);
        sizes.set_factor(2.0);
        assert_eq!(sizes.samples(1), 100);
        assert_eq!(sizes.samples(3), 200);
        sizes.set_factor(0.5);
        sizes.set_factor(1.0);
        assert_eq!((sizes.samples(2), sizes.samples(3)), (100, 200));
        assert_eq!(sizes.samples(4), 100);
    }

    #[test]
    fn lengths_stay_within_their_limits_and_results_are_expected_in_proportion() {
        let sizes = sizes(false);
        for (factor, samples, bytes) in [(100.0, 450, 4500), (0.001, 20, 200), (1.0, 100, 1000)] {
            sizes.set_factor(factor);
            assert_eq!(sizes.bytes(), bytes);
            let next = sizes.lock().next;
            assert_eq!(sizes.samples(next), samples);
            assert_eq!(sizes.portions(7), 1);
        }
    }

    #[test]
    fn tasks_of_cells_take_whole_ones() {
        let sizes = sizes(true);
        for (factor, cells) in [(1.0, 1), (2.9, 2), (100.0, 4), (0.1, 1)] {
            sizes.set_factor(factor);
            assert_eq!(sizes.portions(7), cells);
            assert_eq!((sizes.samples(7), sizes.bytes()), (100, 1000));
        }
    }
}
