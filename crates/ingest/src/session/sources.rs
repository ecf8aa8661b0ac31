use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use isochrony_time::{Fixed, Stamp};

use super::held::HeldBlock;
use super::provenance::ImportedFile;
use super::target::{FileOutcome, Target};
use super::{NextStamp, PlacedBlock, Sequence, Session, Spec};
use crate::{IngestError, Problem};

#[derive(Default)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) waiting: usize,
    pub(super) parts: BTreeMap<String, Part>,
    pub(super) done: Option<(u64, Option<i64>)>,
    /// More of it follows.
    pub(super) part: bool,
}

pub(super) struct Part {
    index: i64,
    /// Index after its last sample; gaps may make it exceed `samples`.
    end: i64,
    /// Samples received, duplicates included.
    samples: i64,
    stored: bool,
    overlap: Option<SharedSamples>,
    /// Samples stored already, with the same stamps.
    copied: Option<SharedSamples>,
}

struct SharedSamples {
    index: i64,
    samples: i64,
    civil: Range<Fixed>,
}

impl SharedSamples {
    fn add(shared: &mut Option<Self>, index: i64, samples: i64, civil: Range<Fixed>) {
        match shared {
            Some(shared) => {
                shared.index = shared.index.min(index);
                shared.samples += samples;
                shared.civil.start = shared.civil.start.min(civil.start);
                shared.civil.end = shared.civil.end.max(civil.end);
            }
            None => {
                *shared = Some(Self {
                    index,
                    samples,
                    civil,
                });
            }
        }
    }
}

impl Part {
    pub(super) fn at(index: i64) -> Self {
        Self {
            index,
            end: index,
            samples: 0,
            stored: false,
            overlap: None,
            copied: None,
        }
    }

    pub(super) fn end(&self) -> i64 {
        self.end
    }

    pub(super) fn count(&mut self, samples: i64, end: i64) {
        self.samples += samples;
        self.end = self.end.max(end);
    }

    fn add(&mut self, later: Self) {
        self.index = self.index.min(later.index);
        self.end = self.end.max(later.end);
        self.samples += later.samples;
        self.stored |= later.stored;
        for (shared, later) in [
            (&mut self.overlap, later.overlap),
            (&mut self.copied, later.copied),
        ] {
            if let Some(later) = later {
                SharedSamples::add(shared, later.index, later.samples, later.civil);
            }
        }
    }
}

#[derive(Default)]
pub(super) struct SourceReport {
    /// It was imported before and still holds that data.
    known: bool,
    parts: BTreeMap<String, Part>,
}

impl SourceReport {
    fn add(&mut self, signal: &str, part: Part) -> &Part {
        let first = part.index;
        let report = self.parts.entry(signal.into());
        let report = report.or_insert_with(|| Part::at(first));
        report.add(part);
        report
    }
}

impl Session {
    pub(crate) fn count_copied(&mut self, source: u64, signal: &str, samples: i64) {
        let part = self
            .sources
            .get_mut(&source)
            .and_then(|source| source.parts.get_mut(signal));
        if let Some(part) = part {
            part.samples += samples;
            part.end = part.end.max(part.index + part.samples);
        }
    }

    /// Discards a source as if it had not begun.
    pub(crate) fn forget(&mut self, source: &str) {
        if let Some(number) = self.open.remove(source)
            && let Some(source) = self.sources.remove(&number)
        {
            self.report(source);
        }
    }

    pub(crate) fn count_known(&mut self, signal: &str, spec: &Spec) -> Result<(), IngestError> {
        self.summary.skipped += 1;
        self.target(signal, spec)?.known += 1;
        Ok(())
    }

