//! The pieces in which parts of a signal are read, in the order of reading.

use std::ops::Range;

use crate::selection::Stretch;
use crate::signal::Signal;

/// Most bytes that are read ahead, unless one piece alone has more.
const AHEAD: u64 = 64 << 20;

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

    /// The next piece, unless it and those that were asked for already are more than is read ahead.
    pub(super) fn next_beside<'a>(
        &mut self,
        asked: impl Iterator<Item = &'a Range<i64>>,
    ) -> Option<Range<i64>> {
        let samples = |range: &Range<i64>| (range.end - range.start).cast_unsigned();
        let asked: u64 = asked.map(samples).sum();
        let next = self.coming()?;
        let all = asked.saturating_add(samples(&next));
        let bytes = all.saturating_mul(self.signal.dtype().size() as u64);
        if asked > 0 && bytes > AHEAD {
            return None;
        }
        self.next()
    }

    /// The piece that [`Self::next`] will give.
    fn coming(&mut self) -> Option<Range<i64>> {
        if self.stretch.is_empty() && !self.enter() {
            return None;
        }
        let start = self.stretch.start;
        Some(start..self.stretch.end.min(start.saturating_add(self.piece)))
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
        let piece = self.coming()?;
        self.stretch.start = piece.end;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use isochrony_segment::DType;
    use isochrony_time::Rate;

    use super::*;
    use crate::{CreateOptions, Mode, Store};

    #[test]
    fn what_is_read_ahead_is_bounded_in_bytes_but_for_one_piece() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
        let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
        let writer = store.create("p", &options).unwrap();
        writer.append(&[0_i16; 2_500]).unwrap();
        let signal = writer.signal().unwrap();
        let parts = signal.select(0..2_500).unwrap().parts().to_vec();
        let mut pieces = Pieces::new(signal, parts, 1_000);
        let most = i64::try_from(AHEAD / 2).unwrap();
        let (full, longer) = (0..most - 999, 0..most * 10);
        assert_eq!(pieces.next_beside([&full].into_iter()), None);
        assert_eq!(pieces.next_beside([&longer].into_iter()), None);
        let room = 0..most - 1_000;
        assert_eq!(pieces.next_beside([&room].into_iter()), Some(0..1_000));
        // Nothing but this: of any length.
        assert_eq!(pieces.next_beside([].into_iter()), Some(1_000..2_000));
        assert_eq!(pieces.next_beside([].into_iter()), Some(2_000..2_500));
        assert_eq!(pieces.next_beside([].into_iter()), None);
    }
}
