//! A session turns an importer's blocks into signals.
//!
//! An importer feeds *blocks* (consecutive samples of one signal, stamped or not) of *sources* (files), and reports
//! when a source is done. The session creates signals, places blocks (the clock in `isochrony-time` interprets stamps),
//! detects duplicates and late blocks, records events, and commits at intervals.
//!
//! Invariants:
//! - a commit holds either all of a source with its provenance or nothing of it, so the known sources are exactly the
//!   committed ones, and a repeated import continues there;
//! - the clock sees each block with the next one's stamp if there is one: the last block of a signal is held until the
//!   next comes, and blocks before the end of what is stored until later ones decide ([`undecided`]); at most
//!   [`MAX_HELD_BYTES`] bytes in all.

mod comparison;
mod edge_values;
mod held;
mod input;
mod placement;
pub(crate) mod provenance;
mod separation;
mod sources;
mod stamped_blocks;
mod summary;
mod target;
mod undecided;

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use isochrony_store::{Store, StoreError};
use isochrony_time::Stamp;

use crate::{IngestError, Problem, Problems};

use comparison::SourceComparison;
use held::HeldBlock;
pub use input::{Block, SessionOptions, Spec, StampedBlocks};
pub(crate) use placement::{NextStamp, PlacedBlock, Sequence};
pub(crate) use provenance::{EarlierImport, KnownFiles};
use sources::{Source, SourceReport};
pub use summary::{SignalSummary, Summary};
use target::Target;

const MAX_HELD_BYTES: usize = 64 << 20;

