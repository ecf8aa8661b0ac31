//! Ranges of bytes and of pieces.

use std::ops::Range;

/// `numbers` ascend.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) bytes: u64,
    pub(crate) piece_bytes: u64,
}

impl Extent {
    pub(crate) fn pieces(&self) -> u64 {
        self.bytes.div_ceil(self.piece_bytes)
    }

    /// Empty beyond the end.
    pub(crate) fn piece(&self, piece: u32) -> Range<u64> {
        let start = (u64::from(piece) * self.piece_bytes).min(self.bytes);
        start..(start + self.piece_bytes).min(self.bytes)
    }

    pub(crate) fn run(&self, run: &Range<u32>) -> Range<u64> {
        let start = (u64::from(run.start) * self.piece_bytes).min(self.bytes);
        start..(u64::from(run.end) * self.piece_bytes).min(self.bytes)
    }

    /// The bytes must lie within the object.
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
}
