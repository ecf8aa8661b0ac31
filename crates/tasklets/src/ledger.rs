//! Bytes of scratch that would be in use at each place of the serial order, and the most of any stretch of places.

use std::ops::Range;

/// A tree of maxima over places, with sums added to stretches.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    places: usize,
    /// Most below each node, what is added at the node included.
    most: Vec<i128>,
    /// What is added to all places below each node.
    added: Vec<i128>,
}

impl Ledger {
    pub(crate) fn new(live: &[u64]) -> Self {
        let places = live.len().next_power_of_two();
        let mut most = vec![0; 2 * places];
        for (at, bytes) in live.iter().enumerate() {
            most[places + at] = i128::from(*bytes);
        }
        for node in (1..places).rev() {
            most[node] = most[2 * node].max(most[2 * node + 1]);
        }
        Self {
            places,
            added: vec![0; 2 * places],
            most,
        }
    }

    /// Adds to each place of a stretch.
    pub(crate) fn add(&mut self, stretch: Range<usize>, bytes: i128) {
        if !stretch.is_empty() && bytes != 0 {
            self.add_below(1, 0..self.places, &stretch, bytes);
        }
    }

    /// The most of a stretch; 0 of an empty one.
    pub(crate) fn most(&self, stretch: Range<usize>) -> i128 {
        self.most_below(1, 0..self.places, &stretch)
    }

    fn add_below(&mut self, node: usize, own: Range<usize>, stretch: &Range<usize>, bytes: i128) {
        if stretch.end <= own.start || own.end <= stretch.start {
            return;
        }
        if stretch.start <= own.start && own.end <= stretch.end {
            self.most[node] += bytes;
            self.added[node] += bytes;
            return;
        }
        let middle = own.start.midpoint(own.end);
        self.add_below(2 * node, own.start..middle, stretch, bytes);
        self.add_below(2 * node + 1, middle..own.end, stretch, bytes);
        self.most[node] = self.most[2 * node].max(self.most[2 * node + 1]) + self.added[node];
    }

    fn most_below(&self, node: usize, own: Range<usize>, stretch: &Range<usize>) -> i128 {
        if stretch.end <= own.start || own.end <= stretch.start || stretch.is_empty() {
            return 0;
        }
        if stretch.start <= own.start && own.end <= stretch.end {
            return self.most[node];
        }
        let middle = own.start.midpoint(own.end);
        let left = self.most_below(2 * node, own.start..middle, stretch);
        let right = self.most_below(2 * node + 1, middle..own.end, stretch);
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
        fn agrees_with_a_list(
            live in prop::collection::vec(0u64..100, 1..40),
            steps in prop::collection::vec((0usize..40, 0usize..40, 0i128..50), 0..40),
        ) {
            let mut ledger = Ledger::new(&live);
            let mut list: Vec<i128> = live.iter().map(|bytes| i128::from(*bytes)).collect();
            for (a, b, bytes) in steps {
                let (a, b) = (a.min(list.len()), b.min(list.len()));
                let stretch = a.min(b)..a.max(b);
                ledger.add(stretch.clone(), bytes);
                list[stretch].iter_mut().for_each(|one| *one += bytes);
                for from in 0..list.len() {
                    let expected = list[from..].iter().copied().max().unwrap_or(0);
                    prop_assert_eq!(ledger.most(from..list.len()), expected);
                    prop_assert_eq!(ledger.most(from..from + 1), list[from]);
                }
            }
        }
    }
}
