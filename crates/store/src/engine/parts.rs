//! Parts of a signal inside the writer: what it was at the last commit, what is not durable, what waits.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::small::SmallTables;
use super::stamps::Stamps;
use super::tail::Tail;
use crate::meta::SignalMeta;
use crate::version::DataVersion;

/// What a signal was at the last commit, without its tables.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub(crate) name: Arc<str>,
    pub(crate) meta: Arc<SignalMeta>,
    pub(crate) end: i64,
    /// Of the chunk that the end cuts short, where it is known.
    pub(crate) tail: Option<Tail>,
    pub(crate) data: Arc<DataVersion>,
    /// What the files of its tables are; `None` if a log of an earlier version does not say.
    pub(crate) tables: Option<Stamps>,
    /// The rows of its tables, if it is compact.
    pub(crate) small: Option<SmallTables>,
}

impl Base {
    /// A signal without samples.
    pub(crate) fn new(name: &str, meta: &SignalMeta) -> Self {
        Self {
            name: name.into(),
            meta: Arc::new(meta.clone()),
            end: 0,
            tail: None,
            data: Arc::default(),
            tables: Some(Stamps::default()),
            small: Some(SmallTables::default()),
        }
    }

    /// Inner chunks of `data` that are full.
    pub(crate) fn full_chunks(&self) -> u64 {
        self.end.max(0).cast_unsigned() / self.meta.chunk_samples.max(1)
    }

    /// Whether it has the array `crc`, of which the last checkpoint left `rows`: a compact signal gets it with its first row.
    pub(crate) fn has_checksums(&self, rows: u64) -> bool {
        self.small.is_none() || rows > 0
    }
}

/// Files and folders of a signal that may be lost in a power cut, relative to the signal's folder.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    pub(crate) shards: BTreeSet<u64>,
    /// Identity files.
    pub(crate) identity: BTreeSet<&'static str>,
    pub(crate) folders: BTreeSet<PathBuf>,
    /// Names that are durable once those folders are synced.
    pub(crate) rooting: BTreeSet<PathBuf>,
    /// Folders above the signal's, as paths.
    pub(crate) parents: BTreeSet<PathBuf>,
}

impl Dirty {
    /// Takes in what is dirty, too, or again: a part that turned out not to be durable.
    pub(crate) fn add(&mut self, other: Self) {
        self.shards.extend(other.shards);
        self.identity.extend(other.identity);
        self.folders.extend(other.folders);
        self.rooting.extend(other.rooting);
        self.parents.extend(other.parents);
    }

    /// Takes out the folders with new names.
    pub(crate) fn take_names(&mut self) -> Self {
        Self {
            folders: std::mem::take(&mut self.folders),
            rooting: std::mem::take(&mut self.rooting),
            parents: std::mem::take(&mut self.parents),
            ..Self::default()
        }
    }
}

/// Samples written since the last commit.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Bytes written. While they are few, they are among the operations.
    pub(crate) small_bytes: usize,
    /// They are not: their shards are synced instead.
    pub(crate) bulk: bool,
    /// The operation that contiguous samples may join: no gap and no replacement came since.
    pub(crate) last_samples: Option<usize>,
    /// Shards written to: samples, or a write mark.
    pub(crate) shards: BTreeSet<u64>,
}
