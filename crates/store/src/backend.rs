//! Access to an open store: as its only writer or as a live reader.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use isochrony_segment::{Buffer, BufferKind};

use crate::engine::io::failed;
use crate::engine::source::Sources;
use crate::engine::table_stamps::TableStamps;
use crate::engine::{Engine, Reader, vanished};
use crate::error::StoreError;
use crate::forked::ForkedReaders;
use crate::layout::flat::Flat;
use crate::lease::Copies;
use crate::media::{Media, MediaFile};
use crate::memory_blocks::MemoryBlocks;
use crate::op::SignalId;
use crate::snapshot::pinned::PinnedStore;
use crate::state::SignalState;

enum Access {
    Writer(Engine),
    Reader(Box<Reader>),
}

pub(crate) struct Backend {
    path: PathBuf,
    access: Access,
    closed: AtomicBool,
    pub(crate) memory_blocks: MemoryBlocks,
    pub(crate) copies: Copies,
    /// Shown until a refresh instead of the newest commit.
    pinned: RwLock<Option<Arc<PinnedStore>>>,
    forked: ForkedReaders,
}

macro_rules! either {
    ($self:ident, $action:expr, $engine:ident => $body:expr) => {{
        $self.check_open($action)?;
        match &$self.access {
            Access::Writer($engine) => $body,
            Access::Reader(reader) => {
                let $engine = $self.own_reader()?.unwrap_or(reader);
                $body
            }
        }
    }};
}

/// As `either`, if the writer needs only a signal's lock.
macro_rules! either_of {
    ($self:ident, $id:expr, $action:expr, $engine:ident => $body:expr) => {{
        $self.check_open($action)?;
        match (&$self.access, $self.own_reader()?) {
            (Access::Writer($engine), Some(_)) if $engine.is_free($id) => $body,
            (_, Some($engine)) => $body,
            (Access::Writer($engine), None) => $body,
            (Access::Reader($engine), None) => $body,
        }
    }};
}

macro_rules! either_of_samples {
    ($self:ident, $engine:ident => $body:expr) => {{
        $self.check_open("read samples")?;
        match (&$self.access, $self.own_reader()?) {
            (_, Some($engine)) => $body,
            (Access::Writer($engine), None) => $body,
            (Access::Reader($engine), None) => $body,
        }
    }};
}

impl Backend {
    pub(crate) fn writer(path: &Path, engine: Engine) -> Self {
        Self::new(path, Access::Writer(engine))
    }

    pub(crate) fn reader(path: &Path, reader: Reader) -> Self {
        Self::new(path, Access::Reader(Box::new(reader)))
    }

    fn new(path: &Path, access: Access) -> Self {
        Self {
            path: path.into(),
            access,
            closed: AtomicBool::new(false),
            memory_blocks: MemoryBlocks::default(),
            copies: Copies::default(),
            pinned: RwLock::default(),
            forked: ForkedReaders::new(),
        }
    }

