//! Ranges of bytes and of pieces.

use std::ops::Range;

/// Merges ranges that touch or overlap, or that lie at most `max_gap` bytes apart: fewer requests to the origin, for up to
/// `max_gap` bytes each that were not asked for. The result is sorted.
#[must_use]
pub fn merge_ranges(ranges: &[Range<u64>], max_gap: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.iter().filter(|r| r.start < r.end).cloned().collect();
    sorted.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(max_gap) => {
                last.end = last.end.max(range.end);
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Runs of consecutive numbers in an ascending sequence.
pub(crate) fn runs(numbers: impl IntoIterator<Item = u32>) -> Vec<Range<u32>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some(run) if run.end == number => run.end += 1,
            _ => runs.push(number..number + 1),
        }
    }
    runs
}

/// How an object of a length is divided into pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) bytes: u64,
    pub(crate) piece_bytes: u64,
}

impl Extent {
    pub(crate) fn pieces(&self) -> u64 {
        self.bytes.div_ceil(self.piece_bytes)
    }

    /// Bytes of a piece; the last one may be shorter, one behind the end is empty.
    pub(crate) fn piece(&self, piece: u32) -> Range<u64> {
        let start = (u64::from(piece) * self.piece_bytes).min(self.bytes);
        start..(start + self.piece_bytes).min(self.bytes)
    }

    /// Bytes of consecutive pieces.
    pub(crate) fn run(&self, run: &Range<u32>) -> Range<u64> {
        let start = (u64::from(run.start) * self.piece_bytes).min(self.bytes);
        start..(u64::from(run.end) * self.piece_bytes).min(self.bytes)
    }

    /// Pieces that have any of these bytes. The caller has checked that the range is inside the object.
    pub(crate) fn pieces_of(&self, range: &Range<u64>) -> Range<u32> {
        if range.start >= range.end {
            return 0..0;
        }
        let first = range.start / self.piece_bytes;
        first as u32..range.end.div_ceil(self.piece_bytes) as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn extents_of_pieces_cover_the_object() {
        let extent = Extent {
            bytes: 10,
            piece_bytes: 4,
        };
        assert_eq!(extent.pieces(), 3);
        assert_eq!(extent.piece(2), 8..10);
        assert_eq!(extent.piece(3), 10..10);
        assert_eq!(extent.run(&(1..3)), 4..10);
        assert_eq!(extent.pieces_of(&(3..5)), 0..2);
        assert_eq!(extent.pieces_of(&(4..4)), 0..0);
        assert_eq!(runs([1, 2, 4, 7, 8]), [1..3, 4..5, 7..9]);
    }

    proptest! {
        #[test]
        fn merged_ranges_cover_the_same_bytes_and_no_wide_gap(
            ranges in prop::collection::vec((0u64..200, 0u64..30), 0..20),
            max_gap in 0u64..10,
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(start, len)| start..start + len).collect();
            let merged = merge_ranges(&ranges, max_gap);
            // The oracle marks bytes one at a time, then fills gaps that are narrow enough.
            let mut covered = [false; 240];
            ranges.iter().flat_map(Clone::clone).for_each(|at| covered[at as usize] = true);
            let mut previous = None;
            for at in 0..covered.len() {
                if covered[at] {
                    if let Some(last) = previous && at - last - 1 <= max_gap as usize {
                        covered[last..at].fill(true);
                    }
                    previous = Some(at);
                }
            }
            let mut got = [false; 240];
            merged.iter().flat_map(Clone::clone).for_each(|at| got[at as usize] = true);
            prop_assert_eq!(covered, got);
            prop_assert!(merged.windows(2).all(|pair| pair[0].end + max_gap < pair[1].start));
        }
    }
}
