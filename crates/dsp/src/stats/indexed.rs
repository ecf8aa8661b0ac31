//! Statistics of samples with indices, the same bits however their sequence is cut into parts.
//!
//! A leaf is the samples whose indices lie between two multiples of [`LEAF`], in their order; leaves combine by halves
//! ([`ReductionTree`]). So indices decide the order of additions. The samples of a part's first leaf are kept, since
//! earlier ones of that leaf may be in another part.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Accumulator, Statistic, Summary};
use crate::reduction_tree::ReductionTree;

/// Samples per leaf: combining leaves costs little.
pub const LEAF: u64 = 4096;

/// Summary of a part of a sequence of samples that never goes back by a leaf; parts append in their order.
///
/// ```
/// use isochrony_dsp::stats::IndexedSums;
///
/// let samples: Vec<f32> = (0..20_000).map(|k| (k as f32).sin()).collect();
/// let mut whole = IndexedSums::new();
/// whole.push(-5, &samples);
///
/// let (mut first, mut second) = (IndexedSums::new(), IndexedSums::new());
/// first.push(-5, &samples[..777]);
/// second.push(772, &samples[777..]);
/// first.append(&second);
/// assert_eq!(first.summary(), whole.summary());
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct IndexedSums<T: Statistic> {
    /// Earlier samples of the first leaf may be in another part.
    keeps_first_leaf: bool,
    first_leaf: Option<FirstLeaf>,
    tree: ReductionTree<Summary<T::Extreme>>,
    open_leaf: Option<u64>,
    open: Accumulator<T>,
    /// From the first sample to behind the largest index.
    range: Option<Range<i64>>,
}

/// The first leaf.
#[derive(Clone, Serialize, Deserialize)]
struct FirstLeaf {
    leaf: u64,
    /// Of its samples.
    bytes: Vec<u8>,
}

/// Number of an index's leaf, from 0 for the lowest index.
fn leaf_of(index: i64) -> u64 {
    (index as u64 ^ 1 << 63) / LEAF
}

impl<T: Statistic> Default for IndexedSums<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Statistic> IndexedSums<T> {
    /// An empty part. Another one may come before it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            keeps_first_leaf: true,
            first_leaf: None,
            tree: ReductionTree::default(),
            open_leaf: None,
            open: Accumulator::new(),
            range: None,
        }
    }

    /// An empty part. What comes before it, if anything, ends in an earlier leaf or in another sequence.
    #[must_use]
    pub fn from_leaf_start() -> Self {
        Self {
            keeps_first_leaf: false,
            ..Self::new()
        }
    }

    /// Index of the first sample; None without samples.
    #[must_use]
    pub fn start(&self) -> Option<i64> {
        self.range.as_ref().map(|range| range.start)
    }

    /// Index behind the last sample; None without samples.
    #[must_use]
    pub fn end(&self) -> Option<i64> {
        self.range.as_ref().map(|range| range.end)
    }

    /// Whether samples from `start` on may follow: they lie in the last leaf or in a later one.
    #[must_use]
    pub fn continues_at(&self, start: i64) -> bool {
        let first_leaf = self.first_leaf.as_ref().map(|first_leaf| first_leaf.leaf);
        self.open_leaf
            .or(first_leaf)
            .is_none_or(|leaf| leaf_of(start) >= leaf)
    }

    /// Bytes outside of the struct itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let first_leaf = self
            .first_leaf
            .as_ref()
            .map_or(0, |first_leaf| first_leaf.bytes.capacity());
        first_leaf + self.tree.heap_bytes()
    }

    /// Removes all samples.
    pub fn reset(&mut self) {
        self.first_leaf = None;
        self.tree.clear();
        self.open_leaf = None;
        self.open.reset();
        self.range = None;
    }

    /// Adds samples at consecutive indices from `start`, where [`IndexedSums::continues_at`] allows it.
    pub fn push(&mut self, start: i64, mut samples: &[T]) {
        if samples.is_empty() {
            return;
        }
        if self.range.is_none() && self.keeps_first_leaf {
            self.first_leaf = Some(FirstLeaf {
                leaf: leaf_of(start),
                bytes: Vec::new(),
            });
        }
        let mut index = start;
        while !samples.is_empty() {
            let room = LEAF - index.rem_euclid(LEAF as i64) as u64;
            let (now, later) = samples.split_at(samples.len().min(room as usize));
            self.push_to_leaf(leaf_of(index), now);
            index += now.len() as i64;
            samples = later;
        }
        let range = self.range.get_or_insert(start..index);
        range.end = range.end.max(index);
    }

    fn push_to_leaf(&mut self, leaf: u64, samples: &[T]) {
        match &mut self.first_leaf {
            Some(first_leaf) if first_leaf.leaf == leaf => {
                first_leaf
                    .bytes
                    .extend_from_slice(bytemuck::cast_slice(samples));
            }
            _ => {
                if self.open_leaf != Some(leaf) {
                    self.close();
                    self.open_leaf = Some(leaf);
                }
                self.open.push(samples);
            }
        }
    }

    fn close(&mut self) {
        if let Some(leaf) = self.open_leaf.take() {
            self.tree.push(leaf, 0, self.open.finish(), Summary::merge);
            self.open.reset();
        }
    }

    /// Appends the samples of a part, where [`IndexedSums::continues_at`] allows its start.
    pub fn append(&mut self, later: &Self) {
        let (Some(range), Some(next)) = (&mut self.range, &later.range) else {
            if self.range.is_none() {
                *self = Self {
                    keeps_first_leaf: self.keeps_first_leaf,
                    ..later.clone()
                };
            }
            return;
        };
        range.end = range.end.max(next.end);
        if let Some(first_leaf) = &later.first_leaf {
            self.push_to_leaf(
                first_leaf.leaf,
                &bytemuck::pod_collect_to_vec(&first_leaf.bytes),
            );
        }
        if !later.tree.is_empty() || later.open_leaf.is_some() {
            self.close();
            self.tree.append(&later.tree, Summary::merge);
            self.open_leaf = later.open_leaf;
            self.open = later.open.clone();
        }
    }

    /// Summary of all samples.
    #[must_use]
    pub fn summary(&self) -> Summary<T::Extreme> {
        let mut tree = ReductionTree::default();
        if let Some(first_leaf) = &self.first_leaf {
            let mut sums = Accumulator::new();
            sums.push(&bytemuck::pod_collect_to_vec::<u8, T>(&first_leaf.bytes));
            tree.push(first_leaf.leaf, 0, sums.finish(), Summary::merge);
        }
        tree.append(&self.tree, Summary::merge);
        if let Some(leaf) = self.open_leaf {
            tree.push(leaf, 0, self.open.finish(), Summary::merge);
        }
        tree.fold(Summary::merge, Summary::merge, |all| *all)
            .unwrap_or(Summary::EMPTY)
    }
}
