//! Numbered changes of present pieces, for an index of many caches.

use std::collections::VecDeque;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::index::Index;
use crate::journal::{Op, Piece};
use crate::key::ObjectKey;
use crate::ranges::runs;

const MAX_CHANGES: usize = 1 << 14;

/// A position in a cache's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sequence {
    /// Changes when a cache starts empty; numbers are comparable within one.
    pub epoch: u64,
    /// Number of the last change of the journal.
    pub number: u64,
}

/// A change of present pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Change {
    /// Pieces became present.
    Added {
        /// Their object.
        key: ObjectKey,
        /// Its length.
        bytes: u64,
        /// Length of its pieces, except the last.
        piece_bytes: u64,
        /// Their numbers.
        pieces: Range<u32>,
    },
    /// A piece was damaged, or grew with the object.
    Dropped {
        /// Its object.
        key: ObjectKey,
        /// Its number.
        piece: u32,
    },
    /// The object was removed.
    Removed {
        /// The object.
        key: ObjectKey,
    },
}

/// Content of a cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Its sequence.
    pub sequence: Sequence,
    /// Every object.
    pub objects: Vec<ManifestEntry>,
}

/// An object of a [`Manifest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// The object.
    pub key: ObjectKey,
    /// Its length.
    pub bytes: u64,
    /// Length of its pieces, except the last.
    pub piece_bytes: u64,
    /// Present pieces.
    pub pieces: Vec<Range<u32>>,
}

/// The latest changes seen by this process.
#[derive(Debug)]
pub(crate) struct ChangeLog {
    /// All changes after this one are in the log.
    complete_after: u64,
    changes: VecDeque<(u64, Change)>,
}

impl ChangeLog {
    pub(crate) fn new(sequence: u64) -> Self {
        Self {
            complete_after: sequence,
            changes: VecDeque::new(),
        }
    }

    /// Call before the index applies the operation.
    pub(crate) fn note(&mut self, sequence: u64, op: &Op, index: &Index) {
        let key_of = |id: &u64| index.objects.get(id).map(|object| object.key.clone());
        let change = match op {
            Op::Stored {
                object,
                first,
                checksums,
            } => index.objects.get(object).map(|known| Change::Added {
                key: known.key.clone(),
                bytes: known.extent.bytes,
                piece_bytes: known.extent.piece_bytes,
                pieces: *first..first.saturating_add(checksums.len() as u32),
            }),
            Op::Dropped { object, piece } => {
                key_of(object).map(|key| Change::Dropped { key, piece: *piece })
            }
            Op::Grown { object, .. } => (index.objects.get(object)).and_then(|grown| {
                let piece = grown.last_short()?;
                matches!(grown.pieces.get(&piece), Some(Piece::Present(_))).then(|| {
                    Change::Dropped {
                        key: grown.key.clone(),
                        piece,
                    }
                })
            }),
            Op::Removed { object, .. } => key_of(object).map(|key| Change::Removed { key }),
            _ => None,
        };
        let Some(change) = change else {
            return;
        };
        if self.changes.len() == MAX_CHANGES
            && let Some((oldest, _)) = self.changes.pop_front()
        {
            // Its record counts as incomplete.
            self.complete_after = oldest;
        }
        self.changes.push_back((sequence, change));
    }

    /// `None` if some are no longer known.
    pub(crate) fn since(&self, number: u64) -> Option<Vec<Change>> {
        (number >= self.complete_after).then(|| {
            let after = self.changes.partition_point(|(at, _)| *at <= number);
            (self.changes.range(after..))
                .map(|(_, change)| change.clone())
                .collect()
        })
    }
}

pub(crate) fn manifest(index: &Index, sequence: Sequence) -> Manifest {
    let objects =
        (index.objects.values())
            .map(|object| ManifestEntry {
                key: object.key.clone(),
                bytes: object.extent.bytes,
                piece_bytes: object.extent.piece_bytes,
                pieces: runs((object.pieces.iter()).filter_map(|(piece, state)| {
                    matches!(state, Piece::Present(_)).then_some(*piece)
                })),
            })
            .collect();
    Manifest { sequence, objects }
}
