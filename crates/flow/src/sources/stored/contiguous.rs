//! Contiguous ranges of a pass, each with its origin.

use std::ops::Range;
use std::sync::Arc;

use isochrony_store::{Signal, Stretch};

use crate::RangeOrigin;

#[derive(Clone)]
pub(crate) struct ContiguousRanges {
    signal: Signal,
    parts: Vec<Stretch>,
    part: usize,
    at: i64,
    first_part: usize,
    /// Start of the selected part, if the parts are a portion of it.
    selected_from: Option<i64>,
    /// None: the parts are all of it.
    selection: Option<Arc<[Range<i64>]>>,
}

pub(crate) struct ContiguousRange {
    pub(super) part: usize,
    pub(super) range: Range<i64>,
    pub(super) run: u32,
    pub(super) origin: RangeOrigin,
}

impl ContiguousRanges {
    pub(crate) fn new(signal: Signal, parts: Vec<Stretch>) -> Self {
        Self {
            at: parts.first().map_or(0, |part| part.range.start),
            signal,
            parts,
            part: 0,
            first_part: 0,
            selected_from: None,
            selection: None,
        }
    }

    pub(super) fn of_selection(self, selection: Option<Arc<[Range<i64>]>>) -> Self {
        Self { selection, ..self }
    }

    pub(super) fn of_portion(self, part: usize, selected_from: i64) -> Self {
        Self {
            first_part: part,
            selected_from: Some(selected_from),
            ..self
        }
    }

    pub(super) fn signal(&self) -> &Signal {
        &self.signal
    }

    pub(super) fn parts(&self) -> &[Stretch] {
        &self.parts
    }

    pub(super) fn numbered_parts(&self) -> impl Iterator<Item = (usize, &Stretch)> {
        (self.first_part..).zip(&self.parts)
    }

    pub(super) fn total(&self) -> u64 {
        samples_in(&self.signal, &self.parts)
    }

    /// All of at least `samples` (above zero). Only the length of shorter ones is computed, so a million cost
    /// milliseconds.
    pub(super) fn at_least(&self, samples: i64) -> impl Iterator<Item = ContiguousRange> {
        let parts = self.numbered_parts();
        parts.flat_map(move |(number, part)| {
            let end = part.range.end;
            let gaps = self.signal.gaps().within(part.range.clone());
            let gaps = gaps.map(|gap| gap.range()).chain(std::iter::once(end..end));
            let mut from = part.range.start;
            gaps.filter_map(move |gap| {
                let range = from..gap.start;
                from = gap.end;
                let is_long = range.end - range.start >= samples;
                is_long.then(|| self.contiguous(number, range, part.run))
            })
        })
    }

    fn contiguous(&self, part: usize, range: Range<i64>, run: u32) -> ContiguousRange {
        let anchor = first_contiguous(&self.signal, range.start, run);
        let first = (self.selected_from)
            .unwrap_or_else(|| selection_start(self.selection.as_deref(), range.start))
            .max(anchor);
        ContiguousRange {
            part,
            range,
            run,
            origin: RangeOrigin { anchor, first },
        }
    }
}

impl Iterator for ContiguousRanges {
    type Item = ContiguousRange;

    fn next(&mut self) -> Option<ContiguousRange> {
        loop {
            let part = self.parts.get(self.part)?;
            let number = self.first_part + self.part;
            let (run, end) = (part.run, part.range.end);
            let gap = self.signal.gaps().first_within(self.at..end);
            let range = self.at..gap.map_or(end, |gap| gap.start);
            match gap {
                Some(gap) if gap.end() < end => self.at = gap.end(),
                _ => {
                    self.part += 1;
                    let next = self.parts.get(self.part);
                    self.at = next.map_or(0, |part| part.range.start);
                }
            }
            if range.is_empty() {
                continue;
            }
            return Some(self.contiguous(number, range, run));
        }
    }
}

/// Start of the selected range around the index, else the index.
pub(super) fn selection_start(selection: Option<&[Range<i64>]>, index: i64) -> i64 {
    let ranges = selection.unwrap_or_default().iter();
    let around = ranges.filter(|range| range.contains(&index));
    around.map(|range| range.start).max().unwrap_or(index)
}

/// The anchor: first sample after the last gap or clock step at or before an index.
pub(super) fn first_contiguous(signal: &Signal, index: i64, run: u32) -> i64 {
    let run = signal.state().runs.by_id(run);
    let gaps = signal.gaps();
    let before = gaps.overlapping(0..index).end.checked_sub(1);
    let gap = before.and_then(|position| gaps.get(position));
    run.map_or(index, |run| run.start)
        .max(gap.map_or(0, |gap| gap.end()))
        .min(index)
}

pub(super) fn join_adjacent(asked: Vec<Stretch>) -> Vec<Stretch> {
    let mut parts: Vec<Stretch> = Vec::new();
    for part in asked {
        match parts.last_mut() {
            Some(last) if last.run == part.run && last.range.end == part.range.start => {
                last.range.end = part.range.end;
            }
            _ => parts.push(part),
        }
    }
    parts
}

pub(super) fn samples_in(signal: &Signal, parts: &[Stretch]) -> u64 {
    let gaps = signal.gaps();
    let count = |part: &Stretch| {
        part.range.end - part.range.start - gaps.missing_within(part.range.clone())
    };
    parts.iter().map(count).sum::<i64>().unsigned_abs()
}
