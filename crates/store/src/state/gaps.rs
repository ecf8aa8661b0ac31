//! Table of gaps: a sorted sequence of disjoint, non-touching, non-empty ranges.
//!
//! Changes have set semantics, so they can be replayed. Lookups are binary searches; sums use stored aggregates.

use std::ops::Range;

use super::seq::{Row, Seq};

/// A range of indices without samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gap {
    /// First missing index.
    pub start: i64,
    /// Number of missing samples, above zero.
    pub length: i64,
}

impl Gap {
    /// One past the last missing index.
    #[must_use]
    pub fn end(self) -> i64 {
        self.start + self.length
    }

    /// The index range.
    #[must_use]
    pub fn range(self) -> Range<i64> {
        self.start..self.end()
    }
}

impl Row for Gap {
    fn measure(&self) -> i64 {
        self.length
    }
}

/// All gaps of a signal.
#[derive(Debug, Clone, Default)]
pub struct GapTable {
    gaps: Seq<Gap>,
}

impl GapTable {
    /// Number of gaps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.gaps.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// The gap at `position`.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<Gap> {
        self.gaps.get(position).copied()
    }

    /// All gaps by index.
    pub fn iter(&self) -> impl Iterator<Item = Gap> + '_ {
        self.gaps.iter().copied()
    }

    /// Gaps at positions.
    pub fn positions(&self, range: Range<usize>) -> impl Iterator<Item = Gap> + '_ {
        self.gaps.range(range).copied()
    }

    /// Positions of gaps with an index in `range`.
    #[must_use]
    pub fn overlapping(&self, range: Range<i64>) -> Range<usize> {
        if range.start >= range.end {
            return 0..0;
        }
        let first = self.gaps.partition_point(|gap| gap.end() <= range.start);
        let end = self.gaps.partition_point(|gap| gap.start < range.end);
        first..end.max(first)
    }

    /// Gaps in `range`, cut to it.
    pub fn within(&self, range: Range<i64>) -> impl Iterator<Item = Gap> + '_ {
        self.positions(self.overlapping(range.clone()))
            .map(move |gap| cut(gap, &range))
    }

    /// First gap in `range`, cut to it. O(log n).
    #[must_use]
    pub fn first_within(&self, range: Range<i64>) -> Option<Gap> {
        if range.start >= range.end {
            return None;
        }
        let first = self.gaps.partition_point(|gap| gap.end() <= range.start);
        self.gaps
            .get(first)
            .filter(|gap| gap.start < range.end)
            .map(|gap| cut(*gap, &range))
    }

    /// The gap with `index`. O(log n).
    #[must_use]
    pub fn at(&self, index: i64) -> Option<Gap> {
        let first = self.gaps.partition_point(|gap| gap.end() <= index);
        self.gaps
            .get(first)
            .copied()
            .filter(|gap| gap.start <= index)
    }

    /// Number of missing samples.
    #[must_use]
    pub fn missing(&self) -> i64 {
        self.gaps.total()
    }

    /// Missing samples in `range`. O(log n).
    #[must_use]
    pub fn missing_within(&self, range: Range<i64>) -> i64 {
        if range.start >= range.end {
            return 0;
        }
        self.missing_before(range.end) - self.missing_before(range.start)
    }

    fn missing_before(&self, index: i64) -> i64 {
        let position = self.gaps.partition_point(|gap| gap.end() <= index);
        let part = self
            .gaps
            .get(position)
            .map_or(0, |gap| (index - gap.start).max(0));
        self.gaps.aggregate_before(position) + part
    }

    /// Marks `range` as a gap.
    pub fn set_gap(&mut self, range: Range<i64>) {
        if range.start >= range.end {
            return;
        }
        // Common case: a growing end.
        if self.gaps.last().is_none_or(|gap| gap.end() < range.start) {
            self.gaps.push(gap(range.start, range.end));
            return;
        }
        // Strict: touching gaps merge.
        let first = self.gaps.partition_point(|gap| gap.end() < range.start);
        let end = self.gaps.partition_point(|gap| gap.start <= range.end);
        let (mut from, mut to) = (range.start, range.end);
        if first < end {
            from = from.min(self.gaps.get(first).map_or(from, |gap| gap.start));
            to = to.max(self.gaps.get(end - 1).map_or(to, |gap| gap.end()));
        }
        self.gaps.splice(first..end.max(first), [gap(from, to)]);
    }

    /// Marks `range` as valid.
    pub fn set_valid(&mut self, range: Range<i64>) {
        let hit = self.overlapping(range.clone());
        if hit.is_empty() {
            return;
        }
        let left = self
            .get(hit.start)
            .filter(|first| first.start < range.start)
            .map(|first| gap(first.start, range.start));
        let right = self
            .get(hit.end - 1)
            .filter(|last| last.end() > range.end)
            .map(|last| gap(range.end, last.end()));
        self.gaps.splice(hit, left.into_iter().chain(right));
    }

    /// Rows of start and length.
    #[must_use]
    pub fn rows(&self) -> Vec<i64> {
        self.iter()
            .flat_map(|gap| [gap.start, gap.length])
            .collect()
    }

    /// Rows must be sorted, disjoint, non-empty ranges in `0..end`.
    ///
    /// # Errors
    /// The first invalid row and the reason.
    pub fn from_rows(rows: &[i64], end: i64) -> Result<Self, (usize, &'static str)> {
        let mut previous = -1i64;
        for (row, pair) in rows.chunks_exact(2).enumerate() {
            let (start, length) = (pair[0], pair[1]);
            if start < 0 {
                return Err((row, "the start is negative"));
            }
            if length <= 0 {
                return Err((row, "the length is not positive"));
            }
            if start <= previous {
                return Err((row, "the gap overlaps or touches the one before it"));
            }
            match start.checked_add(length) {
                Some(stop) if stop <= end => previous = stop,
                _ => return Err((row, "the gap reaches beyond the end of the signal")),
            }
        }
        let gaps = rows.chunks_exact(2).map(|pair| Gap {
            start: pair[0],
            length: pair[1],
        });
        Ok(Self {
            gaps: gaps.collect(),
        })
    }
}