/// An import into a store.
///
/// ```
/// use isochrony_ingest::{Block, Session, SessionOptions, Spec};
/// use isochrony_segment::DType;
/// use isochrony_store::{Mode, Store};
/// use isochrony_time::{Fixed, Rate, Stamp, civil};
///
/// let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path().join("a.iso"), Mode::Create)?;
/// let mut session = Session::new(&store, SessionOptions::default())?;
/// if !session.known("tape1.dat", 4, None)? {
///     let stamp = Stamp::new(civil::parse("2010-03-01T00:00:00Z")?, Fixed::from_int(1000));
///     session.block(&Block {
///         signal: "hydrophone/left",
///         spec: &Spec::new(DType::U8, Rate::from_hz(48_000)?),
///         bytes: &[1, 2, 3, 4],
///         stamp: Some(stamp),
///         source: "tape1.dat",
///     })?;
///     session.done("tape1.dat", 4, None)?;
/// }
/// let summary = session.finish()?;
/// assert_eq!((summary.files, summary.signals[0].samples), (1, 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    store: Store,
    options: SessionOptions,
    targets: BTreeMap<String, Target>,
    /// Unsettled sources, in the order of their first blocks.
    sources: BTreeMap<u64, Source>,
    open: HashMap<String, u64>,
    comparisons: HashMap<(u64, String), SourceComparison>,
    unfinished: BTreeMap<String, SourceReport>,
    next_source: u64,
    held_bytes: usize,
    /// Provenance of all signals, once read.
    known: Option<KnownFiles>,
    /// Provenance of signals that are asked for repeatedly.
    kept: HashMap<String, KnownFiles>,
    summary: Summary,
    uncommitted: u64,
    committed_at: Instant,
    began: Instant,
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
        options.check()?;
        Ok(Self {
            store: store.clone(),
            options,
            targets: BTreeMap::new(),
            sources: BTreeMap::new(),
            open: HashMap::new(),
            comparisons: HashMap::new(),
            unfinished: BTreeMap::new(),
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

    /// Whether a source was imported whole, with this size and version (such as its modification time); it then counts
    /// as skipped. The first call reads all provenance.
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
            let mut known = KnownFiles::default();
            for name in self.store.names()? {
                known.add_events(self.store.signal(&name)?.events());
            }
            self.known = Some(known);
        }
        let before = self.known.as_ref().and_then(|known| known.get(source));
        let known = before.is_some_and(|before| before.bytes == size && before.version == version);
        self.summary.skipped += u64::from(known);
        Ok(known)
    }

    /// Stores a block. Blocks of a signal come in time order.
    ///
    /// # Errors
    /// [`IngestError::Mismatch`], [`IngestError::EmptyBlock`], [`StoreError::DTypeMismatch`],
    /// [`StoreError::InvalidName`], [`StoreError::PartialSample`]: the block is not stored, and the caller may
    /// [`reject`](Self::reject) the source and continue. After a [fatal](IngestError::is_fatal) error the session is
    /// unusable.
    pub fn block(&mut self, block: &Block<'_>) -> Result<(), IngestError> {
        if block.bytes.is_empty() {
            return Err(IngestError::EmptyBlock);
        }
        self.target(block.signal, block.spec)?
            .check_bytes(block.bytes)?;
        let source = self.source(block.source);
        let same = self.count_stored(source, block)?;
        if same == 0 {
            return self.take(source, block);
        }
        let rest = &block.bytes[same * block.spec.format.size()..];
        if rest.is_empty() {
            return Ok(());
        }
        let stamp = match block.stamp {
            Some(stamp) => self.stamp_behind(block.signal, &stamp, same as i64)?,
            None => None,
        };
        let rest = Block {
            bytes: rest,
            stamp,
            ..*block
        };
        self.take(source, &rest)
    }

    fn take(&mut self, source: u64, block: &Block<'_>) -> Result<(), IngestError> {
        let held = self.targets.get(block.signal);
        let copy = held.is_some_and(|target| target.holds_copy(block.bytes, block.stamp.as_ref()));
        // A copy does not confirm a block's stamp.
        self.release(block.signal, block.stamp.as_ref().filter(|_| !copy))?;
        let target = self.targets.get(block.signal);
        let joins = |target: &Target| {
            target
                .undecided
                .as_ref()
                .is_some_and(|undecided| undecided.is_of(source))
        };
        if block.stamp.is_none() && target.is_some_and(joins) {
            let held = HeldBlock::new(source, block.bytes, None);
            return self.join_undecided(block.signal, held);
        }
        self.separate(source, block)?;
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
        if self.held_bytes + block.bytes.len() > MAX_HELD_BYTES {
            self.release_memory()?;
        }
        if block.bytes.len() > MAX_HELD_BYTES {
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
            target.hold(HeldBlock::new(source, block.bytes, block.stamp));
        }
        Ok(())
    }

    /// By the source's own rate.
    fn stamp_behind(
        &self,
        signal: &str,
        stamp: &Stamp,
        samples: i64,
    ) -> Result<Option<Stamp>, IngestError> {
        let Some(target) = self.targets.get(signal) else {
            return Ok(None);
        };
        let civil = stamp.civil.checked_add(target.duration(samples)?);
        Ok(civil.map(|civil| Stamp::new(civil, stamp.resolution)))
    }

    /// Ends a source, which is known from now on. Commits if due.
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
        self.comparisons.retain(|(source, _), _| *source != number);
        if let Some(source) = self.sources.get_mut(&number) {
            source.done = Some((size, version));
        }
        self.settle(number);
        if !self.is_due() {
            return Ok(());
        }
        self.release_held()?;
        // Later blocks decide, unless it takes too long.
        if self.is_undecided() && self.uncommitted < self.options.commit_bytes.saturating_mul(2) {
            return Ok(());
        }
        self.commit()
    }

    pub(crate) fn is_due(&self) -> bool {
        self.uncommitted >= self.options.commit_bytes
            || (self.uncommitted > 0 && self.committed_at.elapsed() >= self.options.commit_every)
    }

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

    /// Refuses a source. Its blocks so far stay, and it is not known.
    pub fn reject(&mut self, source: &str, error: &IngestError) {
        self.reject_as(Problem::new(source, error));
    }

    /// As [`reject`](Self::reject), with the importer's reason.
    pub fn reject_as(&mut self, problem: Problem) {
        self.forget(&problem.path);
        self.summary.problems.push(problem);
    }

    /// Makes everything so far durable, with the provenance of finished sources.
    ///
    /// # Errors
    /// Those of the store; what was pending remains so.
    pub fn commit(&mut self) -> Result<(), IngestError> {
        self.release_all()?;
        // A crash would repeat an unfinished source.
        if self
            .sources
            .values()
            .any(|source| source.done.is_none() && !source.parts.is_empty())
        {
            return Ok(());
        }
        for target in self.targets.values_mut() {
            target.queue_provenance()?;
        }
        self.store.commit(true)?;
        self.uncommitted = 0;
        self.committed_at = Instant::now();
        Ok(())
    }

    /// Commits, updates the store's tables and returns the summary.
    ///
    /// # Errors
    /// Those of the store.
    pub fn finish(mut self) -> Result<Summary, IngestError> {
        self.open.clear();
        self.release_all()?;
        for source in std::mem::take(&mut self.sources).into_values() {
            self.report(source);
        }
        self.report_unfinished();
        self.commit()?;
        self.store.checkpoint()?;
        let mut summary = self.summary;
        summary.elapsed_s = self.began.elapsed().as_secs_f64();
        for target in self.targets.into_values() {
            summary.signals.push(target.summary()?);
        }
        Ok(summary)
    }

    pub(crate) fn take_known(&mut self, signal: &str) -> Result<KnownFiles, IngestError> {
        if let Some(known) = self.kept.remove(signal) {
            return Ok(known);
        }
        let mut known = KnownFiles::default();
        if self.store.contains(signal)? {
            known.add_events(self.store.signal(signal)?.events());
        }
        Ok(known)
    }

    pub(crate) fn keep_known(&mut self, signal: &str, known: KnownFiles) {
        self.kept.insert(signal.into(), known);
    }

    /// From now on, blocks before the present end are late.
    pub(crate) fn set_late_boundary(&mut self) -> Result<(), IngestError> {
        self.targets
            .values_mut()
            .try_for_each(Target::set_late_boundary)
    }

    pub(crate) fn problems(&mut self) -> &mut Problems {
        &mut self.summary.problems
    }

    pub(crate) fn cancelled(&mut self) {
        self.summary.cancelled = true;
    }
}
