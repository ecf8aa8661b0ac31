//! From blocks to stored samples: the sources that are open, the blocks that are held, and what is told of both.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use isochrony_time::Stamp;

use super::provenance::Imported;
use super::target::Target;
use super::{Placed, Sequence, Session, Spec};
use crate::{IngestError, Problem};

/// A source of which blocks were fed.
#[derive(Default)]
pub(super) struct Source {
    pub(super) name: String,
    /// Blocks that are held.
    pub(super) waiting: usize,
    /// Per signal, where its samples went.
    pub(super) parts: BTreeMap<String, Part>,
    /// Bytes and version, once it is done.
    pub(super) done: Option<(u64, Option<i64>)>,
    /// More of it follows.
    pub(super) part: bool,
}

pub(super) struct Part {
    index: i64,
    samples: i64,
    stored: bool,
}

impl Session {
    /// Counts samples that the store holds already.
    pub(crate) fn count_copied(&mut self, source: u64, signal: &str, samples: i64) {
        let part = self
            .sources
            .get_mut(&source)
            .and_then(|source| source.parts.get_mut(signal));
        if let Some(part) = part {
            part.samples += samples;
        }
    }

    /// As if a source had not been begun.
    pub(crate) fn forget(&mut self, source: &str) {
        if let Some(number) = self.open.remove(source) {
            self.sources.remove(&number);
        }
    }

    /// Counts a file of a signal that was imported before.
    pub(crate) fn count_known(&mut self, signal: &str, spec: &Spec) -> Result<(), IngestError> {
        self.summary.known += 1;
        self.target(signal, spec)?.known += 1;
        Ok(())
    }

    /// The target of a signal, which is created if it does not exist.
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

    /// Stores the block held for a signal, knowing the stamp of the next one.
    pub(super) fn release(
        &mut self,
        signal: &str,
        next: Option<&Stamp>,
    ) -> Result<(), IngestError> {
        let Some(held) = self.targets.get_mut(signal).and_then(Target::unhold) else {
            return Ok(());
        };
        self.held_bytes -= held.bytes.len();
        if let Some(source) = self.sources.get_mut(&held.source) {
            source.waiting -= 1;
        }
        let stored = self.put(
            held.source,
            signal,
            &held.bytes,
            held.stamp.as_ref(),
            next,
            Sequence::Unknown,
        );
        self.settle(held.source);
        match stored {
            Err(error) if !error.is_fatal() => {
                // The error is of an earlier source than the one being fed.
                if let Some(source) = self.sources.remove(&held.source) {
                    self.open.remove(&source.name);
                    self.summary
                        .problems
                        .push(Problem::new(source.name, &error));
                }
                Ok(())
            }
            outcome => outcome.map(|_| ()),
        }
    }

    pub(super) fn release_all(&mut self) -> Result<(), IngestError> {
        let held = self.targets.iter().filter(|(_, target)| target.holds());
        let names: Vec<String> = held.map(|(name, _)| name.clone()).collect();
        names.iter().try_for_each(|name| self.release(name, None))
    }

    /// Stores a block of a signal whose target exists.
    pub(crate) fn put(
        &mut self,
        source: u64,
        signal: &str,
        bytes: &[u8],
        stamp: Option<&Stamp>,
        next: Option<&Stamp>,
        sequence: Sequence,
    ) -> Result<Placed, IngestError> {
        let Some(target) = self.targets.get_mut(signal) else {
            return Ok(Placed::duplicate(0, 0));
        };
        let name = self
            .sources
            .get(&source)
            .map_or_else(String::new, |source| source.name.clone());
        let placed = target.put(&name, bytes, stamp, next, sequence)?;
        if placed.stored {
            self.uncommitted += bytes.len() as u64;
            self.summary.bytes += bytes.len() as u64;
        }
        if let Some(source) = self.sources.get_mut(&source) {
            let part = source.parts.entry(signal.into()).or_insert(Part {
                index: placed.index,
                samples: 0,
                stored: false,
            });
            part.index = part.index.min(placed.index);
            part.samples += placed.samples;
            part.stored |= placed.stored;
        }
        if placed.overlaps() {
            let (signal, index) = (signal.to_owned(), placed.index);
            let error = IngestError::Overlap { signal, index };
            self.summary.problems.push(Problem::new(name, &error));
        }
        Ok(placed)
    }

    /// Passes a finished source on to the provenance of its signals.
    pub(super) fn settle(&mut self, number: u64) {
        let ready = |source: &Source| source.done.is_some() && source.waiting == 0;
        if !self.sources.get(&number).is_some_and(ready) {
            return;
        }
        let Some(source) = self.sources.remove(&number) else {
            return;
        };
        let (bytes, version) = source.done.unwrap_or_default();
        let stored = source.parts.values().any(|part| part.stored);
        if let Some((signal, part)) = source.parts.first_key_value().filter(|_| !stored) {
            let (signal, index) = (signal.clone(), part.index);
            let error = IngestError::Duplicate { signal, index };
            self.summary
                .problems
                .push(Problem::new(&*source.name, &error));
        }
        for (signal, part) in source.parts {
            if let Some(target) = self.targets.get_mut(&signal) {
                let file = Imported {
                    source: source.name.clone(),
                    bytes,
                    index: part.index,
                    samples: part.samples,
                    version,
                };
                for known in self.known.iter_mut().chain(self.kept.get_mut(&signal)) {
                    known.add(&file);
                }
                target.settle(file, part.stored, source.part);
            }
        }
        if source.part {
            // Counted with its last part.
        } else if stored {
            self.summary.files += 1;
        } else {
            self.summary.duplicates += 1;
        }
        // Even a duplicate is told, so that it is known the next time.
        self.uncommitted += 1;
    }
}
