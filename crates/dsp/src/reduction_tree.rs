//! Combines results of numbered leaves in one order, however the sequence of leaves is cut into parts.
//!
//! A node covers `2^level` leaves and begins at a multiple of that. Two halves of a node combine; a half whose other half
//! has no leaves becomes the node unchanged. Which leaves exist decides the order, not the parts in which they came.

use serde::{Deserialize, Serialize};

/// As few nodes as possible: their number grows with the logarithm of the range, also if leaves are missing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReductionTree<N> {
    nodes: Vec<Node<N>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Node<N> {
    /// First leaf that it covers, present or not.
    start: u64,
    level: u32,
    value: N,
}

impl<N> Node<N> {
    /// Number of the node above among those of its level; its own level is below 63.
    fn parent(&self) -> u64 {
        self.start >> (self.level + 1)
    }
}

/// No tree has more nodes: two per level on each of its slopes.
pub const MAX_NODES: usize = 4 * 64;

impl<N> Default for ReductionTree<N> {
    fn default() -> Self {
        Self { nodes: Vec::new() }
    }
}

impl<N: Copy> ReductionTree<N> {
    /// Without leaves, with room for 2^30.
    #[must_use]
    pub fn new() -> Self {
        Self {
            nodes: Vec::with_capacity(64),
        }
    }

