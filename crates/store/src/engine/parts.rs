//! Parts of a signal inside the writer: what it was at the last commit, what is not durable, what waits.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::tail::Tail;
use crate::meta::SignalMeta;

/// What a signal was at the last commit, without its tables.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub(crate) name: Arc<str>,
    pub(crate) meta: Arc<SignalMeta>,
    pub(crate) end: i64,
    /// Of the chunk that the end cuts short, where it is known.
    pub(crate) tail: Option<Tail>,
}

/// Files and folders of a signal that may be lost in a power cut, relative to the signal's folder.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    pub(crate) shards: BTreeSet<u64>,
    pub(crate) identity: bool,
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
        self.identity |= other.identity;
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
    /// Shards written to.
    pub(crate) shards: BTreeSet<u64>,
}
