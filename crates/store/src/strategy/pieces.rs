//! The pieces in which parts of a signal are read, in the order of reading.

use std::ops::Range;

use crate::selection::Stretch;
use crate::signal::Signal;

/// Walks parts, the stretches between gaps in each, and pieces of these; gaps are looked up as they are reached.
#[derive(Debug, Clone)]
pub(super) struct Pieces {
    signal: Signal,
    parts: Vec<Stretch>,
    /// The part that is walked, and from where on.
    part: usize,
    at: i64,
    /// What is left of the stretch that is walked.
    stretch: Range<i64>,
    piece: i64,
}

impl Pieces {
    pub(super) fn new(signal: Signal, parts: Vec<Stretch>, piece: i64) -> Self {
        Self {
            at: parts.first().map_or(0, |part| part.range.start),
            signal,
            parts,
            part: 0,
            stretch: 0..0,
            piece: piece.max(1),
        }
    }

    fn enter(&mut self) -> bool {
        while let Some(part) = self.parts.get(self.part) {
            let end = part.range.end;
            let gap = self.signal.gaps().first_within(self.at..end);
            self.stretch = self.at..gap.map_or(end, |gap| gap.start);
            match gap {
                Some(gap) if gap.end() < end => self.at = gap.end(),
                _ => {
                    self.part += 1;
                    let next = self.parts.get(self.part);
                    self.at = next.map_or(0, |part| part.range.start);
                }
            }
            if !self.stretch.is_empty() {
                return true;
            }
        }
        false
    }
}

impl Iterator for Pieces {
    type Item = Range<i64>;

    fn next(&mut self) -> Option<Range<i64>> {
        if self.stretch.is_empty() && !self.enter() {
            return None;
        }
        let start = self.stretch.start;
        let stop = self.stretch.end.min(start.saturating_add(self.piece));
        self.stretch.start = stop;
        Some(start..stop)
    }
}