    pub(crate) fn target(&mut self, signal: &str, spec: &Spec) -> Result<&mut Target, IngestError> {
        let target = match self.targets.entry(signal.into()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                new.insert(Target::open(&self.store, signal, spec, &self.options)?)
            }
        };
        target.check(spec)?;
        Ok(target)
    }

    pub(crate) fn source(&mut self, name: &str) -> u64 {
        if let Some(number) = self.open.get(name) {
            return *number;
        }
        let number = self.next_source;
        self.next_source += 1;
        self.open.insert(name.into(), number);
        let source = Source {
            name: name.into(),
            ..Source::default()
        };
        self.sources.insert(number, source);
        number
    }

    /// Stores or sets aside the held block.
    pub(super) fn release(
        &mut self,
        signal: &str,
        next: Option<&Stamp>,
    ) -> Result<(), IngestError> {
        match self.targets.get_mut(signal).and_then(Target::unhold) {
            Some(held) => self.judge(signal, held, next),
            None => Ok(()),
        }
    }

    /// As [`put`](Self::put); `None` if refused, which is its source's problem.
    pub(super) fn put_held(
        &mut self,
        signal: &str,
        held: &HeldBlock,
        stamp: Option<&Stamp>,
        next: Option<&Stamp>,
        sequence: Sequence,
    ) -> Result<Option<PlacedBlock>, IngestError> {
        self.held_bytes -= held.bytes.len();
        if let Some(source) = self.sources.get_mut(&held.source) {
            source.waiting -= 1;
        }
        let next = next.map(NextStamp::from);
        let stored = self.put(held.source, signal, &held.bytes, stamp, next, sequence);
        match stored {
            Err(error) if !error.is_fatal() => {
                // The error belongs to an earlier source.
                if let Some(source) = self.sources.remove(&held.source) {
                    self.open.remove(&source.name);
                    let problem = Problem::new(&*source.name, &error);
                    self.report(source);
                    self.summary.problems.push(problem);
                }
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// Stores held blocks; those set aside may stay.
    pub(super) fn release_held(&mut self) -> Result<(), IngestError> {
        self.waiting(Target::holds)
            .iter()
            .try_for_each(|name| self.release(name, None))
    }

    /// Stores held blocks and those set aside, at the end.
    pub(super) fn release_all(&mut self) -> Result<(), IngestError> {
        self.release_held()?;
        self.waiting(|target| target.undecided.is_some())
            .iter()
            .try_for_each(|name| self.decide_remaining(name))
    }

    /// Stores held blocks and those set aside, to free memory.
    pub(super) fn release_memory(&mut self) -> Result<(), IngestError> {
        self.release_held()?;
        self.waiting(|target| target.undecided.is_some())
            .iter()
            .try_for_each(|name| self.decide_to_free_memory(name))
    }

    fn waiting(&self, which: impl Fn(&Target) -> bool) -> Vec<String> {
        let waiting = self.targets.iter().filter(|(_, target)| which(target));
        waiting.map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn put(
        &mut self,
        source: u64,
        signal: &str,
        bytes: &[u8],
        stamp: Option<&Stamp>,
        next: Option<NextStamp<'_>>,
        sequence: Sequence,
    ) -> Result<PlacedBlock, IngestError> {
        let Some(target) = self.targets.get_mut(signal) else {
            return Ok(PlacedBlock::duplicate(0, 0));
        };
        let name = self
            .sources
            .get(&source)
            .map_or_else(String::new, |source| source.name.clone());
        let placed = target.put(source, &name, bytes, stamp, next, sequence)?;
        let civil = match stamp {
            Some(stamp) => target.civil_range(bytes, stamp)?,
            None => Fixed::ZERO..Fixed::ZERO,
        };
        self.note_placed(source, signal, &placed, bytes.len() as u64, civil);
        Ok(placed)
    }

    pub(super) fn note_placed(
        &mut self,
        source: u64,
        signal: &str,
        placed: &PlacedBlock,
        bytes: u64,
        civil: Range<Fixed>,
    ) {
        if placed.stored {
            self.uncommitted += bytes;
            self.summary.bytes += bytes;
        }
        if let Some(source) = self.sources.get_mut(&source) {
            let part = source.parts.entry(signal.into());
            let part = part.or_insert_with(|| Part::at(placed.index));
            part.index = part.index.min(placed.index);
            part.end = part.end.max(placed.index + placed.samples);
            part.samples += placed.samples;
            part.stored |= placed.stored;
            if placed.overlaps {
                SharedSamples::add(&mut part.overlap, placed.index, placed.samples, civil);
            } else if !placed.stored {
                SharedSamples::add(&mut part.copied, placed.index, placed.samples, civil);
            }
        }
    }

    pub(super) fn note_overlap(
        &mut self,
        source: u64,
        signal: &str,
        index: i64,
        civil: Range<Fixed>,
    ) {
        let part = self
            .sources
            .get_mut(&source)
            .and_then(|source| source.parts.get_mut(signal));
        if let Some(part) = part {
            SharedSamples::add(&mut part.overlap, index, 0, civil);
        }
    }

    fn take_report(&mut self, name: &str) -> SourceReport {
        let known = self.known.as_ref().and_then(|known| known.get(name));
        self.unfinished.remove(name).unwrap_or(SourceReport {
            known: known.is_some(),
            parts: BTreeMap::new(),
        })
    }

    /// Reports as problems what a source shares with stored samples.
    pub(super) fn report(&mut self, source: Source) {
        let mut report = self.take_report(&source.name);
        for (signal, part) in source.parts {
            report.add(&signal, part);
        }
        self.report_shared(&source.name, &report);
    }

    /// Likewise for sources of which only parts came.
    pub(super) fn report_unfinished(&mut self) {
        for (name, report) in std::mem::take(&mut self.unfinished) {
            self.report_shared(&name, &report);
        }
    }

    fn report_shared(&mut self, name: &str, report: &SourceReport) {
        for (signal, part) in &report.parts {
            if let Some(shared) = &part.overlap {
                let error = IngestError::Overlap {
                    signal: signal.clone(),
                    index: shared.index,
                    start: shared.civil.start,
                    end: shared.civil.end,
                };
                self.summary.problems.push(Problem::new(name, &error));
            }
            // A source that has grown still holds its earlier data.
            let copied = part.copied.as_ref().filter(|_| part.stored);
            if let Some(shared) = copied.filter(|_| !report.known) {
                let error = IngestError::Repeated {
                    signal: signal.clone(),
                    index: shared.index,
                    samples: shared.samples,
                    start: shared.civil.start,
                    end: shared.civil.end,
                };
                self.summary.problems.push(Problem::new(name, &error));
            }
        }
    }

    pub(super) fn settle(&mut self, number: u64) {
        let ready = |source: &Source| source.done.is_some() && source.waiting == 0;
        if !self.sources.get(&number).is_some_and(ready) {
            return;
        }
        let Some(source) = self.sources.remove(&number) else {
            return;
        };
        let mut report = self.take_report(&source.name);
        let (bytes, version) = source.done.unwrap_or_default();
        for (signal, part) in source.parts {
            let file = ImportedFile {
                source: source.name.clone(),
                bytes,
                index: part.index,
                end: part.end,
                samples: part.samples.min(part.end - part.index),
                version,
            };
            let stored = report.add(&signal, part).stored;
            if let Some(target) = self.targets.get_mut(&signal) {
                for known in self.known.iter_mut().chain(self.kept.get_mut(&signal)) {
                    known.add(&file);
                }
                let outcome = match (source.part, stored, report.known) {
                    (true, ..) => FileOutcome::Part,
                    (_, true, _) => FileOutcome::Stored,
                    (_, _, true) => FileOutcome::Known,
                    _ => FileOutcome::Duplicate,
                };
                target.settle(file, outcome);
            }
        }
        // So that duplicates are known next time.
        self.uncommitted += 1;
        if source.part {
            self.unfinished.insert(source.name, report);
            return;
        }
        self.report_shared(&source.name, &report);
        if report.parts.values().any(|part| part.stored) {
            self.summary.files += 1;
            return;
        }
        if report.known {
            // Touched, or changed outside its samples.
            self.summary.skipped += 1;
            return;
        }
        self.summary.duplicates += 1;
        if let Some((signal, part)) = report.parts.first_key_value() {
            let (signal, index) = (signal.clone(), part.index);
            let error = IngestError::Duplicate { signal, index };
            let problem = Problem::new(&*source.name, &error);
            self.summary.problems.push(problem);
        }
    }
}
