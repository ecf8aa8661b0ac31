//! Combines results of aligned ranges of a stream in one order, for any cuts.
//!
//! A node covers `2^level` leaves and begins at a multiple of that. Two neighbours combine if the first begins at a
//! multiple of the next level's size, so the stream alone decides.

/// As few nodes as possible: their number grows with the logarithm of the range.
#[derive(Debug, Clone)]
pub(crate) struct Tree<N> {
    nodes: Vec<Node<N>>,
}

#[derive(Debug, Clone)]
struct Node<N> {
    start: u64,
    level: u32,
    value: N,
}

/// No tree has more nodes: two per level on each of its slopes.
pub(crate) const MOST_NODES: usize = 4 * 64;

impl<N: Copy> Tree<N> {
    pub(crate) fn new() -> Self {
        // Enough for 2^30 leaves.
        Self {
            nodes: Vec::with_capacity(64),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
    }

    /// Only now combines those before: the last two may be the root's halves, which BLAKE3 combines differently.
    pub(crate) fn push(&mut self, start: u64, level: u32, value: N, combine: impl Fn(&N, &N) -> N) {
        while let [.., left, right] = &self.nodes[..]
            && left.level == right.level
            && left.start.trailing_zeros() > left.level
            && left.start + (1 << left.level) == right.start
        {
            let node = Node {
                start: left.start,
                level: left.level + 1,
                value: combine(&left.value, &right.value),
            };
            self.nodes.truncate(self.nodes.len() - 2);
            self.nodes.push(node);
        }
        self.nodes.push(Node {
            start,
            level,
            value,
        });
    }

    pub(crate) fn append(&mut self, later: &Self, combine: impl Fn(&N, &N) -> N) {
        for node in &later.nodes {
            self.push(node.start, node.level, node.value, &combine);
        }
    }

    /// Combines from the right, the last step by `root`. A single node is returned as it is.
    pub(crate) fn fold<R>(
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
            let mut tree = Tree::new();
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
        let mut tree = Tree::new();
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

    #[test]
    fn appended_parts_fold_in_the_order_of_single_leaves() {
        // Brackets show the order.
        let bracket = |tree: &[(u64, u64)]| {
            let mut parts: Vec<Tree<u64>> = vec![];
            // Not associative: another order gives another number.
            let mix = |a: &u64, b: &u64| {
                a.wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(b.rotate_left(17))
            };
            for &(from, to) in tree {
                let mut part = Tree::new();
                for leaf in from..to {
                    part.push(leaf, 0, leaf * leaf + 7, mix);
                }
                parts.push(part);
            }
            let mut all = Tree::new();
            for part in &parts {
                all.append(part, mix);
            }
            all.fold(mix, mix, |n| *n)
        };
        let whole = bracket(&[(0, 77)]);
        assert_eq!(bracket(&[(0, 1), (1, 30), (30, 31), (31, 77)]), whole);
        assert_eq!(bracket(&[(0, 64), (64, 65), (65, 77)]), whole);
        assert_eq!(bracket(&[(0, 63), (63, 64), (64, 76), (76, 77)]), whole);
        assert_ne!(bracket(&[(0, 76)]), whole);
    }
}
