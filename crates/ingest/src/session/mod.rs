//! A session: any importer's blocks become signals.
//!
//! An importer feeds *blocks* (consecutive samples of one signal, with a stamp where it has one) of *sources* (files),
//! and says when a source is done. The session creates signals, places every block (the clock in `isochrony-time`
//! decides what a stamp means), recognises duplicates and late blocks, tells events, and commits now and then.
//!
//! Data structures: one [`Target`] per signal; the sources that are open or wait for a held block; the blocks held.
//! Invariants:
//! - a commit never holds part of a source without the rest and its provenance, so what is known to be imported is
//!   exactly what was committed: an import that was killed goes on where it stopped when it is run again;
//! - the clock sees each block together with the stamp of the next one where there is one: an importer that does not
//!   tell it has its last block of a signal held until the next comes, at most [`MOST_HELD`] bytes in all.

mod edge;
mod place;
mod provenance;
mod summary;
mod target;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use isochrony_segment::DType;
use isochrony_store::{Store, StoreError};
use isochrony_time::{Rate, Stamp};
use serde_json::{Map, Value};

use crate::{IngestError, Problem, Problems};

pub(crate) use place::{Placed, Sequence};
use provenance::Imported;
pub(crate) use provenance::{Before, Known};
pub use summary::{SignalSummary, Summary};
use target::Target;

/// Bytes of blocks that wait for their successor, in all.
const MOST_HELD: usize = 64 << 20;

/// Options of a [`Session`]. Those of the clock apply to signals that the session creates: an existing signal keeps the
/// ones that it was created with, so that later imports continue alike.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionOptions {
    /// Largest disagreement between predicted and stamped time that is neither gap nor step, in ns, not negative;
    /// `None`: from the stamps themselves.
    pub gap_slip_ns: Option<i64>,
    /// Weight of the past in the running estimate of the rate, above 0 and at most 1; `None`: the clock's default.
    pub alpha: Option<f64>,
    /// Gaps longer than this take one inner chunk of index, in ns, above 0; `None`: 30 days.
    pub max_gap_ns: Option<i64>,
    /// A larger difference between the last value of a block and the first of the next, where they follow on, is told
    /// as a `value_jump` event; in units of the signal, above 0. `None`: not looked for.
    pub value_jump: Option<f64>,
    /// Bytes after which a commit is due.
    pub commit_bytes: u64,
    /// Time after which a commit is due.
    pub commit_every: Duration,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            gap_slip_ns: None,
            alpha: None,
            max_gap_ns: None,
            value_jump: None,
            commit_bytes: 256 << 20,
            commit_every: Duration::from_secs(10),
        }
    }
}

/// What a block's signal is: used to create it, and compared where it exists.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Type of the samples.
    pub dtype: DType,
    /// Nominal rate; one that differs by less than a thousandth from the signal's is the same.
    pub rate: Rate,
    /// Unit of calibrated values; empty if unknown.
    pub unit: String,
    /// Scale and offset: value = count * scale + offset.
    pub calibration: Option<(f64, f64)>,
    /// Attributes of the signal, set when it is created.
    pub attributes: Map<String, Value>,
}

impl Spec {
    /// Uncalibrated samples.
    #[must_use]
    pub fn new(dtype: DType, rate: Rate) -> Self {
        Self {
            dtype,
            rate,
            unit: String::new(),
            calibration: None,
            attributes: Map::new(),
        }
    }
}

/// Consecutive samples of one signal.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// Name of the signal.
    pub signal: &'a str,
    /// What the signal is.
    pub spec: &'a Spec,
    /// Whole samples in this machine's byte order, at least one.
    pub bytes: &'a [u8],
    /// When the first was taken; `None`: they follow on the signal's last block.
    pub stamp: Option<Stamp>,
    /// The source that they come from.
    pub source: &'a str,
}

/// An import into a store. See the example in the crate's documentation.
pub struct Session {
    store: Store,
    options: SessionOptions,
    targets: BTreeMap<String, Target>,
    /// Sources that are not settled, by the order of their first block.
    sources: BTreeMap<u64, Source>,
    open: HashMap<String, u64>,
    next_source: u64,
    held_bytes: usize,
    /// What the store knew of all signals, once an importer asked.
    known: Option<Known>,
    /// What it knew of signals that are asked for again and again.
    kept: HashMap<String, Known>,
    summary: Summary,
    uncommitted: u64,
    committed_at: Instant,
    began: Instant,
}

