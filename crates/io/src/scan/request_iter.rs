//! Joins pieces that are adjacent in a file.

use std::ops::Range;

use super::PieceIter;

/// A request costs as much as reading these holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MergePolicy {
    pub(crate) hole: i64,
    pub(crate) most: i64,
}

/// Without [`MergePolicy`], a piece is a request.
#[derive(Debug)]
pub(crate) struct RequestIter {
    pieces: PieceIter,
    merging: Option<MergePolicy>,
    next: Option<Range<i64>>,
}

impl RequestIter {
    pub(crate) fn new(pieces: PieceIter, merging: Option<MergePolicy>) -> Self {
        Self {
            pieces,
            merging,
            next: None,
        }
    }

    pub(crate) fn parts(&self) -> &[Range<i64>] {
        self.pieces.parts()
    }

    pub(crate) fn peek(&mut self) -> Option<Range<i64>> {
        if self.next.is_none() {
            let mut request = self.pieces.next()?;
            while let (Some(merging), Some(piece)) = (self.merging, self.pieces.peek())
                && piece.start >= request.end
                && piece.start - request.end <= merging.hole
                && piece.end - request.start <= merging.most
            {
                request.end = piece.end;
                self.pieces.next();
            }
            self.next = Some(request);
        }
        self.next.clone()
    }

    pub(crate) fn advance(&mut self) {
        self.peek();
        self.next = None;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::test_source::TestSource;

    fn requests(mut iter: RequestIter) -> Vec<Range<i64>> {
        let mut all = Vec::new();
        while let Some(request) = iter.peek() {
            iter.advance();
            all.push(request);
        }
        all
    }

    proptest! {
        #[test]
        fn requests_hold_all_pieces_whole_and_in_order_and_no_long_hole(
            lengths in prop::collection::vec((1..60i64, 1..60i64), 1..20),
            piece in 1..50i64,
            hole in 0..60i64,
        ) {
            let (mut end, mut gaps) = (0, Vec::new());
            for (samples, gap) in lengths {
                gaps.push(end + samples..end + samples + gap);
                end += samples + gap;
            }
            let source = TestSource::shared(Path::new("no such file"), end, gaps);
            let parts: Vec<_> = std::iter::once(0..end).collect();
            let pieces = || PieceIter::new(source.clone(), parts.clone(), piece);
            let merging = MergePolicy { hole, most: 2 * piece };
            let merged = requests(RequestIter::new(pieces(), Some(merging)));
            let mut left: std::collections::VecDeque<_> = pieces().collect();
            for request in &merged {
                let first = left.pop_front().unwrap();
                prop_assert_eq!(first.start, request.start);
                let mut at = first.end;
                while left.front().is_some_and(|next| next.end <= request.end) {
                    let next = left.pop_front().unwrap();
                    prop_assert!(next.start - at <= hole);
                    at = next.end;
                }
                prop_assert_eq!(at, request.end);
                // A piece may be longer, by a short end.
                prop_assert!(at == first.end || at - request.start <= 2 * piece);
                let joins = left.front().is_some_and(|next| {
                    next.start - at <= hole && next.end - request.start <= 2 * piece
                });
                prop_assert!(!joins, "{request:?} could be longer");
            }
            prop_assert!(left.is_empty());
            prop_assert_eq!(requests(RequestIter::new(pieces(), None)), pieces().collect::<Vec<_>>());
        }
    }
}
