//! Indices of what comes out of a front, of those that are read.

use isochrony_time::Ratio;

use super::log::Event;
use crate::Break;

/// The ratios of a front's operators, in their order: rounded at each, as marks are that pass them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Indices(Vec<Ratio>);

impl Indices {
    pub(super) fn new(ratios: impl IntoIterator<Item = Ratio>) -> Self {
        let ratios = ratios.into_iter().filter(|ratio| !ratio.is_one());
        Self(ratios.collect())
    }

    /// The first index of what comes out that does not lie before one that is read.
    pub(super) fn of(&self, read: i64) -> i64 {
        let next = |index, ratio: &Ratio| ratio.first_from(index).unwrap_or(i64::MAX);
        self.0.iter().fold(read, next)
    }

    /// What is told of a break, behind the front.
    pub(super) fn stretch(&self, anchor: i64, why: Option<Break>) -> Event {
        let mut why = why;
        if let Some(Break::Gap(range) | Break::Dropped(range)) = &mut why {
            *range = self.of(range.start)..self.of(range.end);
        }
        let anchor = self.of(anchor);
        Event::Stretch { anchor, why }
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
        let both = Indices::new([ratio(1, 10), Ratio::ONE, ratio(2, 3)]);
        // 31 lies behind 3 of every tenth, so at 4; 4 * 2 / 3 lies behind 2.
        assert_eq!((both.of(31), both.of(30), both.of(-31)), (3, 2, -2));
        assert_eq!(both.count(1000), 67);
        let Event::Stretch { anchor, why } = both.stretch(31, Some(Break::Gap(10..31))) else {
            panic!("no stretch");
        };
        assert_eq!((anchor, why), (3, Some(Break::Gap(1..3))));
    }
}
