//! Tournament tree of inputs' bounds: a merge of n inputs takes O(log n) per item.

use std::ops::Range;

/// From here a tree is faster than a scan.
pub(super) const MIN_TREE_INPUTS: usize = 16;

pub(super) struct BoundTree {
    /// Inputs, rounded up to a power of two.
    leaves: usize,
    /// Node k is the least of nodes 2k and 2k + 1; inputs come last.
    least: Vec<i64>,
}

impl BoundTree {
    pub(super) fn new(inputs: usize) -> Self {
        let leaves = inputs.next_power_of_two();
        let mut bounds = Self {
            leaves,
            least: vec![i64::MAX; 2 * leaves],
        };
        (0..inputs).for_each(|input| bounds.set(input, i64::MIN));
        bounds
    }

    pub(super) fn set(&mut self, input: usize, bound: i64) {
        let mut node = self.leaves + input;
        self.least[node] = bound;
        while node > 1 {
            node /= 2;
            let least = self.least[2 * node].min(self.least[2 * node + 1]);
            if self.least[node] == least {
                return;
            }
            self.least[node] = least;
        }
    }

    pub(super) fn first(&self) -> (usize, i64) {
        let mut node = 1;
        while node < self.leaves {
            node = 2 * node + usize::from(self.least[2 * node] > self.least[2 * node + 1]);
        }
        (node - self.leaves, self.least[1])
    }

    /// `i64::MAX` without inputs.
    pub(super) fn least_of(&self, inputs: Range<usize>) -> i64 {
        let (mut from, mut to) = (self.leaves + inputs.start, self.leaves + inputs.end);
        let mut least = i64::MAX;
        while from < to {
            if from % 2 == 1 {
                least = least.min(self.least[from]);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                least = least.min(self.least[to]);
            }
            (from, to) = (from / 2, to / 2);
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_scan_of_all_bounds() {
        for inputs in [1, 2, 3, 16, 17, 100] {
            let mut bounds = BoundTree::new(inputs);
            let mut all = vec![i64::MIN; inputs];
            let mut seed = 1_u64;
            for _ in 0..500 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let input = (seed >> 33) as usize % inputs;
                all[input] = match (seed >> 20) % 8 {
                    0 => i64::MAX,
                    1 => i64::MIN,
                    other => other as i64 - 4,
                };
                bounds.set(input, all[input]);
                let least = *all.iter().min().unwrap();
                let first = all.iter().position(|bound| *bound == least).unwrap();
                assert_eq!(bounds.first(), (first, least));
                for at in 0..=inputs {
                    let of = |some: &[i64]| some.iter().copied().min().unwrap_or(i64::MAX);
                    assert_eq!(bounds.least_of(0..at), of(&all[..at]));
                    assert_eq!(bounds.least_of(at..inputs), of(&all[at..]));
                }
            }
        }
    }
}
