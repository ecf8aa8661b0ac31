//! Stored signals in portions: see [`Snapshot`].

use std::ops::Range;
use std::sync::Arc;

use isochrony_store::{Signal, Stretch};
use isochrony_time::civil;

use crate::snapshot::on_grain;
use crate::stored::samples_in;
use crate::{OpError, Portion, Reach, Snapshot, Source, Stored};

/// A stored signal as it was when a run began.
pub(crate) struct StoredPortions {
    stored: Stored,
    signal: Signal,
    parts: Vec<Stretch>,
}

impl StoredPortions {
    pub(crate) fn new(stored: Stored, signal: Signal, asked: Vec<Stretch>) -> Arc<Self> {
        // What touches inside a run is read as one, as one pass does.
        let mut parts: Vec<Stretch> = Vec::new();
        for part in asked {
            match parts.last_mut() {
                Some(last) if last.run == part.run && last.range.end == part.range.start => {
                    last.range.end = part.range.end;
                }
                _ => parts.push(part),
            }
        }
        Arc::new(Self {
            stored,
            signal,
            parts,
        })
    }

    /// An index, or the first sample behind it if it lies in a gap.
    fn first_sample(&self, mut index: i64) -> i64 {
        while let Some(gap) = self.signal.gaps().at(index) {
            index = gap.end();
        }
        index
    }

    /// An index, or the end of the last samples before it if it lies behind or in a gap.
    fn samples_end(&self, mut index: i64) -> i64 {
        while let Some(gap) = self.signal.gaps().at(index - 1) {
            index = gap.start;
        }
        index
    }

    /// The stretch around a sample of a part.
    fn stretch(&self, index: i64, part: &Stretch) -> Range<i64> {
        let gaps = self.signal.gaps();
        let last = gaps.overlapping(0..index).end.checked_sub(1);
        let before = last.and_then(|position| gaps.get(position));
        let behind = gaps.first_within(index..part.range.end);
        let start = before.map_or(part.range.start, |gap| gap.end().max(part.range.start));
        start..behind.map_or(part.range.end, |gap| gap.start)
    }
}

impl Snapshot for StoredPortions {
    fn portion_after(&self, last: Option<&Portion>, samples: u64, grain: u64) -> Option<Portion> {
        let mut at = last.map_or(0, |last| last.part);
        let mut from = last.map(|last| last.range.end);
        // Portions end behind a sample, so this is the end of the samples before.
        let before = last.map(|last| (last.range.end, self.parts[last.part].run));
        loop {
            let part = self.parts.get(at)?;
            let from = from.take().unwrap_or(part.range.start);
            let first = self.first_sample(from);
            if first >= part.range.end {
                at += 1;
                continue;
            }
            let wanted = first.saturating_add_unsigned(samples.max(1));
            let mut end = self.samples_end(wanted.min(part.range.end)).max(first + 1);
            if end == wanted {
                let stretch = self.stretch(end - 1, part);
                end = on_grain(end, stretch.start, stretch.end, grain);
            }
            return Some(Portion {
                range: from..end,
                before,
                part: at,
            });
        }
    }

    fn open(
        &self,
        portion: &Portion,
        reach: Reach,
        segment: u64,
    ) -> Result<Box<dyn Source>, OpError> {
        let part = &self.parts[portion.part];
        let Range { start, end } = portion.range;
        let end = end.saturating_add_unsigned(reach.after).min(part.range.end);
        let mut before = portion.before;
        let mut from = start;
        // The samples before the portion belong to it as far as they go on in it.
        let goes_on = start > part.range.start && self.first_sample(start) == start;
        if goes_on && before == Some((start, part.run)) {
            let stretch = self.stretch(start, part);
            from = start
                .saturating_sub_unsigned(reach.before)
                .max(stretch.start);
            before = Some((from, part.run));
        }
        let parts = vec![Stretch {
            run: part.run,
            range: from..end,
        }];
        let pass = self
            .stored
            .pass_over(self.signal.clone(), parts, before, segment)?;
        Ok(Box::new(pass.telling_all()))
    }

    fn total(&self) -> u64 {
        samples_in(&self.signal, &self.parts)
    }

    fn time_of(&self, index: i64) -> Option<String> {
        let time = self.signal.time_of(index).ok()?;
        Some(civil::format(time.value))
    }
}