    pub(crate) fn pin(&self, pinned: PinnedStore) {
        *self.pinned.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(pinned));
    }

    fn pinned(&self) -> Option<Arc<PinnedStore>> {
        if let Access::Writer(_) = &self.access {
            return None;
        }
        let pinned = self.pinned.read().unwrap_or_else(PoisonError::into_inner);
        pinned.clone()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_writable(&self) -> bool {
        // A writer's forked child must not change files, not even views.
        matches!(&self.access, Access::Writer(engine) if engine.check_process("write").is_ok())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn own_reader(&self) -> Result<Option<&Reader>, StoreError> {
        match self.forked.is_here() {
            true => self.forked.reader(&self.path, &self.media()),
            false => Ok(None),
        }
    }

    fn check_open(&self, action: &'static str) -> Result<(), StoreError> {
        if self.is_closed() {
            return Err(StoreError::Closed {
                path: self.path.clone(),
                action,
            });
        }
        Ok(())
    }

    pub(crate) fn engine(&self, action: &'static str) -> Result<&Engine, StoreError> {
        self.check_open(action)?;
        match &self.access {
            Access::Writer(engine) => {
                engine.check_process(action)?;
                Ok(engine)
            }
            Access::Reader(reader) if reader.media().is_remote() => {
                let path = self.path.clone();
                Err(StoreError::RemoteReadOnly { path, action })
            }
            Access::Reader(_) => Err(StoreError::ReadOnly {
                path: self.path.clone(),
                action,
            }),
        }
    }

    /// Fails if the store is no longer in place, for renaming files.
    pub(crate) fn engine_in_place(&self, action: &'static str) -> Result<&Engine, StoreError> {
        let engine = self.engine(action)?;
        vanished::check(&**engine.media(), &self.path, action)?;
        Ok(engine)
    }

    /// Replaces the error if the store has vanished.
    pub(crate) fn explain<T>(
        &self,
        action: &'static str,
        result: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        result.map_err(|error| {
            let uuid = match &self.access {
                Access::Writer(engine) => engine.uuid(),
                Access::Reader(reader) => reader.uuid(),
            };
            vanished::explain(&*self.media(), &self.path, uuid, action, error)
        })
    }

    pub(crate) fn catalogue(&self) -> Result<Vec<(SignalId, String)>, StoreError> {
        if let Some(pinned) = self.pinned() {
            self.check_open("list signals")?;
            return Ok(pinned.catalogue());
        }
        Ok(either!(self, "list signals", x => x.catalogue()))
    }

    pub(crate) fn find(&self, name: &str) -> Result<Option<SignalId>, StoreError> {
        if let Some(pinned) = self.pinned() {
            self.check_open("look up a signal")?;
            return Ok(pinned.find(name));
        }
        Ok(either!(self, "look up a signal", x => x.find(name)))
    }

    pub(crate) fn state(&self, id: SignalId) -> Result<Arc<SignalState>, StoreError> {
        let newest = || self.newest_state(id);
        let pinned = self.pinned().and_then(|pinned| pinned.state(id, newest));
        pinned.unwrap_or_else(newest)
    }

    /// `None` if the signal was created since the last commit.
    pub(crate) fn committed_state(
        &self,
        id: SignalId,
    ) -> Result<Option<Arc<SignalState>>, StoreError> {
        match (&self.access, self.pinned()) {
            (Access::Writer(engine), None) => {
                let state = engine.committed_state(id);
                self.explain("read a signal", state)
            }
            _ => self.state(id).map(Some),
        }
    }

    /// Ignores a shown snapshot.
    pub(crate) fn newest_state(&self, id: SignalId) -> Result<Arc<SignalState>, StoreError> {
        let state = either_of!(self, id, "read a signal", x => x.state(id));
        self.explain("read a signal", state)
    }

    /// Bytes of samples in one shard.
    pub(crate) fn read(
        &self,
        shown: &SignalState,
        start: i64,
        count: usize,
    ) -> Result<Buffer, StoreError> {
        let id = shown.id;
        let range = start..start.saturating_add_unsigned(count as u64);
        let copies = self.copies.are_asked_for();
        let samples = |part: Range<i64>| {
            let count = usize::try_from(part.end - part.start).unwrap_or(0);
            let read = either_of_samples!(self, x => x.read_as(shown, part.start, count));
            let read = self.explain("read samples", read)?;
            match read.kind() {
                BufferKind::Mapped if copies => self.copied(shown, &part, &read),
                _ => Ok(read),
            }
        };
        let read = match self.memory_blocks.read(&range, samples) {
            Ok(Some(held)) => Ok(held),
            Ok(None) => samples(range.clone()),
            Err(error) => Err(error),
        };
        if copies {
            let state = either_of!(self, id, "read samples", x => x.state(id))?;
            if state.gaps.first_within(range).is_some() {
                // Released since, perhaps during the copy.
                return Err(StoreError::ScratchFree {
                    start,
                    end: start.saturating_add_unsigned(count as u64),
                    whose: String::new(),
                });
            }
        }
        read
    }

    /// Reads a mapped shard: cheaper than page faults.
    fn copied(
        &self,
        state: &SignalState,
        range: &Range<i64>,
        mapped: &Buffer,
    ) -> Result<Buffer, StoreError> {
        let at = range.start.cast_unsigned() * state.meta.format.size() as u64;
        let span = Flat::data(&state.meta)
            .spans(at, mapped.len() as u64)
            .next();
        let file = match &span {
            Some(span) => either_of_samples!(self, x => x.shard_file(state, span.shard)),
            None => None,
        };
        let (Some(span), Some(file)) = (span, file) else {
            return self.copies.filled(mapped.len(), |block| {
                block.copy_from_slice(mapped.bytes());
                Ok(())
            });
        };
        self.copies.filled(mapped.len(), |block| {
            let path = || self.data_shard_path(state.id, span.shard);
            let have = (file.read_at(span.offset, block))
                .map_err(|source| failed(source, "read", &path().unwrap_or_default()))?;
            if have < block.len() {
                return Err(StoreError::MissingSamples {
                    path: path()?,
                    have: span.offset + have as u64,
                    need: span.offset + block.len() as u64,
                });
            }
            Ok(())
        })
    }

    pub(crate) fn shard_samples(&self, id: SignalId) -> Result<i64, StoreError> {
        either_of!(self, id, "read samples", x => x.shard_samples(id))
    }

    pub(crate) fn media(&self) -> Arc<dyn Media> {
        match &self.access {
            Access::Writer(engine) => Arc::clone(engine.media()),
            Access::Reader(reader) => Arc::clone(reader.media()),
        }
    }

    pub(crate) fn data_shard_path(&self, id: SignalId, shard: u64) -> Result<PathBuf, StoreError> {
        either_of!(self, id, "look up a shard", x => x.data_shard_path(id, shard))
    }

    /// `None` if not open, not flat, or possibly incomplete.
    pub(crate) fn shard_file(
        &self,
        state: &SignalState,
        shard: u64,
    ) -> Result<Option<Arc<dyn MediaFile>>, StoreError> {
        if !self.memory_blocks.is_empty() || self.copies.are_asked_for() {
            return Ok(None);
        }
        Ok(either_of_samples!(self, x => x.shard_file(state, shard)))
    }

    pub(crate) fn sources(&self) -> Result<&Sources, StoreError> {
        Ok(match (&self.access, self.own_reader()?) {
            (_, Some(reader)) => reader.sources(),
            (Access::Writer(engine), None) => engine.sources(),
            (Access::Reader(reader), None) => reader.sources(),
        })
    }

    pub(crate) fn chunk_crc(&self, id: SignalId, chunk: u64) -> Result<Option<u32>, StoreError> {
        let crc = either_of!(self, id, "look up a checksum", x => x.chunk_crc(id, chunk));
        self.explain("look up a checksum", crc)
    }

    /// At the last checkpoint; `None` if unknown to the log.
    pub(crate) fn table_stamps(&self, id: SignalId) -> Result<Option<TableStamps>, StoreError> {
        either_of!(self, id, "look up a table", x => x.table_stamps(id))
    }

    /// Checksum of the samples after the last full chunk, and their end.
    pub(crate) fn tail_crc(&self, id: SignalId) -> Result<Option<(i64, u32)>, StoreError> {
        either_of!(self, id, "look up a checksum", x => x.tail_crc(id))
    }

    pub(crate) fn signal_path(&self, id: SignalId) -> Result<PathBuf, StoreError> {
        either_of!(self, id, "look up a signal", x => x.signal_path(id))
    }

    pub(crate) fn is_compact(&self, id: SignalId) -> Result<bool, StoreError> {
        either_of!(self, id, "look up a signal", x => x.is_compact(id))
    }

    pub(crate) fn has_checksums(&self, id: SignalId) -> Result<bool, StoreError> {
        either_of!(self, id, "look up a signal", x => x.has_checksums(id))
    }

    pub(crate) fn sequence(&self) -> Result<u64, StoreError> {
        if let Some(pinned) = self.pinned() {
            self.check_open("read the sequence number")?;
            return Ok(pinned.sequence);
        }
        self.newest_sequence()
    }

    /// Ignores a shown snapshot.
    pub(crate) fn newest_sequence(&self) -> Result<u64, StoreError> {
        Ok(either!(self, "read the sequence number", x => x.sequence()))
    }

    pub(crate) fn uuid(&self) -> Result<uuid::Uuid, StoreError> {
        Ok(either!(self, "read the store's identity", x => x.uuid()))
    }

    pub(crate) fn is_stale(&self) -> bool {
        match &self.access {
            Access::Writer(_) => false,
            Access::Reader(reader) => reader.is_stale(),
        }
    }

    pub(crate) fn refresh(&self) -> Result<bool, StoreError> {
        self.check_open("refresh")?;
        match &self.access {
            Access::Writer(_) => Ok(false),
            Access::Reader(reader) => {
                let reader = self.own_reader()?.unwrap_or(reader);
                let refreshed = self.explain("refresh", reader.refresh())?;
                let mut pinned = self.pinned.write().unwrap_or_else(PoisonError::into_inner);
                let was_behind =
                    (pinned.take()).is_some_and(|pinned| pinned.sequence != reader.sequence());
                Ok(refreshed || was_behind)
            }
        }
    }

    pub(crate) fn refresh_if_moved(&self) -> Result<(), StoreError> {
        let own = self.own_reader()?;
        match &self.access {
            Access::Reader(reader)
                if self.pinned().is_some() || own.unwrap_or(reader).may_have_moved() =>
            {
                self.refresh().map(drop)
            }
            _ => self.check_open("refresh"),
        }
    }

    /// Reads new commits, but keeps showing a pinned snapshot.
    pub(crate) fn read_commits(&self) -> Result<(), StoreError> {
        self.check_open("read a snapshot")?;
        let own = self.own_reader()?;
        match &self.access {
            Access::Reader(reader) if own.unwrap_or(reader).may_have_moved() => {
                let refreshed = own.unwrap_or(reader).refresh();
                self.explain("read a snapshot", refreshed).map(drop)
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn is_written(&self) -> Result<bool, StoreError> {
        match &self.access {
            Access::Writer(_) => Ok(!self.is_closed()),
            Access::Reader(reader) => reader.is_written(),
        }
    }

    pub(crate) fn close(&self) -> Result<(), StoreError> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        match &self.access {
            Access::Writer(engine) => self.explain("close", engine.close()),
            Access::Reader(_) => Ok(()),
        }
    }
}