fn gap(start: i64, end: i64) -> Gap {
    Gap {
        start,
        length: end - start,
    }
}

fn cut(full: Gap, range: &Range<i64>) -> Gap {
    gap(full.start.max(range.start), full.end().min(range.end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AXIS_LEN: usize = 160;

    #[derive(Debug, Clone)]
    enum Change {
        Gap(i64, i64),
        Valid(i64, i64),
    }

    fn change() -> impl Strategy<Value = Change> {
        (any::<bool>(), 0..AXIS_LEN as i64, 0i64..24).prop_map(|(is_gap, start, length)| {
            let end = (start + length).min(AXIS_LEN as i64);
            if is_gap {
                Change::Gap(start, end)
            } else {
                Change::Valid(start, end)
            }
        })
    }

    fn stretches(missing: &[bool]) -> Vec<Gap> {
        let mut out = Vec::new();
        let mut start = None;
        for (index, &is_gap) in missing.iter().chain([&false]).enumerate() {
            match (is_gap, start) {
                (true, None) => start = Some(index),
                (false, Some(from)) => {
                    out.push(gap(from as i64, index as i64));
                    start = None;
                }
                _ => {}
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn agrees_with_one_flag_per_sample(
            changes in proptest::collection::vec(change(), 0..60),
            a in 0..AXIS_LEN as i64, b in 0..AXIS_LEN as i64,
        ) {
            let mut table = GapTable::default();
            let mut missing = vec![false; AXIS_LEN];
            for change in &changes {
                let (flag, range) = match *change {
                    Change::Gap(start, end) => (true, start..end),
                    Change::Valid(start, end) => (false, start..end),
                };
                if flag { table.set_gap(range.clone()) } else { table.set_valid(range.clone()) }
                missing[range.start as usize..range.end as usize].fill(flag);
            }
            let expected = stretches(&missing);
            prop_assert_eq!(table.iter().collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(table.len(), expected.len());
            prop_assert_eq!(table.missing(), missing.iter().filter(|x| **x).count() as i64);
            let part = &missing[(a.min(b)) as usize..(a.max(b)) as usize];
            let range = a.min(b)..a.max(b);
            prop_assert_eq!(table.missing_within(range.clone()), part.iter().filter(|x| **x).count() as i64);
            prop_assert_eq!(table.first_within(range.clone()).is_none(), part.iter().all(|x| !x));
            prop_assert_eq!(table.within(range).map(|gap| gap.length).sum::<i64>(), part.iter().filter(|x| **x).count() as i64);
            for index in 0..AXIS_LEN as i64 {
                prop_assert_eq!(table.at(index).is_some(), missing[index as usize]);
            }
            let again = GapTable::from_rows(&table.rows(), AXIS_LEN as i64).map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
            prop_assert_eq!(again.rows(), table.rows());
        }
    }

    #[test]
    fn rejects_impossible_tables() {
        for (rows, row) in [
            (vec![-1, 2], 0),
            (vec![0, 0], 0),
            (vec![0, 4, 4, 2], 1),
            (vec![0, 4, 2, 2], 1),
            (vec![0, 4, 90, 11], 1),
            (vec![0, 4, 9, i64::MAX], 1),
        ] {
            let error = GapTable::from_rows(&rows, 100).map(|_| ()).unwrap_err();
            assert_eq!(error.0, row, "{rows:?}: {error:?}");
        }
    }

    #[test]
    fn a_snapshot_keeps_what_it_saw() {
        let mut table = GapTable::default();
        (0..5_000).for_each(|k| table.set_gap(k * 10..k * 10 + 3));
        let snapshot = table.clone();
        table.set_valid(0..25_000);
        table.set_gap(60_000..60_001);
        assert_eq!(snapshot.len(), 5_000);
        assert_eq!(snapshot.missing(), 15_000);
        assert_eq!(table.len(), 2_501);
    }
}