/// A source of which blocks were fed.
#[derive(Default)]
struct Source {
    name: String,
    /// Blocks that are held.
    waiting: usize,
    /// Per signal, where its samples went.
    parts: BTreeMap<String, Part>,
    /// Bytes and version, once it is done.
    done: Option<(u64, Option<i64>)>,
    /// More of it follows.
    part: bool,
}

struct Part {
    index: i64,
    samples: i64,
    stored: bool,
}

impl Session {
    /// Begins an import into a store that is open for writing.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Closed`], [`IngestError::InvalidOption`].
    pub fn new(store: &Store, options: SessionOptions) -> Result<Self, IngestError> {
        if !store.is_writable() {
            let path = store.path().into();
            return Err(StoreError::ReadOnly {
                path,
                action: "import",
            }
            .into());
        }
        if let Some(jump) = options.value_jump.filter(|jump| !(*jump > 0.0)) {
            return Err(IngestError::InvalidOption {
                option: "value_jump",
                got: jump.to_string(),
                legal: "give a difference above 0",
            });
        }
        Ok(Self {
            store: store.clone(),
            options,
            targets: BTreeMap::new(),
            sources: BTreeMap::new(),
            open: HashMap::new(),
            next_source: 0,
            held_bytes: 0,
            known: None,
            kept: HashMap::new(),
            summary: Summary::default(),
            uncommitted: 0,
            committed_at: Instant::now(),
            began: Instant::now(),
        })
    }

