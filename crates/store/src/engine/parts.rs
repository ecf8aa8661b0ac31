//! Parts of the writer's state of a signal.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::compact::CompactTables;
use super::crc::Checksums;
use super::proofs::ChecksummedRange;
use super::table_stamps::TableStamps;
use super::tail::{TailChecksum, first_of};
use crate::meta::SignalMeta;
use crate::op::{Op, SignalId};
use crate::version::DataVersion;

#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub(crate) name: Arc<str>,
    pub(crate) meta: Arc<SignalMeta>,
    pub(crate) end: i64,
    /// Checksum of the last, partial chunk, if known.
    pub(crate) tail: Option<TailChecksum>,
    pub(crate) data: Arc<DataVersion>,
    /// `None` if an earlier version's log does not state them.
    pub(crate) tables: Option<TableStamps>,
    pub(crate) compact: Option<CompactTables>,
}

impl Base {
    pub(crate) fn new(name: &str, meta: &SignalMeta) -> Self {
        Self {
            name: name.into(),
            meta: Arc::new(meta.clone()),
            end: 0,
            tail: None,
            data: Arc::default(),
            tables: Some(TableStamps::default()),
            compact: Some(CompactTables::default()),
        }
    }

    pub(crate) fn full_chunks(&self) -> u64 {
        self.end.max(0).cast_unsigned() / self.meta.chunk_samples.max(1)
    }

    /// `rows`: of `crc` at the last checkpoint. A compact signal gets the array with its first row.
    pub(crate) fn has_checksums(&self, rows: u64) -> bool {
        self.compact.is_none() || rows > 0
    }
}

impl Base {
    pub(crate) fn read_tail(&mut self, chunk: u64, crc: u32) {
        self.tail = TailChecksum::from_crc(chunk, crc, self.end, &self.meta).or(self.tail);
    }

    pub(crate) fn tail_stretch(&self) -> Option<ChecksummedRange> {
        let tail = self.tail?;
        let range = first_of(tail.end, &self.meta)..tail.end;
        let crc = tail.crc;
        Some(ChecksummedRange { range, crc })
    }

    pub(crate) fn drop_stale_tail(&mut self, op: &Op) {
        self.tail = self.tail.and_then(|tail| tail.after(op, &self.meta));
    }

    pub(crate) fn tail_op(&self, id: SignalId) -> Option<Op> {
        let tail = self.tail.filter(|tail| tail.end == self.end)?;
        Some(tail.op(id, &self.meta))
    }

    pub(crate) fn checksums(&self) -> Checksums {
        let Some(tail) = self.tail.filter(|tail| tail.end == self.end) else {
            return Checksums::default();
        };
        let first = first_of(tail.end, &self.meta);
        let seen = (tail.end - first).cast_unsigned() * self.meta.format.size() as u64;
        let chunk = tail.end.cast_unsigned() / self.meta.chunk_samples.max(1);
        Checksums::continuing(chunk, seen, tail.crc)
    }
}

/// What a power cut may lose, relative to the signal's folder.
#[derive(Debug, Default)]
pub(crate) struct DirtyFiles {
    pub(crate) shards: BTreeSet<u64>,
    pub(crate) identity: BTreeSet<&'static str>,
    pub(crate) folders: BTreeSet<PathBuf>,
    /// Names that become durable when those folders are synced.
    pub(crate) pending_names: BTreeSet<PathBuf>,
    /// Folders above the signal's, as paths.
    pub(crate) parents: BTreeSet<PathBuf>,
}

impl DirtyFiles {
    /// Adds what is, or after a failure is again, not durable.
    pub(crate) fn add(&mut self, other: Self) {
        self.shards.extend(other.shards);
        self.identity.extend(other.identity);
        self.folders.extend(other.folders);
        self.pending_names.extend(other.pending_names);
        self.parents.extend(other.parents);
    }

    pub(crate) fn take_names(&mut self) -> Self {
        Self {
            folders: std::mem::take(&mut self.folders),
            pending_names: std::mem::take(&mut self.pending_names),
            parents: std::mem::take(&mut self.parents),
            ..Self::default()
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct PendingSamples {
    /// While few, they are in the operations.
    pub(crate) small_bytes: usize,
    /// Too many for operations: shards are synced instead.
    pub(crate) bulk: bool,
    /// Operation that contiguous samples may extend.
    pub(crate) last_samples: Option<usize>,
    /// Shards with new samples or a write mark.
    pub(crate) shards: BTreeSet<u64>,
}
