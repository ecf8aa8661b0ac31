//! Segment tree over integers: range add and range maximum in logarithmic time.

use std::ops::Range;

/// Complete binary tree: node `n` has children `2 * n` and `2 * n + 1`; leaves begin at `leaves`.
#[derive(Debug, Clone)]
pub(crate) struct SegmentTree {
    /// A power of two.
    leaves: usize,
    /// Maximum below each node, without additions above it.
    max: Vec<i128>,
    /// Added to all leaves below each node, not propagated.
    added: Vec<i128>,
}

impl SegmentTree {
    pub(crate) fn new(values: &[u64]) -> Self {
        let leaves = values.len().next_power_of_two();
        let mut max = vec![0; 2 * leaves];
        for (at, value) in values.iter().enumerate() {
            max[leaves + at] = i128::from(*value);
        }
        for node in (1..leaves).rev() {
            max[node] = max[2 * node].max(max[2 * node + 1]);
        }
        Self {
            leaves,
            added: vec![0; 2 * leaves],
            max,
        }
    }

    pub(crate) fn add(&mut self, range: Range<usize>, amount: i128) {
        if !range.is_empty() && amount != 0 {
            self.add_below(1, 0..self.leaves, &range, amount);
        }
    }

    /// 0 for an empty range.
    pub(crate) fn max(&self, range: Range<usize>) -> i128 {
        self.max_below(1, 0..self.leaves, &range)
    }

    /// `own`: leaves below `node`.
    fn add_below(&mut self, node: usize, own: Range<usize>, range: &Range<usize>, amount: i128) {
        if range.end <= own.start || own.end <= range.start {
            return;
        }
        if range.start <= own.start && own.end <= range.end {
            self.max[node] += amount;
            self.added[node] += amount;
            return;
        }
        let middle = own.start.midpoint(own.end);
        self.add_below(2 * node, own.start..middle, range, amount);
        self.add_below(2 * node + 1, middle..own.end, range, amount);
        self.max[node] = self.max[2 * node].max(self.max[2 * node + 1]) + self.added[node];
    }

    fn max_below(&self, node: usize, own: Range<usize>, range: &Range<usize>) -> i128 {
        if range.end <= own.start || own.end <= range.start || range.is_empty() {
            return 0;
        }
        if range.start <= own.start && own.end <= range.end {
            return self.max[node];
        }
        let middle = own.start.midpoint(own.end);
        let left = self.max_below(2 * node, own.start..middle, range);
        let right = self.max_below(2 * node + 1, middle..own.end, range);
        left.max(right) + self.added[node]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn equals_a_plain_list(
            values in prop::collection::vec(0u64..100, 1..40),
            additions in prop::collection::vec((0usize..40, 0usize..40, 0i128..50), 0..40),
        ) {
            let mut tree = SegmentTree::new(&values);
            let mut list: Vec<i128> = values.iter().map(|value| i128::from(*value)).collect();
            for (a, b, amount) in additions {
                let (a, b) = (a.min(list.len()), b.min(list.len()));
                let range = a.min(b)..a.max(b);
                tree.add(range.clone(), amount);
                list[range].iter_mut().for_each(|value| *value += amount);
                for from in 0..list.len() {
                    let expected = list[from..].iter().copied().max().unwrap_or(0);
                    prop_assert_eq!(tree.max(from..list.len()), expected);
                    prop_assert_eq!(tree.max(from..from + 1), list[from]);
                }
            }
        }
    }
}
