//! Indices of what comes out of a front, of those that are read.

use isochrony_time::Ratio;

/// The ratios of a front's operators, in their order: rounded at each, as marks are that pass them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Indices(Vec<Ratio>);

impl Indices {
    /// Behind another operator.
    pub(super) fn then(mut self, ratio: Ratio) -> Self {
        if !ratio.is_one() {
            self.0.push(ratio);
        }
        self
    }

    /// The first index of what comes out that does not lie before one that is read.
    pub(super) fn of(&self, read: i64) -> i64 {
        let next = |index, ratio: &Ratio| ratio.first_from(index).unwrap_or(i64::MAX);
        self.0.iter().fold(read, next)
    }

    /// How many come out of so many that are read.
    pub(super) fn count(&self, read: u64) -> u64 {
        i64::try_from(read).map_or(read, |read| self.of(read).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_rounded_at_each_ratio() {
        let ratio = |up, down| Ratio::new(up, down).unwrap();
        let both = Indices::default().then(ratio(1, 10)).then(Ratio::ONE);
        let both = both.then(ratio(2, 3));
        // 31 lies behind 3 of every tenth, so at 4; 4 * 2 / 3 lies behind 2.
        assert_eq!((both.of(31), both.of(30), both.of(-31)), (3, 2, -2));
        assert_eq!(both.count(1000), 67);
    }
}
