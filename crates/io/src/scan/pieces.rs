//! Cuts parts of a source into pieces.

use std::ops::Range;
use std::sync::Arc;

use crate::source::SampleSource;

/// A rest of up to a quarter joins the last piece: its own request would cost as much.
pub(crate) fn next_piece(rest: &Range<i64>, piece: i64) -> Range<i64> {
    let end = rest.start.saturating_add(piece);
    match rest.end.saturating_sub(end) <= piece / 4 {
        true => rest.clone(),
        false => rest.start..end,
    }
}

/// Gaps are looked up when reached.
#[derive(Debug, Clone)]
pub(crate) struct PieceIter {
    source: Arc<dyn SampleSource>,
    parts: Vec<Range<i64>>,
    part: usize,
    at: i64,
    stretch: Range<i64>,
    piece: i64,
}

impl PieceIter {
    pub(crate) fn new(source: Arc<dyn SampleSource>, parts: Vec<Range<i64>>, piece: i64) -> Self {
        Self {
            at: parts.first().map_or(0, |part| part.start),
            source,
            parts,
            part: 0,
            stretch: 0..0,
            piece: piece.max(1),
        }
    }

    pub(crate) fn source(&self) -> &Arc<dyn SampleSource> {
        &self.source
    }

    pub(crate) fn parts(&self) -> &[Range<i64>] {
        &self.parts
    }

    pub(crate) fn peek(&mut self) -> Option<Range<i64>> {
        if self.stretch.is_empty() && !self.enter() {
            return None;
        }
        Some(next_piece(&self.stretch, self.piece))
    }

    fn enter(&mut self) -> bool {
        while let Some(part) = self.parts.get(self.part) {
            let end = part.end;
            let gap = self.source.gap_within(self.at..end);
            self.stretch = self.at..gap.as_ref().map_or(end, |gap| gap.start);
            match gap {
                Some(gap) if gap.end < end => self.at = gap.end,
                _ => {
                    self.part += 1;
                    let next = self.parts.get(self.part);
                    self.at = next.map_or(0, |part| part.start);
                }
            }
            if !self.stretch.is_empty() {
                return true;
            }
        }
        false
    }
}

impl Iterator for PieceIter {
    type Item = Range<i64>;

    fn next(&mut self) -> Option<Range<i64>> {
        let piece = self.peek()?;
        self.stretch.start = piece.end;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_rest_is_joined_to_the_last_piece() {
        assert_eq!(next_piece(&(0..1_000), 400), 0..400);
        assert_eq!(next_piece(&(400..1_000), 400), 400..800);
        assert_eq!(next_piece(&(800..1_000), 400), 800..1_000);
        assert_eq!(next_piece(&(0..500), 400), 0..500);
        assert_eq!(next_piece(&(0..501), 400), 0..400);
        assert_eq!(next_piece(&(0..3), 1), 0..1);
        assert_eq!(next_piece(&(7..9), i64::MAX), 7..9);
    }
}