    /// Whether it has no leaves.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Bytes of its nodes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<N>>()
    }

    /// Removes all leaves.
    pub fn clear(&mut self) {
        self.nodes.clear();
    }

    /// Appends a node of `2^level` leaves from `start`, a multiple of that, behind all others: a leaf has level 0.
    ///
    /// Only now combines what ends before: the last two nodes may be the root's halves, which BLAKE3 combines differently.
    pub fn push(&mut self, start: u64, level: u32, value: N, combine: impl Fn(&N, &N) -> N) {
        let first = self.nodes.first().map_or(start, |first| first.start);
        while let Some((last, before)) = self.nodes.split_last_mut()
            && last.level < 63
            && last.parent() != start >> (last.level + 1)
        {
            let parent_start = last.parent() << (last.level + 1);
            match before.last_mut() {
                Some(left) if left.level == last.level && left.start == parent_start => {
                    left.value = combine(&left.value, &last.value);
                    left.level += 1;
                    self.nodes.pop();
                }
                // The other half has no leaves.
                _ if parent_start >= first => {
                    last.start = parent_start;
                    last.level += 1;
                }
                // A part before may have the other half.
                _ => break,
            }
        }
        self.nodes.push(Node {
            start,
            level,
            value,
        });
    }

    /// Appends the leaves of a later part.
    pub fn append(&mut self, later: &Self, combine: impl Fn(&N, &N) -> N) {
        for node in &later.nodes {
            self.push(node.start, node.level, node.value, &combine);
        }
    }

    /// Combines from the right, the last step by `root`. A single node is returned as it is.
    #[must_use]
    pub fn fold<R>(
        &self,
        combine: impl Fn(&N, &N) -> N,
        root: impl Fn(&N, &N) -> R,
        alone: impl Fn(&N) -> R,
    ) -> Option<R> {
        let (last, rest) = self.nodes.split_last()?;
        let Some((first, rest)) = rest.split_first() else {
            return Some(alone(&last.value));
        };
        let right = rest
            .iter()
            .rev()
            .fold(last.value, |right, left| combine(&left.value, &right));
        Some(root(&first.value, &right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(left: &(u64, u64), right: &(u64, u64)) -> (u64, u64) {
        assert_eq!(left.1, right.0, "{left:?} {right:?} are no neighbours");
        (left.0, right.1)
    }

    #[test]
    fn what_covers_many_leaves_holds_few_nodes() {
        for first in [0, 1, 12_345] {
            let mut tree = ReductionTree::new();
            for leaf in first..first + 100_000 {
                tree.push(leaf, 0, (leaf, leaf + 1), join);
                assert!(tree.nodes.len() <= 2 * 18, "{}", tree.nodes.len());
            }
            let all = tree.fold(join, join, |n| *n);
            assert_eq!(all, Some((first, first + 100_000)));
        }
    }

    #[test]
    fn only_nodes_that_a_binary_tree_has_are_combined() {
        let mut tree = ReductionTree::new();
        for leaf in 3..20u64 {
            tree.push(leaf, 0, (leaf, leaf + 1), |left, right| {
                let node = join(left, right);
                let length = node.1 - node.0;
                assert!(
                    length.is_power_of_two() && node.0.is_multiple_of(length),
                    "{node:?}"
                );
                node
            });
        }
    }

    /// Not associative: another order gives another number.
    fn mix(a: &u64, b: &u64) -> u64 {
        a.wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(b.rotate_left(17))
    }

    fn tree_of(leaves: &[u64]) -> ReductionTree<u64> {
        let mut tree = ReductionTree::new();
        for &leaf in leaves {
            tree.push(leaf, 0, leaf * leaf + 7, mix);
        }
        tree
    }

    fn total(tree: &ReductionTree<u64>) -> Option<u64> {
        tree.fold(mix, mix, |n| *n)
    }

    #[test]
    fn appended_parts_fold_in_the_order_of_single_leaves() {
        let leaves: Vec<u64> = (0..77).collect();
        let of_parts = |parts: &[(usize, usize)]| {
            let mut all = ReductionTree::new();
            for &(from, to) in parts {
                all.append(&tree_of(&leaves[from..to]), mix);
            }
            total(&all)
        };
        let whole = total(&tree_of(&leaves));
        assert_eq!(of_parts(&[(0, 1), (1, 30), (30, 31), (31, 77)]), whole);
        assert_eq!(of_parts(&[(0, 64), (64, 65), (65, 77)]), whole);
        assert_eq!(of_parts(&[(0, 63), (63, 64), (64, 76), (76, 77)]), whole);
        assert_ne!(of_parts(&[(0, 76)]), whole);
    }

    /// What all leaves before `end` come to, by the definition: halves first, left to right.
    fn by_halves(leaves: &[u64], start: u64, level: u32) -> Option<u64> {
        if level == 0 {
            return leaves.contains(&start).then(|| start * start + 7);
        }
        let left = by_halves(leaves, start, level - 1);
        let right = by_halves(leaves, start + (1 << (level - 1)), level - 1);
        match (left, right) {
            (Some(left), Some(right)) => Some(mix(&left, &right)),
            (one, None) | (None, one) => one,
        }
    }

    #[test]
    fn a_tree_from_leaf_0_has_the_order_of_halves_where_leaves_are_missing() {
        // What follows ends the first 64 leaves.
        let leaves = [0, 1, 2, 5, 6, 11, 20, 21, 23, 24, 40, 63, 64];
        let tree = tree_of(&leaves);
        assert_eq!(tree.nodes.len(), 2);
        assert_eq!(Some(tree.nodes[0].value), by_halves(&leaves, 0, 6));
    }

    proptest::proptest! {
        #[test]
        fn neither_missing_leaves_nor_cuts_matter(
            steps in proptest::collection::vec(1u64..9, 1..200),
            cuts in proptest::collection::vec(0usize..200, 0..8),
            first in 0u64..100,
        ) {
            let leaves: Vec<u64> = steps
                .iter()
                .scan(first, |at, step| { *at += step; Some(*at) })
                .collect();
            let whole = tree_of(&leaves);
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % leaves.len()).collect();
            ends.push(leaves.len());
            ends.sort_unstable();
            // Parts append in any grouping.
            let mut all = ReductionTree::new();
            let mut pair = ReductionTree::new();
            let mut from = 0;
            for (k, &to) in ends.iter().enumerate() {
                pair.append(&tree_of(&leaves[from..to]), mix);
                if k % 2 == 1 || to == leaves.len() {
                    all.append(&pair, mix);
                    pair.clear();
                }
                from = to;
            }
            proptest::prop_assert_eq!(total(&all), total(&whole));
            proptest::prop_assert!(whole.nodes.len() <= 2 * 12, "{}", whole.nodes.len());
        }
    }
}