    /// Whether a source was imported whole before, with this size and version (such as the time of its last change).
    /// If so it counts as skipped. The first call reads the provenance of all signals.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn known(
        &mut self,
        source: &str,
        size: u64,
        version: Option<i64>,
    ) -> Result<bool, IngestError> {
        if self.known.is_none() {
            let mut known = Known::default();
            for name in self.store.names()? {
                known.learn(self.store.signal(&name)?.events());
            }
            self.known = Some(known);
        }
        let before = self.known.as_ref().and_then(|known| known.get(source));
        let known = before.is_some_and(|before| before.bytes == size && before.version == version);
        self.summary.known += u64::from(known);
        Ok(known)
    }

    /// Takes in a block. Blocks of one signal come in the order of their time.
    ///
    /// # Errors
    /// About the block, which is then not stored: [`IngestError::Mismatch`], [`IngestError::EmptyBlock`], and of the
    /// store [`StoreError::DTypeMismatch`], [`StoreError::InvalidName`], [`StoreError::PartialSample`]; the caller may
    /// [`reject`](Self::reject) the source and go on. About the store, after which the session is of no more use:
    /// [`IngestError::is_fatal`] tells them apart.
    pub fn block(&mut self, block: &Block<'_>) -> Result<(), IngestError> {
        if block.bytes.is_empty() {
            return Err(IngestError::EmptyBlock);
        }
        self.target(block.signal, block.spec)?
            .check_bytes(block.bytes)?;
        let source = self.source(block.source);
        self.release(block.signal, block.stamp.as_ref())?;
        if block.stamp.is_none() {
            self.put(
                source,
                block.signal,
                block.bytes,
                None,
                None,
                Sequence::Unknown,
            )?;
            return Ok(());
        }
        if self.held_bytes + block.bytes.len() > MOST_HELD {
            self.release_all()?;
        }
        if block.bytes.len() > MOST_HELD {
            self.put(
                source,
                block.signal,
                block.bytes,
                block.stamp.as_ref(),
                None,
                Sequence::Unknown,
            )?;
            return Ok(());
        }
        self.held_bytes += block.bytes.len();
        if let Some(source) = self.sources.get_mut(&source) {
            source.waiting += 1;
        }
        if let Some(target) = self.targets.get_mut(block.signal) {
            target.hold(source, block.bytes, block.stamp);
        }
        Ok(())
    }

    /// All blocks of a source were fed: from here on it is known. Commits if one is due.
    ///
    /// # Errors
    /// Those of the store.
    pub fn done(
        &mut self,
        source: &str,
        size: u64,
        version: Option<i64>,
    ) -> Result<(), IngestError> {
        let number = self.source(source);
        self.open.remove(source);
        if let Some(source) = self.sources.get_mut(&number) {
            source.done = Some((size, version));
        }
        self.settle(number);
        if self.is_due() { self.commit() } else { Ok(()) }
    }

    /// Whether it is time for a commit.
    pub(crate) fn is_due(&self) -> bool {
        self.uncommitted >= self.options.commit_bytes
            || (self.uncommitted > 0 && self.committed_at.elapsed() >= self.options.commit_every)
    }

    /// Commits a source as far as it was fed, `bytes` of it; the rest counts as another source of the same name.
    pub(crate) fn commit_part(&mut self, source: &str, bytes: u64) -> Result<(), IngestError> {
        let number = self.source(source);
        self.open.remove(source);
        if let Some(source) = self.sources.get_mut(&number) {
            source.done = Some((bytes, None));
            source.part = true;
        }
        self.settle(number);
        self.commit()
    }

    /// A source cannot be imported. Blocks of it that were fed before stay, and it is not known.
    pub fn reject(&mut self, source: &str, error: &IngestError) {
        self.reject_as(Problem::new(source, error));
    }

    /// As [`reject`](Self::reject), with a reason of the importer's own.
    pub fn reject_as(&mut self, problem: Problem) {
        self.forget(&problem.path);
        self.summary.problems.push(problem);
    }

    /// Makes everything up to here durable, provenance of finished sources included.
    ///
    /// # Errors
    /// Those of the store; what was pending is still pending then.
    pub fn commit(&mut self) -> Result<(), IngestError> {
        self.release_all()?;
        // Samples of a source that is not done would be imported again after a crash: its end is the commit point.
        if self
            .sources
            .values()
            .any(|source| source.done.is_none() && !source.parts.is_empty())
        {
            return Ok(());
        }
        for target in self.targets.values_mut() {
            target.tell()?;
        }
        self.store.commit(true)?;
        self.uncommitted = 0;
        self.committed_at = Instant::now();
        Ok(())
    }

    /// Commits, brings the store's tables up to date and reports.
    ///
    /// # Errors
    /// Those of the store.
    pub fn finish(mut self) -> Result<Summary, IngestError> {
        self.open.clear();
        self.release_all()?;
        self.sources.clear();
        self.commit()?;
        self.store.checkpoint()?;
        let mut summary = self.summary;
        summary.seconds = self.began.elapsed().as_secs_f64();
        for target in self.targets.into_values() {
            summary.signals.push(target.summary()?);
        }
        Ok(summary)
    }

    /// What the store knows of a signal's files.
    pub(crate) fn take_known(&mut self, signal: &str) -> Result<Known, IngestError> {
        if let Some(known) = self.kept.remove(signal) {
            return Ok(known);
        }
        let mut known = Known::default();
        if self.store.contains(signal)? {
            known.learn(self.store.signal(signal)?.events());
        }
        Ok(known)
    }

    /// Keeps it up to date until it is asked for again.
    pub(crate) fn keep_known(&mut self, signal: &str, known: Known) {
        self.kept.insert(signal.into(), known);
    }

    /// From here on, what is older than the samples stored by now is late.
    pub(crate) fn look_again(&mut self) -> Result<(), IngestError> {
        self.targets.values_mut().try_for_each(Target::look_again)
    }

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

    pub(crate) fn problems(&mut self) -> &mut Problems {
        &mut self.summary.problems
    }

    pub(crate) fn cancelled(&mut self) {
        self.summary.cancelled = true;
    }

    /// Counts a file of a signal that was imported before.
    pub(crate) fn count_known(&mut self, signal: &str, spec: &Spec) -> Result<(), IngestError> {
        self.summary.known += 1;
        self.target(signal, spec)?.known += 1;
        Ok(())
    }

    /// The target of a signal, which is created if it does not exist.
    pub(crate) fn target(&mut self, signal: &str, spec: &Spec) -> Result<&mut Target, IngestError> {
        if !self.targets.contains_key(signal) {
            let target = Target::open(&self.store, signal, spec, &self.options)?;
            self.targets.insert(signal.into(), target);
        }
        let target = self
            .targets
            .entry(signal.into())
            .or_insert_with(|| unreachable!("inserted above"));
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
    fn release(&mut self, signal: &str, next: Option<&Stamp>) -> Result<(), IngestError> {
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

    fn release_all(&mut self) -> Result<(), IngestError> {
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
    fn settle(&mut self, number: u64) {
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
